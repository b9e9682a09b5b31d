#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace simrun {

// Who a process is, for others on the same machine to see whether it is alive.
struct ProcessIdentity {
  std::int64_t pid = 0;
  std::string machine;  // the same for processes that see each other by pid
};
ProcessIdentity this_process();

// Whether the process of that number runs on this machine (one that waits to be reaped does not).
bool process_runs(std::int64_t pid);

// Which processes of a run are still there: by their pid on the same machine, and by their beats, whose
// absence for `silence` is taken for death.
class ProcessRoll {
 public:
  using Time = std::chrono::steady_clock::time_point;
  ProcessRoll(int processes, ProcessIdentity self, std::chrono::milliseconds silence);

  void introduce(int process, ProcessIdentity identity, Time now);
  void heard(int process, Time now) { of(process).heard = now; }
  // This process itself stood still for so long: nobody was silent in that time.
  void forgive(std::chrono::steady_clock::duration standstill);

  // Why a process is lost, as a clause ("has died"); empty: it is there.
  std::string loss(int process, Time now) const;
  // "process 3 (ranks 6-7, pid 4711)"; `ranks_each`: 0 where not known yet.
  std::string name(int process, std::int64_t ranks_each) const;

 private:
  struct Entry {
    ProcessIdentity identity;
    Time heard;
  };
  Entry& of(int process) { return entries_[static_cast<std::size_t>(process)]; }
  const Entry& of(int process) const { return entries_[static_cast<std::size_t>(process)]; }

  std::vector<Entry> entries_;
  const ProcessIdentity self_;
  const std::chrono::milliseconds silence_;
};

}  // namespace simrun
