#include <fmt/format.h>

#include <algorithm>

#include "schedules/lint_checks.h"

// GPUs and nodes that are in the cluster, and factors that times and bandwidths can have.
namespace simrun {
namespace {

bool all_below(const std::vector<std::int64_t>& numbers, std::int64_t count) {
  return std::ranges::all_of(numbers, [&](std::int64_t number) { return number >= 0 && number < count; });
}

bool has_ends(const OtherJob& of, const Cluster& cluster) {
  const bool is_collective = of.collective == "all_reduce" || of.collective == "all_gather" ||
                             of.collective == "reduce_scatter" || of.collective == "all_to_all";
  return all_below(of.nodes, cluster.nodes) && all_below(of.from, cluster.nodes) &&
         all_below(of.to, cluster.nodes) && of.from.size() == of.to.size() &&
         of.nodes.empty() != of.from.empty() && (of.nodes.empty() || is_collective) &&
         std::ranges::equal(of.from, of.to, std::ranges::not_equal_to());
}

bool is_fraction(double share) { return share >= 0 && share <= 1; }

}  // namespace

void check_imperfections(const Cluster& cluster, Findings& findings) {
  const Imperfections& imperfections = cluster.imperfections;
  const std::int64_t world = cluster.nodes * cluster.gpus_per_node;
  if (!(imperfections.jitter.coefficient_of_variation >= 0))
    findings.add(fmt::format("kernels have a coefficient of variation of {}",
                             imperfections.jitter.coefficient_of_variation));
  for (const Straggler& of : imperfections.stragglers) {
    if (!(of.slowdown >= 1))
      findings.add(fmt::format("the stragglers {} have a slowdown of {}", of.name, of.slowdown));
    if (!all_below(of.gpus, world) || !all_below(of.nodes, cluster.nodes) || of.count < 0 || of.count > world)
      findings.add(fmt::format("the stragglers {} are not all in the cluster", of.name));
  }
  for (const LinkFault& of : imperfections.links)
    if (!is_fraction(of.bandwidth_share) || !(of.added_latency_s >= 0))
      findings.add(fmt::format("the links {} keep {} of their bandwidth and have {} s more latency", of.name,
                               of.bandwidth_share, of.added_latency_s));
  for (const BackgroundTraffic& of : imperfections.background)
    if (!all_below(of.from, cluster.nodes) || !all_below(of.to, cluster.nodes) ||
        of.from.size() != of.to.size() || !(of.rate >= 0) || !is_fraction(of.share))
      findings.add(
          fmt::format("the background traffic {} has a rate of {} bytes/s, a share of {}, or ends "
                      "that are not in the cluster",
                      of.name, of.rate, of.share));
  for (const OtherJob& of : imperfections.other_jobs)
    if (!has_ends(of, cluster) || !(of.bytes > 0) || !(of.period_s >= 1e-9) || !(of.phase_s >= 0))
      findings.add(
          fmt::format("the other job {} moves {} bytes every {} s from {} s on, or has ends that are "
                      "not in the cluster",
                      of.name, of.bytes, of.period_s, of.phase_s));
}

}  // namespace simrun
