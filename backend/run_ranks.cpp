#include "backend/run_ranks.h"

#include <fmt/format.h>

#include "backend/byte_stream.h"
#include "backend/process_group.h"
#include "backend/thread_fabric.h"
#include "configs/sha256.h"
#include "schedules/plan_file.h"

namespace simrun {
namespace {

// Of this process's ranks.
std::vector<std::byte> told(const Observations& observed, const std::vector<RankReport>& reports) {
  ByteWriter writer;
  writer.numbers(observed.to_bytes());
  writer.numbers(reports);
  return writer.take();
}

void merge(const std::vector<std::byte>& told, std::int64_t first_rank, std::int64_t ranks,
           Observations& observed, std::vector<RankReport>& reports) {
  ByteReader reader(told);
  observed.merge(reader.numbers<std::byte>());
  const auto theirs = reader.numbers<RankReport>();
  for (std::int64_t rank = first_rank; rank < first_rank + ranks; ++rank)
    reports.at(static_cast<std::size_t>(rank)) = theirs.at(static_cast<std::size_t>(rank));
}

}  // namespace

std::string agreement_of(const Plan& plan, const ExecuteOptions& options) {
  const Hyperparameters& training = options.training;
  const std::string numbers =
      fmt::format("{} {} {} {} {} {} {}", training.seed, training.learning_rate, training.beta1,
                  training.beta2, training.epsilon, training.weight_decay, training.momentum);
  return fmt::format("plan {} with {} steps on device {} and hyperparameters {}",
                     sha256(serialize(plan)).substr(0, 12), options.steps, static_cast<int>(options.device),
                     sha256(numbers).substr(0, 8));
}

RunFailure run_ranks(const Plan& plan, const ExecuteOptions& options,
                     const std::function<void(std::int64_t, Transport&)>& body, Observations& observed,
                     std::vector<RankReport>& reports) {
  const auto ranks = static_cast<std::int64_t>(reports.size());
  if (options.processes == nullptr) {
    ThreadFabric fabric(ranks, options.limit);
    fabric.run(body);
    return fabric.state().failure;
  }
  ProcessGroup& processes = *options.processes;
  const ProcessGroup::Outcome outcome = processes.run({.ranks = ranks,
                                                       .agreement = agreement_of(plan, options),
                                                       .limit = options.limit,
                                                       .body = body,
                                                       .collect = [&] { return told(observed, reports); }});
  const std::int64_t each = ranks / processes.processes();
  for (std::size_t process = 1; process < outcome.collected.size(); ++process)
    merge(outcome.collected[process], static_cast<std::int64_t>(process) * each, each, observed, reports);
  return outcome.failure;
}

}  // namespace simrun
