#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/processes/frames.h"
#include "backend/processes/link.h"
#include "backend/processes/roll.h"
#include "backend/processes/stall_waves.h"
#include "backend/processes/termination_signals.h"
#include "backend/run_failure.h"
#include "backend/thread_fabric.h"

namespace simrun {

// The processes of one run, each of which has the same number of its ranks as threads: process p has ranks
// [p k, (p + 1) k). A thread of its own carries messages and watches.
//
// Process 0 hears from all and decides how the run ends; the others are told. It speaks for all: only it
// prints and writes. Where it is lost itself, the first process that is left does.
//
// Nobody waits for ever. A run ends when all ranks have; when a rank or a process fails; when a process has
// died, or is silent for Limits::silence; when no rank of any process can go on; or on SIGTERM, SIGINT and
// SIGHUP, of which mpirun sends the first to all when one has died.
class ProcessGroup {
 public:
  struct Limits {
    std::chrono::milliseconds beat{200};  // between signs of life
    std::chrono::milliseconds silence{4'000};
    std::chrono::milliseconds farewell{2'000};  // for ranks that compute on, and for other processes' words
  };
  // Called where this process must end and one of its ranks goes on computing; `speaks`: the failure is this
  // process's to print. Must not return.
  using GiveUp = std::function<void(const RunFailure& failure, bool speaks)>;

  // `join` starts the library behind the link.
  ProcessGroup(const std::function<std::unique_ptr<ProcessLink>()>& join, GiveUp give_up, Limits limits);
  // One that does not speak for a failed run gives the speaker time to be read: a launcher kills all as soon
  // as one has ended.
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int process() const { return process_; }
  int processes() const { return processes_; }
  // Whether this process prints.
  bool speaks() const;
  // Whether the run has failed or been ended: what a rank still computes is for nobody. Any thread may ask.
  bool has_ended() const;

  struct Work {
    std::int64_t ranks = 0;                   // of the plan
    std::string agreement;                    // what all processes must have alike: the plan's hash, options
    std::chrono::milliseconds limit{60'000};  // for which a rank waits for another
    std::function<void(std::int64_t rank, Transport&)> body;
    std::function<std::vector<std::byte>()> collect;  // what this process tells process 0 when all went well
  };
  struct Outcome {
    RunFailure failure;
    std::vector<std::vector<std::byte>> collected;  // by process, in process 0
  };
  // Runs this process's ranks. All processes get the same failure; behind one nothing more can be run.
  Outcome run(const Work& work);
  // Between runs: bytes of process 0 for all; it passes them, the others get them. Throws TransportError
  // where the run has failed meanwhile.
  std::string share(std::string bytes);
  // Behind the last run, by all processes: waits for the others to come so far. Returns why they did not.
  RunFailure leave();

  // Ends all processes instead of run(); returns what the run fails with, which may be another's failure.
  RunFailure fail(const RunFailure& failure);

 private:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;

  // ---- the thread that carries and watches ----
  void carry();
  bool is_deaf(Time now, Time last);
  bool move_frames();
  void watch(Time now);      // needs mutex_
  bool may_leave(Time now);  // needs mutex_
  void give_up_if_late(std::unique_lock<std::mutex>& lock, Time now);
  void dissolve();

  // ---- what is said; all need mutex_ ----
  void post(int to, FrameKind kind, std::vector<std::byte> payload, Frame::Head head = {});
  void handle(int from, Frame frame);
  void tell_state(std::int64_t wave);
  void take_state(int from, std::int64_t wave, ThreadFabric::State state);
  void ask_all();
  void note_agreement(int from, const std::string& agreement);
  void note_done(int from, std::vector<std::byte> collected);
  void finish_run();

  // ---- how the run ends (process_group_end.cpp); all need mutex_ ----
  bool has_just_woken(Time now) const {
    return awake_since_ != Time{} && now <= awake_since_ + limits_.silence;
  }
  void look_after_others(Time now);
  void look_for_signals(Time now);
  void suspect(RunFailure failure, Time due);
  void conclude_if_due(Time now);
  void report(const RunFailure& failure);
  void conclude(const RunFailure& failure);
  void accept_end(RunFailure failure);
  std::string with_waits(const std::string& text) const;
  std::string name(int process) const { return roll_.name(process, ranks_ / processes_); }

  TerminationSignals signals_;  // before the link, whose library starts threads
  const std::unique_ptr<ProcessLink> link_;
  const int process_, processes_;
  const GiveUp give_up_;
  const Limits limits_;

  mutable std::mutex mutex_;
  std::condition_variable work_, news_;  // for the carrying thread; for the one that runs
  std::deque<std::pair<int, Frame>> outgoing_;
  bool speaks_ = false;
  std::int64_t ranks_ = 0;  // of the plan, once known
  ThreadFabric* fabric_ = nullptr;
  bool may_start_ = false, computes_ = false, has_finished_ = false, leaving_ = false;
  std::deque<std::string> shared_;  // by process 0, not yet taken
  bool told_to_end_ = false;        // by a signal
  std::optional<RunFailure> end_;   // how the run ended; of kind none: well
  Time ended_at_{}, leave_by_{};
  Time awake_since_{};  // this process stood still until then
  ProcessRoll roll_;
  struct Suspicion {
    RunFailure failure;
    Time due;
  };
  std::optional<Suspicion> suspicion_;  // what is concluded when due, with the waits known by then

  // Of process 0.
  StallWaves waves_;
  std::vector<std::optional<std::string>> agreements_;
  std::vector<std::optional<std::vector<std::byte>>> collected_;

  std::thread carrier_;  // last: it uses all of the above
};

// Why so many processes cannot run a plan of so many ranks, and how many can; "": they can.
std::string uneven_shares(std::int64_t ranks, int processes);

}  // namespace simrun
