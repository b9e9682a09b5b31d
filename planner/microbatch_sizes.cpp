#include "planner/microbatch_sizes.h"

#include <algorithm>

namespace simrun {
namespace {

constexpr std::int64_t most_sequences = 64;  // of a microbatch, per device: images are small
constexpr double longest_bubble = 1.5;       // x the work: never the best, and pipelines are many

}  // namespace

std::vector<std::int64_t> divisors_of(std::int64_t number) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t d = 1; d <= number; ++d)
    if (number % d == 0) divisors.push_back(d);
  return divisors;
}

std::vector<std::int64_t> microbatch_sizes(const Job& job, std::int64_t pipeline, std::int64_t microbatches) {
  const std::int64_t batch = job.training.global_batch_size, devices = job.world_size() / pipeline;
  std::vector<std::int64_t> sizes;
  if (microbatches > 0) return batch % microbatches == 0 ? std::vector{batch / microbatches} : sizes;
  for (const std::int64_t sequences : divisors_of(batch)) {
    const std::int64_t count = batch / sequences;
    const double bubble = static_cast<double>(pipeline - 1) / static_cast<double>(count);
    if (sequences > most_sequences * devices || bubble > longest_bubble) continue;
    sizes.push_back(sequences);
  }
  std::reverse(sizes.begin(), sizes.end());
  return sizes;
}

}  // namespace simrun
