#include "planner/step_prices.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "planner/pass_costs.h"
#include "schedules/compile.h"
#include "sim/collective_cost.h"
#include "sim/compute_stretch.h"
#include "sim/durations.h"
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
  LargestExchange send;
  std::map<std::int64_t, LargestExchange> reductions, gathers;  // over data-parallel ranks, by their number
};

PricedExchanges priced_exchanges(const Plan& plan) {
  PricedExchanges found;
  for (const Segment& segment : plan.segments)
    for (const Instruction& of : segment.instructions) {
      if (of.communication == no_index) continue;
      const Traffic traffic = plan.streams[of.stream].traffic;
      if (segment.chunk == 0 && of.opcode == Opcode::send && traffic == Traffic::pipeline)
        found.send.offer(plan, of);
      if (traffic != Traffic::data) continue;
      if (communicated_bytes(plan, of) < least_of_parameters) continue;
      const std::int64_t ranks = ranks_of(plan, plan.communications[of.communication]);
      if (of.opcode == Opcode::all_reduce || of.opcode == Opcode::reduce_scatter)
        found.reductions[ranks].offer(plan, of);
      if (of.opcode == Opcode::all_gather) found.gathers[ranks].offer(plan, of);
    }
  return found;
}

PriceCurve curve_of(const LargestExchange& of, Durations& durations) {
  PriceCurve curve;
  if (of.instruction == nullptr) return curve;
  for (double bytes = least_priced; bytes <= most_priced; bytes *= next_priced) {
    curve.bytes.push_back(bytes);
    curve.seconds.push_back(to_seconds(durations.exchange_time(0, *of.instruction, bytes)));
  }
  return curve;
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

double StepPrices::send_s(const Candidate& candidate) const {
  return send.at(sent_bytes * static_cast<double>(candidate.micro_batch) /
                 static_cast<double>(candidate.context));
}

double StepPrices::reduce_s(double dense_elements, double expert_elements) const {
  return in_buckets(reduce_dense, dense_elements, reduced_bytes, bucket) +
         in_buckets(reduce_expert, expert_elements, reduced_bytes, bucket);
}

double StepPrices::gather_s(double dense_elements, double expert_elements) const {
  return in_buckets(gather_dense, dense_elements, gathered_bytes, bucket) +
         in_buckets(gather_expert, expert_elements, gathered_bytes, bucket);
}

StepPrices step_prices(const Job& job, const Candidate& candidate) {
  Candidate shape = candidate;
  shape.pipeline = std::min<std::int64_t>(candidate.pipeline, 2);
  // Gradients are summed over context-parallel ranks too.
  shape.data = candidate.data * candidate.context;
  shape.context = 1;
  shape.recompute = RecomputeGranularity::none;
  shape.zero_stage = std::min(candidate.zero_stage, 1);
  shape.micro_batch = 1;
  const Plan plan = with_step_clock(compile(probe_job(job, shape, shape.data)));
  Durations durations(plan);
  const PricedExchanges found = priced_exchanges(plan);
  StepPrices costs;
  costs.send = curve_of(found.send, durations);
  costs.sent_bytes = found.send.bytes;
  // The larger group is that of dense layers.
  if (!found.reductions.empty()) {
    costs.reduce_dense = curve_of(found.reductions.rbegin()->second, durations);
    costs.reduce_expert = curve_of(found.reductions.begin()->second, durations);
  }
  if (!found.gathers.empty()) {
    costs.gather_dense = curve_of(found.gathers.rbegin()->second, durations);
    costs.gather_expert = curve_of(found.gathers.begin()->second, durations);
  }
  costs.bucket = static_cast<double>(std::max<std::int64_t>(job.optimizer.bucket_size, 1'000'000));
  costs.reduced_bytes = static_cast<double>(bytes_of(job.optimizer.grad_reduce_dtype));
  costs.gathered_bytes = static_cast<double>(bytes_of(job.training.precision));
  costs.update_s_per_element = update_rate(plan, durations);
  return costs;
}

}  // namespace simrun
