#include "models/expert_fanout.h"

#include <algorithm>
#include <cmath>

namespace simrun {
namespace {

// C(n, k), by its logarithm; 0 where there is no choice.
double log_choices(double n, double k) {
  return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1);
}

// That k of n, chosen at random, are among the `outside` that are not the destination's.
double miss(std::int64_t n, std::int64_t outside, std::int64_t k) {
  if (outside < k) return 0;
  return std::exp(log_choices(static_cast<double>(outside), static_cast<double>(k)) -
                  log_choices(static_cast<double>(n), static_cast<double>(k)));
}

// That of `chosen` groups out of `groups` exactly `hit` are among `own`.
double chosen_groups(std::int64_t groups, std::int64_t chosen, std::int64_t own, std::int64_t hit) {
  const std::int64_t others = groups - own, rest = chosen - hit;
  if (hit > own || rest < 0 || rest > others) return 0;
  const auto choices = [](std::int64_t n, std::int64_t k) {
    return log_choices(static_cast<double>(n), static_cast<double>(k));
  };
  return std::exp(choices(own, hit) + choices(others, rest) - choices(groups, chosen));
}

// The experts of a token in terms of groups: `chosen` of `groups` of `size` experts.
struct Grouping {
  std::int64_t groups = 1, chosen = 1, size = 1;
};

double expected(const Grouping& grouping, std::int64_t topk, std::int64_t destinations) {
  const std::int64_t experts = grouping.groups * grouping.size;
  const std::int64_t own = experts / destinations;  // experts of a destination
  const std::int64_t open = grouping.chosen * grouping.size;
  double missed = 0;
  if (own >= grouping.size) {
    const std::int64_t own_groups = own / grouping.size;
    for (std::int64_t hit = 0; hit <= std::min(own_groups, grouping.chosen); ++hit)
      missed += chosen_groups(grouping.groups, grouping.chosen, own_groups, hit) *
                miss(open, open - hit * grouping.size, topk);
  } else {
    const double is_open = static_cast<double>(grouping.chosen) / static_cast<double>(grouping.groups);
    missed = 1 - is_open + is_open * miss(open, open - own, topk);
  }
  return static_cast<double>(destinations) * (1 - missed);
}

// Destinations hold whole groups, or groups whole destinations.
bool fits(const Grouping& grouping, std::int64_t destinations) {
  return grouping.groups % destinations == 0 || destinations % grouping.groups == 0;
}

Grouping grouping_of(const ExpertConfig& experts) {
  if (experts.groups <= 0 || experts.topk_groups <= 0) return {1, 1, experts.count};
  return {experts.groups, experts.topk_groups, experts.count / experts.groups};
}

}  // namespace

double expected_destinations(const ExpertConfig& experts, std::int64_t destinations) {
  const Grouping grouping = grouping_of(experts);
  return expected(fits(grouping, destinations) ? grouping : Grouping{1, 1, experts.count}, experts.topk,
                  destinations);
}

double expected_nodes(const ExpertConfig& experts, std::int64_t node_limit, std::int64_t nodes) {
  const std::int64_t on_limit = node_limit * (experts.count / nodes);  // experts to choose from
  if (experts.groups == 0 && node_limit > 0 && node_limit < nodes && on_limit >= experts.topk)
    return expected({nodes, node_limit, experts.count / nodes}, experts.topk, nodes);
  const double unlimited = expected_destinations(experts, nodes);
  return node_limit > 0 ? std::min(unlimited, static_cast<double>(node_limit)) : unlimited;
}

}  // namespace simrun
