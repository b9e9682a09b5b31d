#include "planner/simulated_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

#include "configs/diagnostics.h"
#include "schedules/compile.h"
#include "schedules/summary.h"
#include "sim/plan_job.h"
#include "sim/simulate.h"
#include "sim/worker.h"

namespace simrun {

SimulatedPlan simulate_plan(std::string name, std::vector<Override> overrides, const JobLoader& load,
                            EngineChoice engine) {
  SimulatedPlan simulated;
  simulated.name = std::move(name);
  simulated.overrides = std::move(overrides);
  try {
    const Plan plan = plan_job(load(simulated.overrides));
    const Summary summary = summarize(plan, simulate(plan, {Detail::totals, engine}));
    simulated.shares_links = summary.engine == "simgrid";
    simulated.step_s = summary.step_time_s;
    simulated.peak_bytes = summary.peak_memory_bytes;
    simulated.limit_bytes = summary.memory_limit_bytes;
    simulated.gpu = summary.peak_gpu;
    simulated.fits = summary.fits;
  } catch (const ConfigError& error) {
    simulated.refusal = error.diagnostics().empty() ? error.what() : error.diagnostics().front().message;
  } catch (const std::invalid_argument& error) {
    simulated.refusal = error.what();
  } catch (const std::range_error& error) {
    simulated.refusal = error.what();
  } catch (const WorkerError& error) {
    simulated.refusal = error.what();
  }
  return simulated;
}

bool is_better(const SimulatedPlan& a, const SimulatedPlan& b) {
  if (!a.refusal.empty() || !b.refusal.empty()) return a.refusal.empty() && !b.refusal.empty();
  if (a.fits != b.fits) return a.fits;
  return a.step_s < b.step_s;
}

namespace {

struct MegatronShape {
  std::int64_t tensor = 1, pipeline = 1, sequences = 1;  // of a microbatch, per rank
  bool sequence_parallel = false;
};

std::vector<Override> overrides_of(const MegatronShape& shape) {
  return {{"parallelism.tensor_model_parallel_size", fmt::format("{}", shape.tensor)},
          {"parallelism.pipeline_model_parallel_size", fmt::format("{}", shape.pipeline)},
          {"parallelism.virtual_pipeline_model_parallel_size", "1"},
          {"parallelism.pipeline_schedule", "1f1b"},
          {"parallelism.pipeline_model_parallel_layout", "\"\""},
          {"parallelism.sequence_parallel", shape.sequence_parallel ? "true" : "false"},
          {"training.micro_batch_size", fmt::format("{}", shape.sequences)}};
}

class ReferencePlans {
 public:
  ReferencePlans(const Job& job, const JobLoader& load) : job_(job), load_(load) {}

  SimulatedPlan data_parallel(const std::string& name, int zero_stage) const {
    std::optional<SimulatedPlan> best;
    for (std::int64_t sequences = 1; sequences <= most_sequences; sequences *= 2)
      keep_better(best, zero(name, {.sequences = sequences}, zero_stage));
    return *best;
  }

  SimulatedPlan megatron() const {
    std::optional<SimulatedPlan> best;
    for (std::int64_t tensor = 1; tensor <= job_.cluster.gpus_per_node; tensor *= 2)
      for (std::int64_t pipeline = 1; tensor * pipeline <= job_.world_size(); pipeline *= 2)
        for (std::int64_t sequences = 1; sequences <= most_sequences; sequences *= 2)
          for (const bool sequence_parallel : {false, true}) {
            if (sequence_parallel && tensor == 1) continue;
            const std::string name =
                fmt::format("Megatron-like: tensor {}{}, pipeline {}, {} per microbatch", tensor,
                            sequence_parallel ? " + sequence" : "", pipeline, sequences);
            keep_better(
                best,
                simulate_plan(name, overrides_of({tensor, pipeline, sequences, sequence_parallel}), load_));
          }
    return *best;
  }

 private:
  static constexpr std::int64_t most_sequences = 16;

  SimulatedPlan zero(const std::string& name, const MegatronShape& shape, int stage) const {
    std::vector<Override> overrides = overrides_of(shape);
    overrides.push_back({"optimizer.zero_stage", fmt::format("{}", stage)});
    return simulate_plan(fmt::format("{}, {} per microbatch", name, shape.sequences), std::move(overrides),
                         load_);
  }

  static void keep_better(std::optional<SimulatedPlan>& best, SimulatedPlan plan) {
    if (!best || is_better(plan, *best)) best = std::move(plan);
  }

  const Job& job_;
  const JobLoader& load_;
};

}  // namespace

std::vector<SimulatedPlan> reference_plans(const Job& job, const JobLoader& load) {
  const ReferencePlans plans(job, load);
  return {plans.data_parallel("data parallel", 0), plans.data_parallel("ZeRO-2", 2),
          plans.data_parallel("ZeRO-3", 3), plans.megatron()};
}

}  // namespace simrun
