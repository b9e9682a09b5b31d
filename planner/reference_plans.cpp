#include "planner/reference_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "configs/diagnostics.h"
#include "planner/estimate.h"
#include "planner/microbatch_sizes.h"
#include "sim/in_threads.h"

namespace simrun {
namespace {

constexpr std::int64_t most_sequences = 16;
constexpr double too_high = 1.5;     // x its step: an estimate, at most
constexpr std::size_t at_once = 16;  // simulated between two looks at the best

struct MegatronShape {
  std::int64_t tensor = 1, pipeline = 1, sequences = 1;  // of a microbatch, per rank
  bool sequence_parallel = false;
};

std::vector<Override> overrides_of(const MegatronShape& shape, int zero_stage) {
  return {{"parallelism.tensor_model_parallel_size", fmt::format("{}", shape.tensor)},
          {"parallelism.pipeline_model_parallel_size", fmt::format("{}", shape.pipeline)},
          {"parallelism.virtual_pipeline_model_parallel_size", "1"},
          {"parallelism.pipeline_schedule", "1f1b"},
          {"parallelism.pipeline_model_parallel_layout", "\"\""},
          {"parallelism.sequence_parallel", shape.sequence_parallel ? "true" : "false"},
          {"optimizer.zero_stage", fmt::format("{}", zero_stage)},
          {"training.micro_batch_size", fmt::format("{}", shape.sequences)}};
}

std::string grid_name(const MegatronShape& shape) {
  return fmt::format("Megatron-like: tensor {}{}, pipeline {}, {} per microbatch", shape.tensor,
                     shape.sequence_parallel ? " + sequence" : "", shape.pipeline, shape.sequences);
}

class ReferencePlans {
 public:
  ReferencePlans(const Job& job, const JobLoader& load, const ReferenceLimits& limits,
                 const PlanProgress& progress)
      : job_(job),
        load_(load),
        limits_(limits),
        progress_(progress),
        threads_(limits.threads > 0 ? limits.threads : thread_per_processor()) {}

  std::vector<SimulatedPlan> all() {
    std::vector<SimulatedPlan> plans;
    const auto add = [&](std::optional<SimulatedPlan> plan) {
      if (plan) plans.push_back(std::move(*plan));
    };
    add(data_parallel("data parallel", 0));
    add(data_parallel("ZeRO-2", 2));
    add(data_parallel("ZeRO-3", 3));
    add(megatron());
    return plans;
  }

 private:
  struct EstimatedShape {
    MegatronShape shape;
    double step_s = 0, peak_bytes = 0;  // 0: not known
  };

  static bool allows(const std::vector<std::int64_t>& allowed, std::int64_t value) {
    return allowed.empty() || std::ranges::count(allowed, value) > 0;
  }

  bool goes_on() {
    was_stopped_ = was_stopped_ || (progress_ && !progress_("simulating what stands beside", 0, 0));
    return !was_stopped_;
  }

  std::optional<SimulatedPlan> data_parallel(const std::string& name, int zero_stage) {
    if (!allows(limits_.pipelines, 1) || !allows(limits_.zero_stages, zero_stage)) return std::nullopt;
    if (!goes_on()) return std::nullopt;
    std::vector<MegatronShape> shapes;
    for (const std::int64_t sequences : microbatches_of(job_.parallelism.context_parallel_size))
      shapes.push_back({.sequences = sequences});
    std::optional<SimulatedPlan> best;
    std::vector<SimulatedPlan> plans = simulated(shapes, zero_stage);
    for (std::size_t i = 0; i < plans.size(); ++i) {
      plans[i].name = fmt::format("{}, {} per microbatch", name, shapes[i].sequences);
      keep_better(best, std::move(plans[i]));
    }
    return best;
  }

  std::optional<SimulatedPlan> megatron() {
    int zero_stage = job_.optimizer.zero_stage;
    if (!allows(limits_.zero_stages, zero_stage)) zero_stage = static_cast<int>(limits_.zero_stages.front());
    std::vector<EstimatedShape> left = estimated(grid(), zero_stage);
    std::optional<SimulatedPlan> best;
    while (!left.empty() && goes_on()) {
      std::vector<MegatronShape> next;
      std::vector<EstimatedShape> behind;
      for (const EstimatedShape& of : left)
        if (!best || !best->fits || of.step_s <= too_high * best->step_s) {
          if (next.size() < at_once)
            next.push_back(of.shape);
          else
            behind.push_back(of);
        }
      left = std::move(behind);
      for (SimulatedPlan& plan : simulated(next, zero_stage)) keep_better(best, std::move(plan));
    }
    return best;
  }

