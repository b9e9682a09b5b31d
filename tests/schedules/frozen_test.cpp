#include <catch2/catch.hpp>
#include <map>

#include "schedules/compile.h"
#include "schedules/lint.h"
#include "tests/jobs.h"
#include "tests/schedules/run_bytes.h"

// Frozen parameters in plans: what a rank keeps and exchanges.
namespace simrun {
namespace {

struct Count {
  std::int64_t bytes = 0;
  std::int64_t elements = 0;
};

int instructions_in(const Plan& plan, std::int32_t stage, PassKind kind) {
  int count = 0;
  for (const Segment& segment : plan.segments)
    if (segment.kind == kind && plan.chunks[segment.chunk].stage == stage)
      count += static_cast<int>(segment.instructions.size());
  return count;
}

const std::vector<Override> adapters{{"training.lora", "{rank: 8}"}};

TEST_CASE("a frozen parameter costs 2 bytes, a trained one 18") {
  const Plan plan = compile(job_from(small_gpt(4, 1, 1, 1), adapters));
  CHECK(lint(plan).empty());
  const std::int64_t trained = plan.job.parameters - plan.job.frozen_parameters;
  // h = 1024, rank 8: qkv 1024 + 3072, projection 1024 + 1024, fc1 1024 + 4096, fc2 4096 + 1024.
  CHECK(trained == 4 * 8 * (4096 + 2048 + 5120 + 5120));
  std::map<Category, std::int64_t> kept = run_bytes(plan);
  CHECK(kept[Category::weights] == 2 * plan.job.parameters);
  CHECK(kept[Category::gradients] == 4 * trained);
  CHECK(kept[Category::optimizer] == 12 * trained);
}

TEST_CASE("only the adapters' gradients are summed over data-parallel ranks") {
  const Plan plan = compile(job_from(small_gpt(4, 1, 1, 1), adapters));
  std::int64_t reduced = 0;
  for (const Entry& entry : plan.programs[0].entries)
    for (const Instruction& what : plan.segments[entry.segment].instructions)
      if (what.opcode == Opcode::all_reduce && what.label == "gradient reduction")
        reduced += plan.buffers[what.inputs[0]].elements();
  CHECK(reduced == plan.job.parameters - plan.job.frozen_parameters);
}

TEST_CASE("stages with nothing to train before and in them have no backward pass and keep no activations") {
  const std::vector<Override> overrides{{"model.frozen", "[embedding, \"layers[0-3]\"]"},
                                        {"parallelism.pipeline_schedule", "1f1b"}};
  const Plan plan = compile(job_from(small_gpt(8, 2, 4, 1), overrides));  // two layers per stage
  CHECK(lint(plan).empty());
  for (const std::int32_t stage : {0, 1}) {
    CHECK(instructions_in(plan, stage, PassKind::backward) == 0);
    for (const Segment& segment : plan.segments)
      if (plan.chunks[segment.chunk].stage == stage && segment.kind == PassKind::communication)
        for (const Instruction& what : segment.instructions) CHECK(what.label != "gradient");
  }
  for (const std::int32_t stage : {2, 3}) CHECK(instructions_in(plan, stage, PassKind::backward) > 0);
}

TEST_CASE("adapters compile and lint in every schedule, ZeRO stage and tensor layout") {
  const auto [schedule, virtual_stages] = GENERATE(table<std::string, std::string>(
      {{"1f1b", "1"}, {"interleaved_1f1b", "2"}, {"zb_h1", "1"}, {"zb_v", "2"}, {"dualpipe", "1"}}));
  const std::string zero = GENERATE("0", "1", "2", "3");
  const std::string sequence_parallel = GENERATE("false", "true");
  if (schedule == "dualpipe" && zero > "1") return;  // refused for any job
  CAPTURE(schedule, zero, sequence_parallel);
  for (const char* lora : {"{rank: 8}", "{rank: 8, targets: [q, v, fc2], dropout: 0.1}"}) {
    // GPT's word embeddings are tied, which zero_stage 2 and 3 refuse on one rank.
    const Job job =
        job_from(small_gpt(8, 2, 2, 1), {{"training.lora", lora},
                                         {"model.untie_embeddings_and_output_weights", "true"},
                                         {"parallelism.pipeline_schedule", schedule},
                                         {"parallelism.virtual_pipeline_model_parallel_size", virtual_stages},
                                         {"parallelism.sequence_parallel", sequence_parallel},
                                         {"optimizer.zero_stage", zero}});
    CHECK(lint(compile(job)).empty());
  }
}

TEST_CASE("adapters' products are split as their targets: B by columns, A by rows") {
  const Plan plan = compile(job_from(small_gpt(2, 2, 1, 1), adapters));
  const auto split_of = [&](const std::string& name) {
    for (const Buffer& buffer : plan.buffers) {
      if (buffer.name != "stage 0 " + name) continue;
      std::string text;
      for (std::size_t d = 0; d < buffer.dims.size(); ++d)
        text += (d > 0 ? " " : "") + plan.dimension_names[buffer.dims[d].name] +
                (buffer.split[d].empty() ? "" : "/" + buffer.split[d]);
      return text;
    }
    return std::string("missing");
  };
  CHECK(split_of("qkv_lora_a_weight") == "hidden lora_rank");
  CHECK(split_of("qkv_lora_b_weight") == "lora_rank kv_heads/tp qkv head_dim");
  CHECK(split_of("attention_projection_lora_a_weight") == "kv_heads/tp group head_dim lora_rank");
  CHECK(split_of("attention_projection_lora_b_weight") == "lora_rank hidden");
  CHECK(split_of("fc1_lora_b_weight") == "lora_rank ffn/tp");
  CHECK(split_of("fc2_lora_a_weight") == "ffn/tp lora_rank");
}

TEST_CASE("parallel branches with an adapter on one of them still add up") {
  const std::string neox =
      "simrun: 1\n"
      "model: {from: models/pythia-6.9b.yaml}\n"
      "training: {seq_length: 512, micro_batch_size: 1, global_batch_size: 8, precision: bf16, "
      "lora: {rank: 8, targets: [attention_projection]}}\n"
      "parallelism: {tensor_model_parallel_size: 2, sequence_parallel: true}\n"
      "cluster: {from: dgx_h100, nodes: 1}\n";
  CHECK(lint(compile(job_from(neox))).empty());
}

}  // namespace
}  // namespace simrun
