#include "cli/processes.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <thread>

#include "backend/plugin.h"
#include "backend/processes/launch.h"
#include "cli/console.h"

namespace simrun {
namespace {

// Until process 0, which complains for all, has been read: a launcher ends all as soon as one has ended.
constexpr std::chrono::seconds for_process_0{2};

// Why a group cannot be joined; empty: it can, and `link` does so.
struct Joinable {
  std::string why_not;
  std::function<std::unique_ptr<ProcessLink>()> link;
};

Joinable joinable(const Launch& launch) {
  if (!launch.error.empty()) return {launch.error, nullptr};
  const LoadedPlugin mpi = load_plugin("mpi");
  if (!mpi.usable())
    return {fmt::format("{} says that there are {} processes, which need MPI to run together: {}",
                        launch.from, launch.processes, mpi.why_not),
            nullptr};
  return {"", [mpi, launch] { return mpi.functions->join_processes({launch.process, launch.processes}); }};
}

[[noreturn]] void give_up(const RunFailure& failure, bool speaks) {
  if (speaks) complain(fmt::format("simrun: not as planned: {}\n", failure.text));
  std::_Exit(exit_code(failure.kind));
}

FailureKind kind_of(int exit_code) {
  switch (exit_code) {
    case 2: return FailureKind::refusal;
    case 4: return FailureKind::disagreement;
    default: return FailureKind::crash;
  }
}

}  // namespace

bool tells_of_mistakes() {
  const Launch launch = detect_launch();
  if (launch.process == 0) return true;
  std::this_thread::sleep_for(for_process_0);
  return false;
}

int exit_code(FailureKind kind) {
  switch (kind) {
    case FailureKind::none: return 0;
    case FailureKind::refusal: return 2;
    case FailureKind::disagreement: return 4;
    default: return 1;
  }
}

int run_among_processes(const std::function<Ending(ProcessGroup* processes)>& attempt) {
  const Launch launch = detect_launch();
  if (launch.error.empty() && launch.processes == 1) {
    const Ending ending = attempt(nullptr);
    complain(ending.complaint);
    return ending.code;
  }
  Joinable others = joinable(launch);
  std::optional<ProcessGroup> group;
  try {
    if (others.why_not.empty()) group.emplace(others.link, give_up, ProcessGroup::Limits{});
  } catch (const std::exception& error) {
    others.why_not = error.what();
  }
  if (!group) {
    if (tells_of_mistakes()) complain(fmt::format("simrun: error: {}\n", others.why_not));
    return 2;
  }
  const Ending ending = attempt(&*group);
  if (ending.complaint.empty()) {
    const FailureKind kind = group->leave().kind;
    return kind == FailureKind::none ? ending.code : exit_code(kind);
  }
  const RunFailure failure = group->fail({kind_of(ending.code), ending.complaint});
  // The run itself may have ended well before something else went wrong in this process.
  if (failure.kind == FailureKind::none || group->speaks())
    complain(failure.kind == FailureKind::none ? ending.complaint : failure.text);
  return failure.kind == FailureKind::none ? ending.code : exit_code(failure.kind);
}

}  // namespace simrun
