#include "planner/step_costs.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "planner/pass_costs.h"
#include "schedules/compile.h"
#include "sim/collective_cost.h"
#include "sim/durations.h"

namespace simrun {
namespace {

bool is_reduction(Opcode opcode) { return opcode == Opcode::all_reduce || opcode == Opcode::reduce_scatter; }

std::int64_t ranks_of(const Plan& plan, const Communication& communication) {
  const Mesh& mesh = plan.stages.front().meshes[communication.group.mesh];
  std::int64_t ranks = 1;
  for (const std::uint8_t axis : communication.group.axes) ranks *= mesh.axes[axis].size;
  return ranks;
}

}  // namespace

// The largest of some communications that a plan has.
struct StepCosts::Largest {
  const Instruction* instruction = nullptr;
  double bytes = 0;
  void offer(const Plan& plan, const Instruction& of) {
    const double size = communicated_bytes(plan, of);
    if (size > bytes) *this = {&of, size};
  }
};

struct StepCosts::Priced {
  explicit Priced(const Job& job) : plan(compile(job)), durations(plan) {}

  // Collectives over data-parallel ranks by the size of their groups: the larger one is that of dense layers.
  void find() {
    std::map<std::int64_t, Largest> reductions, gathers;
    for (const Segment& segment : plan.segments)
      for (const Instruction& of : segment.instructions) {
        const bool is_first_stage = segment.chunk == 0;
        if (is_first_stage && of.opcode == Opcode::send &&
            plan.streams[of.stream].traffic == Traffic::pipeline)
          send.offer(plan, of);
        if (segment.kind == PassKind::step && of.phase == Phase::optimizer && of.stream == compute_stream &&
            of.opcode != Opcode::free)
          updates.push_back(&of);
        if (of.communication == no_index || plan.streams[of.stream].traffic != Traffic::data) continue;
        const std::int64_t ranks = ranks_of(plan, plan.communications[of.communication]);
        if (is_reduction(of.opcode)) reductions[ranks].offer(plan, of);
        if (of.opcode == Opcode::all_gather) gathers[ranks].offer(plan, of);
      }
    if (!reductions.empty()) reduce = {reductions.rbegin()->second, reductions.begin()->second};
    if (!gathers.empty()) gather = {gathers.rbegin()->second, gathers.begin()->second};
  }

  // In buckets of at most `bucket` elements.
  double time(const Largest& of, double elements, double bytes_per_element) {
    if (of.instruction == nullptr || elements <= 0) return 0;
    const double buckets = std::ceil(elements / bucket);
    return buckets *
           to_seconds(durations.exchange_time(0, *of.instruction, elements * bytes_per_element / buckets));
  }

  Plan plan;
  Durations durations;
  Largest send;
  std::pair<Largest, Largest> reduce, gather;  // dense, expert
  std::vector<const Instruction*> updates;     // of all stages
  double bucket = 4e7, reduced_bytes = 4, gathered_bytes = 2;
  double update_per_element = 0;
};

StepCosts::StepCosts(const Job& job, const Candidate& candidate) {
  Candidate shape = candidate;
  shape.pipeline = std::min<std::int64_t>(candidate.pipeline, 2);
  shape.recompute = RecomputeGranularity::none;
  shape.zero_stage = std::min(candidate.zero_stage, 1);
  shape.micro_batch = 1;
  priced_ = std::make_unique<Priced>(probe_job(job, shape, candidate.data));
  priced_->find();
  priced_->bucket = static_cast<double>(std::max<std::int64_t>(job.optimizer.bucket_size, 1'000'000));
  priced_->reduced_bytes = static_cast<double>(bytes_of(job.optimizer.grad_reduce_dtype));
  priced_->gathered_bytes = static_cast<double>(bytes_of(job.training.precision));
  double seconds = 0, elements = 0;
  for (const Instruction* update : priced_->updates) {
    seconds += to_seconds(priced_->durations.of(0, *update));
    for (const Index output : update->outputs)
      if (priced_->plan.buffers[output].category == Category::weights)
        elements += static_cast<double>(priced_->plan.buffers[output].elements());
  }
  priced_->update_per_element = elements > 0 ? seconds / elements : 0;
}

StepCosts::~StepCosts() = default;
StepCosts::StepCosts(StepCosts&&) noexcept = default;

double StepCosts::send_s(std::int64_t micro_batch) {
  if (priced_->send.instruction == nullptr) return 0;
  return to_seconds(priced_->durations.exchange_time(0, *priced_->send.instruction,
                                                     priced_->send.bytes * static_cast<double>(micro_batch)));
}

double StepCosts::reduce_s(double dense_elements, double expert_elements) {
  return priced_->time(priced_->reduce.first, dense_elements, priced_->reduced_bytes) +
         priced_->time(priced_->reduce.second, expert_elements, priced_->reduced_bytes);
}

double StepCosts::gather_s(double dense_elements, double expert_elements) {
  return priced_->time(priced_->gather.first, dense_elements, priced_->gathered_bytes) +
         priced_->time(priced_->gather.second, expert_elements, priced_->gathered_bytes);
}

double StepCosts::update_s(double elements) const { return priced_->update_per_element * elements; }

}  // namespace simrun
