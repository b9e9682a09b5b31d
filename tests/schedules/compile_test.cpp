#include "schedules/compile.h"

#include <catch2/catch.hpp>
#include <map>

#include "schedules/instruction_flops.h"
#include "schedules/lint.h"
#include "schedules/plan_file.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

using Overrides = std::vector<Override>;

// Bytes per rank that the forward pass of one microbatch keeps for the backward pass: what one more layer
// adds.
std::map<std::string, std::int64_t> kept_by_a_layer(int tp, Overrides overrides) {
  std::map<std::string, std::int64_t> kept;
  for (const int layers : {1, 2}) {
    const Plan plan = compile(job_from(small_gpt(layers, tp, 1, 1), overrides));
    for (const Buffer& buffer : plan.buffers)
      if (buffer.scope == Scope::microbatch) kept[buffer.name] += (layers == 2 ? 1 : -1) * buffer.bytes();
  }
  return kept;
}

// Korthikanti et al. 2022 count no norm statistics (mean and 1/deviation, fp32, of both norms): named and set
// apart here.
std::int64_t without_statistics(const std::map<std::string, std::int64_t>& kept,
                                std::int64_t expected_statistics) {
  std::int64_t total = 0;
  std::int64_t statistics = 0;
  for (const auto& [name, bytes] : kept)
    (name.find("norm_statistics") == std::string::npos ? total : statistics) += bytes;
  CHECK(statistics == expected_statistics);
  return total;
}

TEST_CASE("activations: Korthikanti et al. 2022 table 2 holds to the byte in every column") {
  const std::int64_t s = 512, b = 2, h = 1024, a = 16;
  const std::int64_t sbh = s * b * h;
  const std::int64_t scores = 5 * a * s * s * b;  // 5as/h x sbh: softmax 2, mask 1, dropout output 2 bytes
  const std::int64_t statistics = 2 * 2 * 4 * s * b;
  const Override sequence_parallel{"parallelism.sequence_parallel", "true"};
  const Override selective{"recompute", "{granularity: selective}"};
  const Override full{"recompute", "{granularity: full}"};
  // no parallelism: sbh (34 + 5as/h)
  CHECK(without_statistics(kept_by_a_layer(1, {}), statistics) == 34 * sbh + scores);
  for (const std::int64_t t : {2, 4, 8}) {
    const int tp = static_cast<int>(t);
    CAPTURE(t);
    // tensor: sbh (10 + 24/t + 5as/ht)
    CHECK(without_statistics(kept_by_a_layer(tp, {}), statistics) == 10 * sbh + 24 * sbh / t + scores / t);
    // tensor + sequence: sbh (34/t + 5as/ht)
    CHECK(without_statistics(kept_by_a_layer(tp, {sequence_parallel}), statistics / t) ==
          34 * sbh / t + scores / t);
    // tensor + selective: sbh (10 + 24/t)
    CHECK(without_statistics(kept_by_a_layer(tp, {selective}), statistics) == 10 * sbh + 24 * sbh / t);
    // tensor + sequence + selective: 34 sbh / t
    CHECK(without_statistics(kept_by_a_layer(tp, {sequence_parallel, selective}), statistics / t) ==
          34 * sbh / t);
    // full: 2 sbh; with sequence parallelism the layer's input is itself split, a term that the table does
    // not have: 2 sbh / t
    CHECK(without_statistics(kept_by_a_layer(tp, {full}), 0) == 2 * sbh);
    CHECK(without_statistics(kept_by_a_layer(tp, {full, sequence_parallel}), 0) == 2 * sbh / t);
  }
}

TEST_CASE(
    "hardware FLOPs with full recompute: Narayanan et al. 2021, 96 B s l h^2 (1 + s/6h + V/16lh), exactly") {
  for (const char* name : {"gpt3-175b-1024xa100", "gpt-1t-3072xa100"}) {
    const Job job = preset_job(name);
    const auto b = static_cast<double>(job.training.global_batch_size),
               l = static_cast<double>(job.model.num_layers);
    const auto s = static_cast<double>(job.training.seq_length),
               h = static_cast<double>(job.model.hidden_size);
    const auto v = static_cast<double>(job.model.vocab_size);
    CAPTURE(name);
    CHECK(compile(job).job.hardware_flops_per_step ==
          Approx(96 * b * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h))).epsilon(1e-12));
  }
}

