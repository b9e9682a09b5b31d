#include "cli/imperfection_costs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "schedules/timeline.h"
#include "sim/kernel_slowdowns.h"
#include "sim/simulate.h"
#include "sim/worker.h"

namespace simrun {
namespace {

struct LoneImperfection {
  std::string cause, what;
  Imperfections alone;
};

std::string numbers(const std::vector<std::int64_t>& of) {
  constexpr std::size_t shown = 4;
  if (of.size() <= shown) return fmt::format("{}", fmt::join(of, ", "));
  return fmt::format("{} and {} more", fmt::join(of.begin(), of.begin() + shown, ", "), of.size() - shown);
}

std::string jitter_text(const Jitter& jitter) {
  const char* const name = jitter.distribution == JitterDistribution::normal    ? "normal"
                           : jitter.distribution == JitterDistribution::uniform ? "uniform"
                                                                                : "lognormal";
  return fmt::format("{}, {:.3g} % of a kernel's time", name, 100 * jitter.coefficient_of_variation);
}

std::string straggler_text(const Cluster& cluster, const Straggler& straggler) {
  const std::string factor = fmt::format(" x {:.4g}", straggler.slowdown);
  if (!straggler.nodes.empty())
    return fmt::format("{} {}{}", straggler.nodes.size() == 1 ? "node" : "nodes", numbers(straggler.nodes),
                       factor);
  const std::vector<std::int64_t> gpus = straggling_gpus(cluster, straggler);
  if (gpus.size() == 1)
    return fmt::format("node{}.gpu{}{}", gpus[0] / cluster.gpus_per_node, gpus[0] % cluster.gpus_per_node,
                       factor);
  return fmt::format("GPUs {}{}", numbers(gpus), factor);
}

std::string fault_text(const LinkFault& fault) {
  if (fault.bandwidth_share == 0) return fault.pattern + " failed";
  std::string text = fault.pattern;
  if (fault.bandwidth_share < 1) text += fmt::format(" at {:.4g} %", 100 * fault.bandwidth_share);
  if (fault.added_latency_s > 0) text += fmt::format(" +{:.4g} us", 1e6 * fault.added_latency_s);
  return text;
}

std::string background_text(const BackgroundTraffic& traffic) {
  const std::string much = traffic.rate > 0 ? fmt::format("{:.4g} GB/s", 1e-9 * traffic.rate)
                                            : fmt::format("{:.4g} %", 100 * traffic.share);
  if (traffic.permutation) return much + " of a permutation of the nodes";
  if (!traffic.pattern.empty()) return much + " on " + traffic.pattern;
  return fmt::format("{} from node {} to {}", much, numbers(traffic.from), numbers(traffic.to));
}

std::string other_job_text(const OtherJob& job) {
  const std::string what =
      job.nodes.empty()
          ? fmt::format("{:.4g} GB from node {} to {}", 1e-9 * job.bytes, numbers(job.from), numbers(job.to))
          : fmt::format("{} of {:.4g} GB over node{} {}", job.collective, 1e-9 * job.bytes,
                        job.nodes.size() == 1 ? "" : "s", numbers(job.nodes));
  return fmt::format("{} every {:.4g} ms", what, 1e3 * job.period_s);
}

std::vector<LoneImperfection> each_alone(const Cluster& cluster) {
  const Imperfections& all = cluster.imperfections;
  std::vector<LoneImperfection> found;
  const auto add = [&](std::string cause, std::string what, const auto& set) {
    Imperfections alone;
    alone.seed = all.seed;
    set(alone);
    found.push_back({std::move(cause), std::move(what), std::move(alone)});
  };
  if (all.jitter.coefficient_of_variation > 0)
    add("jitter", jitter_text(all.jitter), [&](Imperfections& alone) { alone.jitter = all.jitter; });
  for (const Straggler& of : all.stragglers)
    add("stragglers." + of.name, straggler_text(cluster, of),
        [&](Imperfections& alone) { alone.stragglers = {of}; });
  for (const LinkFault& of : all.links)
    add("links." + of.name, fault_text(of), [&](Imperfections& alone) { alone.links = {of}; });
  for (const BackgroundTraffic& of : all.background)
    add("background." + of.name, background_text(of), [&](Imperfections& alone) { alone.background = {of}; });
  for (const OtherJob& of : all.other_jobs)
    add("other_jobs." + of.name, other_job_text(of), [&](Imperfections& alone) { alone.other_jobs = {of}; });
  return found;
}

}  // namespace

ImperfectionCosts imperfection_costs(const Plan& plan, const Timeline& timeline) {
  const EngineChoice engine = timeline.engine == "simgrid" ? EngineChoice::simgrid : EngineChoice::fast;
  std::vector<LoneImperfection> runs = each_alone(plan.cluster);
  runs.insert(runs.begin(), LoneImperfection{});
  std::vector<std::function<std::string()>> tasks;
  tasks.reserve(runs.size());
  for (const LoneImperfection& run : runs)
    tasks.emplace_back([&plan, &run, engine] {
      Plan changed = plan;
      changed.cluster.imperfections = run.alone;
      return std::to_string(simulate(changed, {Detail::totals, engine}).step);
    });
  const std::vector<std::string> steps = run_in_workers(tasks, 0);
  const auto seconds = [&](std::size_t run) { return to_seconds(std::stoll(steps[run])); };
  ImperfectionCosts costs;
  costs.without_s = seconds(0);
  costs.interaction_s = to_seconds(timeline.step) - costs.without_s;
  for (std::size_t run = 1; run < runs.size(); ++run) {
    const double added = seconds(run) - costs.without_s;
    costs.causes.push_back({runs[run].cause, runs[run].what, added});
    costs.interaction_s -= added;
  }
  return costs;
}

}  // namespace simrun
