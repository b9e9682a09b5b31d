#include "backend/run_ranks.h"

#include <fmt/format.h>

#include "backend/byte_stream.h"
#include "backend/processes/group.h"
#include "backend/text_data.h"
#include "backend/thread_fabric.h"
#include "configs/sha256.h"
#include "schedules/plan_file.h"

namespace simrun {
namespace {

// Ranks [first, end) are a process's.
struct Share {
  std::size_t first = 0, end = 0;
};

void write(const MeasuredStep& step, ByteWriter& writer) {
  writer.number(step.begin_ns);
  writer.number(step.end_ns);
  writer.numbers(step.instructions);
}

MeasuredStep read_step(ByteReader& reader) {
  MeasuredStep step;
  step.begin_ns = reader.number<std::int64_t>();
  step.end_ns = reader.number<std::int64_t>();
  step.instructions = reader.numbers<MeasuredInstruction>();
  return step;
}

std::vector<std::byte> told(const Share& share, const Observations& observed, const Execution& execution) {
  ByteWriter writer;
  writer.numbers(observed.to_bytes());
  for (std::size_t rank = share.first; rank < share.end; ++rank) {
    writer.number(execution.ranks[rank]);
    if (execution.measured.ranks.empty()) continue;
    const std::vector<MeasuredStep>& steps = execution.measured.ranks[rank];
    writer.number(static_cast<std::int64_t>(steps.size()));
    for (const MeasuredStep& step : steps) write(step, writer);
  }
  return writer.take();
}

void merge(const std::vector<std::byte>& told, const Share& share, Observations& observed,
           Execution& execution) {
  ByteReader reader(told);
  observed.merge(reader.numbers<std::byte>());
  for (std::size_t rank = share.first; rank < share.end; ++rank) {
    execution.ranks[rank] = reader.number<RankReport>();
    if (execution.measured.ranks.empty()) continue;
    const auto steps = reader.number<std::int64_t>();
    for (std::int64_t step = 0; step < steps; ++step)
      execution.measured.ranks[rank].push_back(read_step(reader));
  }
}

}  // namespace

std::string agreement_of(const Plan& plan, const ExecuteOptions& options) {
  const Hyperparameters& training = options.training;
  const std::string numbers =
      fmt::format("{} {} {} {} {} {} {}", training.seed, training.learning_rate, training.beta1,
                  training.beta2, training.epsilon, training.weight_decay, training.momentum);
  const std::string files = fmt::format(
      "{}{}", options.start == nullptr ? "" : " from checkpoint " + options.start->digest().substr(0, 8),
      training.text == nullptr ? "" : " on text " + training.text->digest().substr(0, 8));
  return fmt::format("plan {} with {} steps on device {} and hyperparameters {}{}",
                     sha256(serialize(plan)).substr(0, 12), options.steps, static_cast<int>(options.device),
                     sha256(numbers).substr(0, 8), files);
}

RunFailure run_ranks(const Plan& plan, const ExecuteOptions& options,
                     const std::function<void(std::int64_t, Transport&)>& body, Observations& observed,
                     Execution& execution) {
  const std::size_t ranks = execution.ranks.size();
  if (options.processes == nullptr) {
    ThreadFabric fabric(static_cast<std::int64_t>(ranks), options.limit);
    fabric.run(body);
    return fabric.state().failure;
  }
  ProcessGroup& processes = *options.processes;
  const auto share_of = [&](std::size_t process) {
    const std::size_t each = ranks / static_cast<std::size_t>(processes.processes());
    return Share{process * each, (process + 1) * each};
  };
  const Share own = share_of(static_cast<std::size_t>(processes.process()));
  const ProcessGroup::Outcome outcome =
      processes.run({.ranks = static_cast<std::int64_t>(ranks),
                     .agreement = agreement_of(plan, options),
                     .limit = options.limit,
                     .body = body,
                     .collect = [&] { return told(own, observed, execution); }});
  for (std::size_t process = 1; process < outcome.collected.size(); ++process)
    merge(outcome.collected[process], share_of(process), observed, execution);
  return outcome.failure;
}

}  // namespace simrun