  std::vector<MegatronShape> grid() const {
    std::vector<MegatronShape> shapes;
    for (const std::int64_t tensor : divisors_of(job_.cluster.gpus_per_node))
      for (const std::int64_t pipeline : divisors_of(job_.world_size() / tensor)) {
        const std::int64_t ranks = tensor * pipeline * job_.parallelism.context_parallel_size;
        if (!allows(limits_.pipelines, pipeline)) continue;
        for (const std::int64_t sequences : microbatches_of(ranks))
          for (const bool sequence_parallel : {false, true})
            if (tensor > 1 || !sequence_parallel)
              shapes.push_back({tensor, pipeline, sequences, sequence_parallel});
      }
    return shapes;
  }

  // Sequences of a microbatch that divide what a data-parallel rank has of the batch, with so many ranks
  // each.
  std::vector<std::int64_t> microbatches_of(std::int64_t ranks) const {
    const std::int64_t data = job_.world_size() / ranks;
    if (job_.world_size() % ranks != 0 || job_.training.global_batch_size % data != 0) return {};
    std::vector<std::int64_t> sizes = divisors_of(job_.training.global_batch_size / data);
    std::erase_if(sizes, [](std::int64_t size) { return size > most_sequences; });
    return sizes;
  }

  // The best estimate first, without what the loader refuses and what does not fit, or the smallest alone
  // where nothing does; all in their own order where there are no estimates.
  std::vector<EstimatedShape> estimated(const std::vector<MegatronShape>& shapes, int zero_stage) const {
    std::vector<EstimatedShape> all;
    if (!has_layer_kinds(job_)) {
      for (const MegatronShape& shape : shapes) all.push_back({shape});
      return all;
    }
    std::optional<EstimatedShape> smallest;
    for (const bool sequence_parallel : {false, true}) {
      SharedStepPrices steps;
      Estimator estimator(
          job_, [&](const Candidate& of) { return loaded(of, sequence_parallel); }, steps);
      for (const MegatronShape& shape : shapes) {
        if (shape.sequence_parallel != sequence_parallel) continue;
        const std::optional<Estimate> estimate = estimate_of(shape, zero_stage, estimator);
        if (!estimate) continue;
        const EstimatedShape found{shape, estimate->step_s, estimate->peak_bytes};
        double room = estimate->room_bytes;
        if (limits_.max_memory > 0) room = std::min(room, static_cast<double>(limits_.max_memory));
        if (estimate->may_fit(room)) all.push_back(found);
        if (!smallest || found.peak_bytes < smallest->peak_bytes) smallest = found;
      }
    }
    std::ranges::stable_sort(all, {}, &EstimatedShape::step_s);
    if (all.empty() && smallest) all.push_back(*smallest);
    return all;
  }

  std::optional<Estimate> estimate_of(const MegatronShape& shape, int zero_stage,
                                      Estimator& estimator) const {
    Candidate candidate;
    candidate.tensor = shape.tensor;
    candidate.context = job_.parallelism.context_parallel_size;
    candidate.pipeline = shape.pipeline;
    candidate.expert = job_.parallelism.expert_model_parallel_size;
    candidate.expert_tensor = job_.parallelism.expert_tensor_parallel_size;
    const std::int64_t of_replica = shape.tensor * candidate.context * shape.pipeline;
    if (job_.world_size() % of_replica != 0) return std::nullopt;
    candidate.data = job_.world_size() / of_replica;
    candidate.micro_batch = shape.sequences;
    candidate.zero_stage = zero_stage;
    candidate.recompute = job_.recompute.granularity;
    if (shape.pipeline > 1) candidate.schedule = "1f1b";
    return estimator.estimate(candidate, std::numeric_limits<double>::infinity());
  }

  std::optional<Job> loaded(const Candidate& of, bool sequence_parallel) const {
    try {
      return load_(overrides_of({of.tensor, of.pipeline, of.micro_batch, sequence_parallel}, of.zero_stage));
    } catch (const ConfigError&) {
      return std::nullopt;
    }
  }

  std::vector<SimulatedPlan> simulated(const std::vector<MegatronShape>& shapes, int zero_stage) const {
    std::vector<SimulatedPlan> plans(shapes.size());
    in_threads(threads_, shapes.size(), [&](unsigned, std::size_t i) {
      plans[i] = simulate_plan(grid_name(shapes[i]), overrides_of(shapes[i], zero_stage), load_,
                               {.max_memory = limits_.max_memory});
    });
    return plans;
  }

  static void keep_better(std::optional<SimulatedPlan>& best, SimulatedPlan plan) {
    if (!best || is_better(plan, *best)) best = std::move(plan);
  }

  const Job& job_;
  const JobLoader& load_;
  const ReferenceLimits& limits_;
  const PlanProgress& progress_;
  unsigned threads_;
  bool was_stopped_ = false;
};

}  // namespace

std::vector<SimulatedPlan> reference_plans(const Job& job, const JobLoader& load,
                                           const ReferenceLimits& limits, const PlanProgress& progress) {
  return ReferencePlans(job, load, limits, progress).all();
}

}  // namespace simrun
