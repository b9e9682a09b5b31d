#include <catch2/catch.hpp>
#include <stdexcept>

#include "backend/execute.h"
#include "schedules/compile.h"
#include "schedules/lint.h"
#include "schedules/pipeline_schedule.h"
#include "tests/backend/checked_run.h"
#include "tests/context_jobs.h"

// The null device runs any plan: every rank finds its operands and its partners, and its memory peaks where
// the simulator says.
namespace simrun {
namespace {

void check_walk(const Plan& plan) { check_memory(plan, checked_run(plan, ExecutionDevice::null), true); }

Job job_on(int pipeline_ranks, const std::vector<Override>& overrides) {
  Job job = job_from(small_gpt(8, 1, pipeline_ranks, 1), overrides);
  return job;
}

}  // namespace

TEST_CASE("every schedule runs to its end on every rank, with the simulator's memory", "[long]") {
  int plans = 0;
  for (const ScheduleEntry& entry : pipeline_schedules()) {
    if (entry.name == "seq1f1b" || entry.name == "pipedream") continue;
    for (const int ranks : {2, 4})
      for (const int virtual_stages : {1, 2})
        for (const char* zero : {"0", "1"}) {
          CAPTURE(entry.name, ranks, virtual_stages, zero);
          PipelineShape shape;
          shape.ranks = ranks;
          shape.virtual_stages = virtual_stages;
          shape.microbatches = 8;
          if (!entry.refusal(shape).empty()) continue;
          Job job;
          try {
            job = job_on(
                ranks, {{"model.hidden_size", "64"},
                        {"model.vocab_size", "512"},
                        {"parallelism.pipeline_schedule", entry.name},
                        {"parallelism.virtual_pipeline_model_parallel_size", std::to_string(virtual_stages)},
                        {"training.global_batch_size", std::to_string(16 * (8 / ranks))},
                        {"optimizer.zero_stage", zero}});
          } catch (const std::exception&) {
            continue;  // not with this placement
          }
          check_walk(compile(job));
          ++plans;
        }
  }
  CHECK(plans >= 40);
}

TEST_CASE("context, expert and sharded parallelism run to their end on every rank", "[long]") {
  for (const char* type : context_types) check_walk(compile(context_job(type)));
  const std::string mixtral =
      "simrun: 1\n"
      "model: {model_type: mixtral, num_hidden_layers: 2, hidden_size: 64, intermediate_size: 128, "
      "num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 512, num_local_experts: 8, "
      "num_experts_per_tok: 2}\n"
      "training: {seq_length: 64, micro_batch_size: 1, global_batch_size: 16, precision: bf16}\n"
      "cluster: {from: dgx_h100, nodes: 1}\n";
  for (const char* ep : {"1", "2", "8"})
    for (const char* zero : {"0", "1", "3"}) {
      CAPTURE(ep, zero);
      check_walk(compile(job_from(
          mixtral, {{"parallelism.expert_model_parallel_size", ep}, {"optimizer.zero_stage", zero}})));
    }
}

}  // namespace simrun
