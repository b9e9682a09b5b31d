#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "backend/execute.h"
#include "backend/plugin.h"
#include "backend/processes/group.h"
#include "backend/processes/launch.h"
#include "backend/run_ranks.h"
#include "configs/sha256.h"
#include "schedules/compile.h"
#include "tests/backend/tiny_jobs.h"

// A run over processes with faults to order, for tests/processes/run.sh: started by mpirun, it runs a tiny
// job of 8 ranks and prints a hash of all its results, or one line of what went wrong.
//
//   rank_program [FAULT WHERE]
//     throw RANK      the rank throws when it sends
//     die RANK        its process kills itself (SIGKILL)
//     stop RANK       its process stops (SIGSTOP): neither alive nor dead
//     wait RANK       the rank waits for a message that nobody sends
//     compute RANK    another rank throws while this one computes for a minute
//     linger RANK     says so, and computes for a minute
//     plan PROCESS    the process has another plan
namespace simrun {
namespace {

struct Fault {
  std::string kind;
  std::int64_t where = -1;
};

// Passes messages on until the fault is due: at the rank's 24th message, when all have started.
class FaultyTransport final : public Transport {
 public:
  FaultyTransport(Transport& through, Fault fault, std::int64_t rank)
      : through_(through), fault_(std::move(fault)), rank_(rank) {}
  void send(std::int64_t to, const MessageTag& tag, Message message) override {
    if (++messages_ == 24) misbehave();
    through_.send(to, tag, std::move(message));
  }
  Message receive(std::int64_t from, const MessageTag& tag, const std::string& waiting_for) override {
    return through_.receive(from, tag, waiting_for);
  }

 private:
  void misbehave() {
    if (fault_.kind == "compute" && rank_ == (fault_.where + 1) % 8)
      throw std::runtime_error("the disk is full");
    if (rank_ != fault_.where) return;
    if (fault_.kind == "throw") throw std::runtime_error("the disk is full");
    if (fault_.kind == "die") std::raise(SIGKILL);
    if (fault_.kind == "stop") std::raise(SIGSTOP);
    if (fault_.kind == "wait") through_.receive((rank_ + 1) % 8, {0x7000, 0}, "a test");
    if (fault_.kind == "linger") std::fputs("lingers\n", stderr);
    if (fault_.kind == "compute" || fault_.kind == "linger")
      std::this_thread::sleep_for(std::chrono::minutes(1));
  }
  Transport& through_;
  const Fault fault_;
  const std::int64_t rank_;
  int messages_ = 0;
};

Plan tiny_plan(std::int64_t micro_batch_size) {
  return compile(tiny_job({.model = tiny_llama,
                           .parallelism = "{tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2}",
                           .optimizer = "{zero_stage: 1}",
                           .gpus = 8,
                           .micro_batch_size = static_cast<int>(micro_batch_size)}));
}

std::string text_of(const ParameterValues& values) {
  std::string text;
  for (const auto& [id, tensor] : values.tensors()) {
    text += tensor.name;
    for (const double value : tensor.values) text += fmt::format(" {:a}", value);
  }
  return text;
}

int tell(const Execution& execution, bool speaks) {
  if (execution.failure.empty()) {
    if (!speaks) return 0;
    std::string all = text_of(execution.gradients) + text_of(execution.parameters);
    for (const double loss : execution.loss) all += fmt::format(" {:a}", loss);
    for (const RankReport& rank : execution.ranks)
      all += fmt::format(" {} {}", rank.planned_peak_bytes, rank.instructions);
    fmt::print("{} loss {:.6f}\n", sha256(all), execution.loss.front());
    return 0;
  }
  if (speaks) fmt::print(stderr, "{}\n", execution.failure);
  return execution.failure_kind == FailureKind::disagreement ? 4 : 1;
}

int run(const Fault& fault) {
  const Launch launch = detect_launch();
  if (!launch.error.empty()) throw std::runtime_error(launch.error);
  std::optional<ProcessGroup> group;
  if (launch.processes > 1) {
    const LoadedPlugin mpi = load_plugin("mpi");
    if (!mpi.usable()) throw std::runtime_error(mpi.why_not);
    group.emplace(
        [&] {
          return mpi.functions->join_processes({launch.process, launch.processes});
        },
        [](const RunFailure& failure, bool speaks) {
          if (speaks) fmt::print(stderr, "{}\n", failure.text);
          std::_Exit(failure.kind == FailureKind::disagreement ? 4 : 1);
        },
        ProcessGroup::Limits{});
  }
  const Plan plan = tiny_plan(fault.kind == "plan" && fault.where == launch.process ? 2 : 1);
  ExecuteOptions options;
  options.steps = 2;
  options.processes = group ? &*group : nullptr;
  options.around_transport = [&](Transport& through, std::int64_t rank) -> std::unique_ptr<Transport> {
    return std::make_unique<FaultyTransport>(through, fault, rank);
  };
  const Execution execution = execute(plan, options);
  if (group) group->leave();
  return tell(execution, !group || group->speaks());
}

}  // namespace
}  // namespace simrun

int main(int argc, char** argv) {
  try {
    simrun::Fault fault;
    if (argc == 3) fault = {argv[1], std::atoll(argv[2])};
    return simrun::run(fault);
  } catch (const std::exception& error) {
    fmt::print(stderr, "rank_program: {}\n", error.what());
    return 1;
  }
}