TEST_CASE("hardware FLOPs: without recompute and padding they are the model FLOPs, on any mesh") {
  for (const int tp : {1, 2, 4})
    for (const int pp : {1, 2, 4}) {
      // 51200 is a multiple of 128 x 4: nothing is padded.
      const Plan plan = compile(job_from(small_gpt(4, tp, pp, 2)));
      CAPTURE(tp, pp);
      CHECK(plan.job.hardware_flops_per_step == Approx(plan.job.model_flops_per_step).epsilon(1e-12));
    }
}

// Opcode and bytes of every communication in the forward or backward segment of a middle stage, by cause
// stripped of the stage.
std::map<std::pair<Opcode, std::int64_t>, int> collectives(const Plan& plan, PassKind kind) {
  std::map<std::pair<Opcode, std::int64_t>, int> found;
  for (const Segment& segment : plan.segments)
    if (segment.kind == kind && segment.chunk == 1 && segment.name.find("last") == std::string::npos &&
        segment.name.find("first") == std::string::npos)
      for (const Instruction& instruction : segment.instructions)
        if (is_communication(instruction.opcode)) {
          std::int64_t bytes = 0;  // the larger end: what NCCL's busbw formulas call S
          for (const Index in : instruction.inputs) bytes = std::max(bytes, plan.buffers[in].bytes());
          for (const Index out : instruction.outputs) bytes = std::max(bytes, plan.buffers[out].bytes());
          ++found[{instruction.opcode, bytes}];
        }
  return found;
}

TEST_CASE(
    "communication: tensor parallelism costs two all-reduces of bsh per layer forward and two backward") {
  // Stage 1 of 4 holds one layer: 2 sequences x 512 tokens x 1024 x 2 bytes = 2,097,152 bytes.
  const Plan plan = compile(job_from(small_gpt(4, 4, 4, 2)));
  const std::map<std::pair<Opcode, std::int64_t>, int> expected{{{Opcode::all_reduce, 2'097'152}, 2}};
  CHECK(collectives(plan, PassKind::forward) == expected);
  CHECK(collectives(plan, PassKind::backward) == expected);
}

TEST_CASE("communication: with sequence parallelism the same bytes go as all-gather and reduce-scatter") {
  const Plan plan = compile(job_from(small_gpt(4, 4, 4, 2), {{"parallelism.sequence_parallel", "true"}}));
  const std::map<std::pair<Opcode, std::int64_t>, int> forward{{{Opcode::all_gather, 2'097'152}, 2},
                                                               {{Opcode::reduce_scatter, 2'097'152}, 2}};
  // Backward gathers the two kept inputs once more for the weight gradients (Korthikanti et al. 2022,
  // section 4.2.2).
  const std::map<std::pair<Opcode, std::int64_t>, int> backward{{{Opcode::all_gather, 2'097'152}, 4},
                                                                {{Opcode::reduce_scatter, 2'097'152}, 2}};
  CHECK(collectives(plan, PassKind::forward) == forward);
  CHECK(collectives(plan, PassKind::backward) == backward);
}

TEST_CASE(
    "memory: weights, main gradients and Adam states take 2 + 4 + 12 bytes per parameter, ZeRO-1 divides the "
    "12") {
  for (const int zero : {0, 1}) {
    // 8 GPUs: tp 1, pp 1, dp 8.
    const Plan plan =
        compile(job_from(small_gpt(2, 1, 1, 1), {{"optimizer.zero_stage", std::to_string(zero)}}));
    std::map<Category, std::int64_t> bytes;
    for (const Buffer& buffer : plan.buffers)
      if (buffer.scope == Scope::run) bytes[buffer.category] += buffer.bytes();
    const std::int64_t parameters = plan.job.parameters;
    const std::int64_t padded = zero == 0 ? parameters : (parameters + 127) / 128 * 128;
    CAPTURE(zero);
    CHECK(bytes[Category::weights] == 2 * padded);
    CHECK(bytes[Category::gradients] == 4 * padded);
    CHECK(bytes[Category::optimizer] == 12 * padded / (zero == 0 ? 1 : 8));
  }
}

