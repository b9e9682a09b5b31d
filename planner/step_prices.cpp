#include "planner/step_prices.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "planner/pass_costs.h"
#include "schedules/compile.h"
#include "sim/collective_cost.h"
#include "sim/compute_stretch.h"
#include "sim/durations.h"
#include "sim/host_step.h"
#include "sim/step_clock.h"

namespace simrun {
namespace {

constexpr double least_of_parameters = 1024;  // bytes: the norm's sum over all ranks is of one number
constexpr double least_priced = 0x1p18, most_priced = 0x1p34, next_priced = 4;  // bytes

// The largest of some communications that a plan has.
struct LargestExchange {
  const Instruction* instruction = nullptr;
  double bytes = 0;
  void offer(const Plan& plan, const Instruction& of) {
    const double size = communicated_bytes(plan, of);
    if (size > bytes) *this = {&of, size};
  }
};

std::int64_t ranks_of(const Plan& plan, const Communication& communication) {
  const Mesh& mesh = plan.stages.front().meshes[communication.group.mesh];
  std::int64_t ranks = 1;
  for (const std::uint8_t axis : communication.group.axes) ranks *= mesh.axes[axis].size;
  return ranks;
}

// What is priced of a plan.
struct PricedExchanges {
  std::map<std::int32_t, LargestExchange> sends;                // by pipeline rank, to the next one
  std::map<std::int64_t, LargestExchange> reductions, gathers;  // over data-parallel ranks, by their number
  LargestExchange tied;                                         // sum over the first and the last stage
};

PricedExchanges priced_exchanges(const Plan& plan) {
  PricedExchanges found;
  for (const Segment& segment : plan.segments)
    for (const Instruction& of : segment.instructions) {
      if (of.communication == no_index) continue;
      const Traffic traffic = plan.streams[of.stream].traffic;
      const Communication& communication = plan.communications[of.communication];
      if (of.opcode == Opcode::send && traffic == Traffic::pipeline) {
        const std::int32_t rank = plan.chunks[segment.chunk].pipeline_rank;
        if (communication.peer.pipeline_rank > rank) found.sends[rank].offer(plan, of);
      }
      if (traffic != Traffic::data) continue;
      if (communicated_bytes(plan, of) < least_of_parameters) continue;
      if (!communication.group.pipeline_ranks.empty()) {
        found.tied.offer(plan, of);
        continue;
      }
      const std::int64_t ranks = ranks_of(plan, communication);
      if (of.opcode == Opcode::all_reduce || of.opcode == Opcode::reduce_scatter)
        found.reductions[ranks].offer(plan, of);
      if (of.opcode == Opcode::all_gather) found.gathers[ranks].offer(plan, of);
    }
  return found;
}

PriceCurve curve_of(const LargestExchange& of, Durations& durations, std::int32_t pipeline_rank) {
  PriceCurve curve;
  if (of.instruction == nullptr) return curve;
  for (double bytes = least_priced; bytes <= most_priced; bytes *= next_priced) {
    curve.bytes.push_back(bytes);
    curve.seconds.push_back(to_seconds(durations.exchange_time(pipeline_rank, *of.instruction, bytes)));
  }
  return curve;
}

DataPrices data_prices(const PricedExchanges& found, Durations& durations, std::int32_t pipeline_rank) {
  DataPrices prices;
  // The larger group is that of dense layers.
  if (!found.reductions.empty()) {
    prices.reduce_dense = curve_of(found.reductions.rbegin()->second, durations, pipeline_rank);
    prices.reduce_expert = curve_of(found.reductions.begin()->second, durations, pipeline_rank);
  }
  if (!found.gathers.empty()) {
    prices.gather_dense = curve_of(found.gathers.rbegin()->second, durations, pipeline_rank);
    prices.gather_expert = curve_of(found.gathers.begin()->second, durations, pipeline_rank);
  }
  return prices;
}

// Pipeline ranks lie on nodes in so many ways: all further ones lie like those before them.
std::int64_t ways_to_lie(const Job& job, const Candidate& candidate) {
  const std::int64_t node = job.cluster.gpus_per_node;
  return node / std::gcd(node, candidate.tensor * candidate.context * candidate.data);
}

// Pipeline ranks that a shorter pipeline has so that they lie in all ways, with all ways from one to the
// next, and its first and last one as those of the whole pipeline do.
std::int64_t probed_ranks(std::int64_t ranks, std::int64_t ways) {
  if (ranks <= ways) return ranks;
  return ways + 1 + (ranks - ways - 1) % ways;
}

// Seconds by the elements that a GPU updates, over all stages.
double update_rate(const Plan& plan, Durations& durations) {
  double seconds = 0, elements = 0;
  for (const Segment& segment : plan.segments) {
    if (segment.kind != PassKind::step) continue;
    const double stretch = compute_stretch(durations, 0, segment.instructions);
    for (const Instruction& of : segment.instructions) {
      if (of.phase != Phase::optimizer || of.stream != compute_stream || of.opcode == Opcode::free) continue;
      seconds += to_seconds(durations.of(0, of)) * stretch;
      for (const Index output : of.outputs)
        if (plan.buffers[output].category == Category::weights)
          elements += static_cast<double>(plan.buffers[output].elements());
    }
  }
  return elements > 0 ? seconds / elements : 0;
}

double in_buckets(const PriceCurve& curve, double elements, double bytes_per_element, double bucket) {
  if (elements <= 0) return 0;
  const double buckets = std::ceil(elements / bucket);
  return buckets * curve.at(elements * bytes_per_element / buckets);
}

}  // namespace

double PriceCurve::at(double size) const {
  if (bytes.empty() || size <= 0) return 0;
  auto above = static_cast<std::size_t>(std::ranges::upper_bound(bytes, size) - bytes.begin());
  above = std::clamp<std::size_t>(above, 1, bytes.size() - 1);
  const double share = (size - bytes[above - 1]) / (bytes[above] - bytes[above - 1]);
  return std::max(seconds[above - 1] + share * (seconds[above] - seconds[above - 1]), 0.0);
}

std::vector<double> StepPrices::sends_s(const Candidate& candidate) const {
  const double bytes =
      sent_bytes * static_cast<double>(candidate.micro_batch) / static_cast<double>(candidate.context);
  std::vector<double> seconds;
  for (const PriceCurve& curve : sends) seconds.push_back(curve.at(bytes));
  const auto boundaries = static_cast<std::size_t>(candidate.pipeline - 1);
  while (!seconds.empty() && seconds.size() < boundaries)
    seconds.push_back(seconds[seconds.size() - sends.size()]);
  seconds.resize(boundaries);
  return seconds;
}

double StepPrices::tied_s(double elements) const { return tied.at(elements * reduced_bytes); }

double StepPrices::reduce_s(std::size_t pipeline_rank, double dense_elements, double expert_elements) const {
  const DataPrices& of = ranks[pipeline_rank % ranks.size()];
  return in_buckets(of.reduce_dense, dense_elements, reduced_bytes, bucket) +
         in_buckets(of.reduce_expert, expert_elements, reduced_bytes, bucket);
}

double StepPrices::gather_s(std::size_t pipeline_rank, double dense_elements, double expert_elements) const {
  const DataPrices& of = ranks[pipeline_rank % ranks.size()];
  return in_buckets(of.gather_dense, dense_elements, gathered_bytes, bucket) +
         in_buckets(of.gather_expert, expert_elements, gathered_bytes, bucket);
}

StepPrices step_prices(const Job& job, const Candidate& candidate) {
  Candidate shape = candidate;
  // Gradients are summed over context-parallel ranks too.
  shape.data = candidate.data * candidate.context;
  shape.context = 1;
  shape.recompute = RecomputeGranularity::none;
  shape.zero_stage = std::min(candidate.zero_stage, 1);
  shape.micro_batch = 1;
  const std::int64_t all_ways = ways_to_lie(job, shape);
  shape.pipeline = probed_ranks(candidate.pipeline, all_ways);
  Job probe = probe_job(job, shape, shape.data);
  // Stages send what the candidate's ranks hold, not what they would without its context parallelism.
  probe.parallelism.sequence_parallel = takes_sequence_parallel(job, candidate);
  const Plan plan = with_step_clock(compile(probe));
  Durations durations(plan);
  const PricedExchanges found = priced_exchanges(plan);
  const auto ways = static_cast<std::int32_t>(std::min(all_ways, candidate.pipeline));
  StepPrices costs;
  for (std::int32_t rank = 0; rank < ways; ++rank) costs.ranks.push_back(data_prices(found, durations, rank));
  for (const auto& [rank, send] : found.sends) {
    if (rank < ways) costs.sends.push_back(curve_of(send, durations, rank));
    costs.sent_bytes = std::max(costs.sent_bytes, send.bytes);
  }
  costs.tied = curve_of(found.tied, durations, 0);
  costs.bucket = static_cast<double>(std::max<std::int64_t>(job.optimizer.bucket_size, 1'000'000));
  costs.reduced_bytes = static_cast<double>(bytes_of(job.optimizer.grad_reduce_dtype));
  costs.gathered_bytes = static_cast<double>(bytes_of(job.training.precision));
  costs.update_s_per_element = update_rate(plan, durations);
  const auto has_host_step = [&](const Segment& of) { return host_step_instruction(plan, of) != no_index; };
  if (std::ranges::any_of(plan.segments, has_host_step))
    costs.host_step_s = plan.framework.kernels.host_step_s;
  return costs;
}

}  // namespace simrun
