#include "sim/kernel_slowdowns.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace simrun {

namespace {

std::uint64_t seed_of(const Cluster& cluster) {
  return static_cast<std::uint64_t>(cluster.imperfections.seed);
}

// The first `count` of a shuffled deck (Fisher and Yates).
std::vector<std::int64_t> drawn(const RandomStream& random, std::int64_t count, std::int64_t world) {
  std::vector<std::int64_t> deck(static_cast<std::size_t>(world));
  std::iota(deck.begin(), deck.end(), 0);
  count = std::min(count, world);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto other = i + static_cast<std::int64_t>(random.uniform(i) * static_cast<double>(world - i));
    std::swap(deck[static_cast<std::size_t>(i)], deck[static_cast<std::size_t>(other)]);
  }
  deck.resize(static_cast<std::size_t>(count));
  return deck;
}

}  // namespace

std::vector<std::int64_t> straggling_gpus(const Cluster& cluster, const Straggler& straggler) {
  const std::int64_t world = cluster.nodes * cluster.gpus_per_node;
  std::vector<std::int64_t> gpus = straggler.gpus;
  for (const std::int64_t node : straggler.nodes)
    for (std::int64_t g = 0; g < cluster.gpus_per_node; ++g) gpus.push_back(node * cluster.gpus_per_node + g);
  if (straggler.count > 0)
    gpus = drawn(RandomStream(seed_of(cluster), "straggler " + straggler.name, 0), straggler.count, world);
  std::sort(gpus.begin(), gpus.end());
  return gpus;
}

KernelSlowdowns::KernelSlowdowns(const Cluster& cluster)
    : jitter_(cluster.imperfections.jitter), random_(seed_of(cluster), "jitter", 0) {
  const double cv = jitter_.coefficient_of_variation;
  log_deviation_ = std::sqrt(std::log1p(cv * cv));
  for (const Straggler& straggler : cluster.imperfections.stragglers) {
    if (straggler.slowdown == 1) continue;
    of_gpu_.resize(static_cast<std::size_t>(cluster.nodes * cluster.gpus_per_node), 1);
    for (const std::int64_t gpu : straggling_gpus(cluster, straggler))
      of_gpu_.at(static_cast<std::size_t>(gpu)) *= straggler.slowdown;
  }
}

double KernelSlowdowns::most() const {
  const double slowest = of_gpu_.empty() ? 1 : *std::max_element(of_gpu_.begin(), of_gpu_.end());
  const double cv = jitter_.coefficient_of_variation;
  const double furthest = std::sqrt(2 * 32 * std::log(2.0));  // Box and Muller's, of 32-bit numbers
  if (!has_jitter()) return slowest;
  switch (jitter_.distribution) {
    case JitterDistribution::normal: return slowest * (1 + cv * furthest);
    case JitterDistribution::uniform: return slowest * (1 + std::sqrt(3.0) * cv);
    case JitterDistribution::lognormal: break;
  }
  return slowest * std::exp(log_deviation_ * furthest);
}

double KernelSlowdowns::jitter(const Execution& execution) const {
  // A place has a block of four words to itself.
  const std::int64_t place = 4 * ((static_cast<std::int64_t>(execution.entry) << 30) +
                                  static_cast<std::int64_t>(execution.instruction));
  const double cv = jitter_.coefficient_of_variation;
  switch (jitter_.distribution) {
    case JitterDistribution::normal: return std::max(0.0, 1 + cv * random_.normal(place, execution.gpu));
    case JitterDistribution::uniform:
      return 1 + std::sqrt(3.0) * cv * (2 * random_.uniform(place, execution.gpu) - 1);
    case JitterDistribution::lognormal: break;
  }
  return std::exp(log_deviation_ * (random_.normal(place, execution.gpu) - log_deviation_ / 2));
}

}  // namespace simrun