TEST_CASE("parameters: local slices add up to the model over every mesh, replicas counted once") {
  for (const int tp : {1, 2, 4})
    for (const int pp : {1, 2}) {
      const Job job =
          job_from(small_gpt(2, tp, pp, 1), {{"model.untie_embeddings_and_output_weights", "true"}});
      const Plan plan = compile(job);
      std::int64_t total = 0;
      for (const Buffer& buffer : plan.buffers) {
        if (buffer.parent == no_index || buffer.category != Category::weights ||
            buffer.name.find("shard") != std::string::npos)
          continue;
        std::int64_t parts = 1;
        for (const std::string& axes : buffer.split) parts *= axes == "tp" ? tp : 1;
        total += buffer.elements() * parts;
      }
      CAPTURE(tp, pp);
      CHECK(total == plan.job.parameters);
    }
}

TEST_CASE(
    "gradients: norm weights are summed over tp under sequence parallelism, a tied embedding over both end "
    "stages") {
  const Plan plan = compile(job_from(small_gpt(2, 2, 2, 1), {{"parallelism.sequence_parallel", "true"}}));
  int over_tensor_ranks = 0, over_stages = 0;
  for (const Segment& segment : plan.segments)
    for (const Instruction& instruction : segment.instructions) {
      if (instruction.phase != Phase::reduction || instruction.opcode != Opcode::all_reduce) continue;
      const Group& group = plan.communications[instruction.communication].group;
      over_tensor_ranks += group.axes == std::vector<std::uint8_t>{0};
      over_stages += group.pipeline_ranks == std::vector<std::int32_t>{0, 1} && group.axes.empty();
    }
  CHECK(over_tensor_ranks == 2);  // one bucket of norm and bias gradients on each stage
  CHECK(over_stages == 2);        // the same exchange, issued by both stages
}

TEST_CASE("plans: every strategy over small meshes lints, and its file reads back equal", "[long]") {
  const std::string yaml = small_gpt(8, 1, 1, 2);
  for (const int tp : {1, 2, 8})
    for (const int pp : {1, 2, 4})
      for (const char* schedule : {"gpipe", "1f1b", "interleaved_1f1b"})
        for (const char* recompute :
             {"{granularity: none}", "{granularity: selective, modules: [core_attn, mlp, layernorm]}",
              "{granularity: full, method: block, num_layers: 1}"})
          for (const int variant : {0, 1, 2, 3}) {
            const bool interleaved = std::string(schedule) == "interleaved_1f1b";
            if ((interleaved && pp == 1) || tp * pp > 16) continue;
            Overrides overrides{{"parallelism.tensor_model_parallel_size", std::to_string(tp)},
                                {"parallelism.pipeline_model_parallel_size", std::to_string(pp)},
                                {"parallelism.pipeline_schedule", schedule},
                                {"recompute", recompute},
                                {"optimizer.zero_stage", std::to_string(variant % 2)},
                                {"parallelism.sequence_parallel", variant > 1 && tp > 1 ? "true" : "false"}};
            if (interleaved) overrides.push_back({"parallelism.virtual_pipeline_model_parallel_size", "2"});
            if (variant == 3) {
              overrides.push_back({"optimizer.overlap_grad_reduce", "true"});
              overrides.push_back({"optimizer.overlap_param_gather", "true"});
            }
            const Plan plan = compile(job_from(yaml, overrides));
            CAPTURE(tp, pp, schedule, recompute, variant);
            CHECK(lint(plan) == std::vector<std::string>{});
            CHECK(parse_plan(serialize(plan), "plan") == plan);
          }
}

TEST_CASE("plans: the size does not grow with data parallelism") {
  const auto size = [](int nodes) {
    const std::string batch = std::to_string(64 * nodes);
    return serialize(compile(job_from(small_gpt(4, 2, 2, nodes), {{"training.global_batch_size", batch}})))
        .size();
  };
  CHECK(size(64) < size(1) + 200);
}

}  // namespace
}  // namespace simrun
