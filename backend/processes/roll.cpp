#include "backend/processes/roll.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

namespace simrun {

ProcessIdentity this_process() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::error_code none;  // containers on one host may have pids of their own
  const std::string pids = std::filesystem::read_symlink("/proc/self/ns/pid", none).string();
  return {getpid(), fmt::format("{} {} {}", host.data(), boot, pids)};
}

bool process_runs(std::int64_t pid) {
  if (kill(static_cast<pid_t>(pid), 0) != 0) return errno != ESRCH;
  // "4711 (name, which may have brackets) Z ..."
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  const std::size_t bracket = line.rfind(')');
  if (bracket == std::string::npos || bracket + 2 >= line.size()) return true;
  return line[bracket + 2] != 'Z' && line[bracket + 2] != 'X';
}

ProcessRoll::ProcessRoll(int processes, ProcessIdentity self, std::chrono::milliseconds silence)
    : entries_(static_cast<std::size_t>(processes), Entry{{}, std::chrono::steady_clock::now()}),
      self_(std::move(self)),
      silence_(silence) {}

void ProcessRoll::introduce(int process, ProcessIdentity identity, Time now) {
  of(process) = {std::move(identity), now};
}

void ProcessRoll::forgive(std::chrono::steady_clock::duration standstill) {
  for (Entry& entry : entries_) entry.heard += standstill;
}

std::string ProcessRoll::loss(int process, Time now) const {
  const Entry& entry = of(process);
  if (entry.identity.pid != 0 && entry.identity.machine == self_.machine && !process_runs(entry.identity.pid))
    return "has died";
  if (now - entry.heard > silence_)
    return fmt::format("has not been heard of for {} s", std::chrono::duration<double>(silence_).count());
  return "";
}

std::string ProcessRoll::name(int process, std::int64_t ranks_each) const {
  std::string about;
  if (ranks_each == 1) about = fmt::format("rank {}, ", process);
  if (ranks_each > 1)
    about = fmt::format("ranks {}-{}, ", process * ranks_each, (process + 1) * ranks_each - 1);
  const std::int64_t pid = of(process).identity.pid;
  about += pid == 0 ? "not heard of yet" : fmt::format("pid {}", pid);
  return fmt::format("process {} ({})", process, about);
}

}  // namespace simrun
