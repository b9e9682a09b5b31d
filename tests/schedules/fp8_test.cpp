#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <vector>

#include "schedules/compile.h"
#include "schedules/instruction_flops.h"
#include "schedules/lint.h"
#include "schedules/plan_file.h"
#include "tests/context_jobs.h"
#include "tests/schedules/plan_bytes.h"

// Linear layers in fp8 and fp4: what is cast, what is kept, what is exchanged.
namespace simrun {
namespace {

constexpr std::array recipes{"delayed", "tensorwise", "blockwise"};

std::vector<Override> in_fp8(const std::string& recipe, std::vector<Override> overrides = {}) {
  overrides.push_back({"training.precision", "fp8"});
  overrides.push_back({"training.fp8_recipe", recipe});
  return overrides;
}

// A GPU that has fp4; the rest of it does not matter here.
std::vector<Override> in_nvfp4(std::vector<Override> overrides = {}) {
  overrides.push_back({"training.precision", "nvfp4"});
  overrides.push_back({"cluster.gpu", "{from: h100_sxm, peak_flops: {fp4: 4000 TFLOP/s}}"});
  return overrides;
}

// context_job's layer on one GPU of eight: h = 1,024, q, k, v 1,024 + 2 x 512, gate and up 2 x 2,816.
constexpr std::int64_t tokens = 4096;
Plan one_layer(const std::vector<Override>& overrides) {
  return compile(context_job("", overrides, /*cp=*/1));
}

// What the forward pass of a microbatch leaves for its backward pass, per token.
double saved_per_token(const Plan& plan) {
  std::int64_t bytes = 0;
  for (const Buffer& buffer : plan.buffers)
    if (buffer.scope == Scope::microbatch && buffer.category == Category::activations)
      bytes += buffer.bytes();
  return static_cast<double>(bytes) / static_cast<double>(tokens);
}

// Of the products of one microbatch on one GPU, by the type of what they multiply.
std::map<Dtype, double> flops_by_type(const Plan& plan) {
  std::map<Dtype, double> flops;
  for (const Entry& entry : plan.programs[0].entries)
    for (const Instruction& what : plan.segments[entry.segment].instructions)
      if (what.opcode == Opcode::gemm) {
        REQUIRE(plan.buffers[what.inputs[0]].dtype == plan.buffers[what.inputs[1]].dtype);
        flops[plan.buffers[what.inputs[0]].dtype] += instruction_flops(plan, what);
      }
  return flops;
}

int count_labels(const Plan& plan, PassKind kind, const std::string& word) {
  int count = 0;
  for (const Entry& entry : plan.programs[0].entries) {
    const Segment& segment = plan.segments[entry.segment];
    if (segment.kind != kind) continue;
    for (const Instruction& what : segment.instructions)
      count += what.label.find(word) != std::string::npos ? 1 : 0;
  }
  return count;
}

}  // namespace

TEST_CASE("fp8: what a Llama layer saves per token, by hand") {
  const double wide = saved_per_token(one_layer({}));
  // In bf16 the inputs of qkv (1,024), attention's projection (1,024), fc1 (1,024) and fc2 (2,816) are saved
  // for their weight gradients, 2 B each. The projection's is attention's output, which attention saves too.
  // tensorwise: 1 B each, but attention's output stays 2 B and is cast again: 1,024 + 1,024 + 2,816 B less.
  CHECK(wide - saved_per_token(one_layer(in_fp8("tensorwise"))) == Approx(4864));
  // delayed keeps attention's output in both types.
  CHECK(wide - saved_per_token(one_layer(in_fp8("delayed"))) == Approx(4864 - 1024));
  // blockwise: 4 B per 128 elements more: 4,864 / 32 = 152.
  CHECK(wide - saved_per_token(one_layer(in_fp8("blockwise"))) == Approx(4864 - 152));
  // mxfp8: 1 B per 32 elements more: as much.
  CHECK(wide -
            saved_per_token(one_layer(in_fp8("mxfp8", {{"cluster.gpu", "{from: h100_sxm, mxfp8: true}"}}))) ==
        Approx(4864 - 152));
  // nvfp4: 1 B per two elements and 1 B per 16: 9 / 16 B where fp8 has 1.
  CHECK(wide - saved_per_token(one_layer(in_nvfp4())) == Approx(2 * 4864 - 4864 * 9.0 / 16));
}

TEST_CASE("fp8: products of linear layers multiply fp8, attention and the output head as before") {
  const Plan wide = one_layer({});
  // 1,024 x 2,048 + 1,024 x 1,024 + 1,024 x 5,632 + 2,816 x 1,024 weights; head 1,024 x 32,000.
  const double linear = 6.0 * tokens * (1024.0 * 2048 + 1024 * 1024 + 1024 * 5632 + 2816 * 1024);
  const double head = 6.0 * tokens * 1024 * 32000;
  CHECK(flops_by_type(wide)[Dtype::bf16] == Approx(linear + head));
  for (const char* recipe : recipes) {
    CAPTURE(recipe);
    const Plan plan = one_layer(in_fp8(recipe));
    std::map<Dtype, double> flops = flops_by_type(plan);
    CHECK(flops[Dtype::fp8] == Approx(linear));
    CHECK(flops[Dtype::bf16] == Approx(head));
    CHECK(plan.job.hardware_flops_per_step == wide.job.hardware_flops_per_step);
    CHECK(plan.job.model_flops_per_step == wide.job.model_flops_per_step);
    CHECK(plan.job.precision == Dtype::fp8);
    for (const Buffer& buffer : plan.buffers)
      if (buffer.category == Category::gradients) REQUIRE(buffer.dtype == Dtype::fp32);
  }
}

TEST_CASE(
    "fp8: one cast per input, gradient and weight; tensorwise adds a look at each, delayed one exchange") {
  // Two microbatches of one layer's four products on each of 8 data-parallel ranks.
  const auto plan_of = [](const char* recipe) {
    return one_layer(in_fp8(recipe, {{"training.global_batch_size", "16"}}));
  };
  struct Row {
    const char* recipe;
    int looks_forward, looks_backward, exchanges, cast_again;
  };
  for (const Row& row :
       {Row{"delayed", 0, 0, 2, 0}, Row{"tensorwise", 8, 10, 0, 2}, Row{"blockwise", 0, 0, 0, 2}}) {
    CAPTURE(row.recipe);
    const Plan plan = plan_of(row.recipe);
    CHECK(count_labels(plan, PassKind::forward, "fp8 cast") == 2 * 4);
    CHECK(count_labels(plan, PassKind::backward, "fp8 cast") == 2 * 4 + row.cast_again);
    // Weights by the first microbatch only.
    CHECK(count_labels(plan, PassKind::forward, "fp8 weight") == 4);
    CHECK(count_labels(plan, PassKind::backward, "fp8 weight") == 0);
    CHECK(count_labels(plan, PassKind::forward, "fp8 largest weight") == (row.looks_forward > 0 ? 4 : 0));
    const int exchanged = row.exchanges;  // one per pass
    CHECK(count_labels(plan, PassKind::forward, "fp8 largest values") == exchanged);
    CHECK(count_labels(plan, PassKind::backward, "fp8 largest values") == exchanged);
    if (row.exchanges > 0) continue;
    CHECK(count_labels(plan, PassKind::forward, "_largest") +
              count_labels(plan, PassKind::forward, " fp8 largest") ==
          row.looks_forward);
    CHECK(count_labels(plan, PassKind::backward, " fp8 largest") == row.looks_backward);
  }
}

TEST_CASE("fp8: delayed scaling's exchange has a stream of its own and does not wait behind gradients") {
  const Plan plan = one_layer(in_fp8("delayed", {{"training.global_batch_size", "16"}}));
  for (const Segment& segment : plan.segments)
    for (const Instruction& what : segment.instructions)
      if (what.label == "fp8 largest values") CHECK(plan.streams[what.stream].name == "fp8");
  const Plan tensorwise = one_layer(in_fp8("tensorwise"));
  CHECK(std::ranges::none_of(tensorwise.streams, [](const Stream& stream) { return stream.name == "fp8"; }));
}

TEST_CASE(
    "fp8: copies of weights cost 1 byte per parameter and orientation, parameters in fp8 replace 2 by 1") {
  // The layer's 11,534,336 weights of linear layers; scales 4 B per 128 x 128.
  const double linear = 1024.0 * 2048 + 1024 * 1024 + 1024 * 5632 + 2816 * 1024;
  const auto weights = [](const std::vector<Override>& overrides) {
    const Plan plan = one_layer(overrides);
    return kept_bytes_per_parameter(plan)[Category::weights] * static_cast<double>(plan.job.parameters);
  };
  const double wide = weights({{"optimizer.zero_stage", "1"}});
  const auto added = [&](const char* recipe, const char* gather, const char* gpu) {
    return (weights(in_fp8(recipe, {{"optimizer.zero_stage", "1"},
                                    {"training.fp8_param_gather", gather},
                                    {"cluster.gpu", gpu}})) -
            wide) /
           linear;
  };
  constexpr const char* hopper = "h100_sxm";
  constexpr const char* blackwell = "{from: h100_sxm, mxfp8: true}";  // its products need no transposed copy
  CHECK(added("delayed", "false", hopper) == Approx(2));
  CHECK(added("delayed", "false", blackwell) == Approx(1));
  CHECK(added("delayed", "true", hopper) == Approx(0).margin(1e-3));  // 1 + 1 in place of 2
  CHECK(added("delayed", "true", blackwell) == Approx(-1).epsilon(1e-3));
  CHECK(added("blockwise", "false", hopper) == Approx(2 * (1 + 4.0 / 16384)));
  CHECK(added("blockwise", "true", hopper) == Approx(2 * 4.0 / 16384).margin(1e-3));
}

TEST_CASE(
    "nvfp4: products of linear layers multiply fp4; weights have two copies of 9 / 16 B per parameter") {
  const Plan wide = one_layer({}), plan = one_layer(in_nvfp4());
  const double linear = 1024.0 * 2048 + 1024 * 1024 + 1024 * 5632 + 2816 * 1024;
  std::map<Dtype, double> flops = flops_by_type(plan);
  CHECK(flops[Dtype::fp4] == Approx(6.0 * tokens * linear));
  CHECK(flops[Dtype::fp8] == 0);
  CHECK(plan.job.precision == Dtype::fp4);
  const auto weights = [](const Plan& of) {
    return kept_bytes_per_parameter(of)[Category::weights] * static_cast<double>(of.job.parameters);
  };
  CHECK((weights(plan) - weights(wide)) / linear == Approx(2 * 9.0 / 16));
  CHECK(lint(plan).empty());
}

TEST_CASE("nvfp4: one cast per input, gradient and weight, each behind a look for the largest value") {
  // Two microbatches of one layer's four products; attention's output, saved wide, is cast again.
  const Plan plan = one_layer(in_nvfp4({{"training.global_batch_size", "16"}}));
  CHECK(count_labels(plan, PassKind::forward, "fp4 cast") == 2 * 4);
  CHECK(count_labels(plan, PassKind::forward, " fp4 largest") == 2 * 4);
  CHECK(count_labels(plan, PassKind::backward, "fp4 cast") == 2 * (4 + 1));
  CHECK(count_labels(plan, PassKind::backward, " fp4 largest") == 2 * (4 + 1));
  CHECK(count_labels(plan, PassKind::forward, "fp4 weight") == 4);
  CHECK(count_labels(plan, PassKind::forward, "fp4 largest weight") == 4);
  CHECK(count_labels(plan, PassKind::forward, "fp8") == 0);
}

TEST_CASE("fp8: parameters held in fp8 are gathered in half the bytes") {
  for (const char* zero : {"1", "2", "3"}) {
    CAPTURE(zero);
    const auto gathered = [&](const char* gather) {
      return collective_bytes(one_layer(in_fp8("delayed", {{"optimizer.zero_stage", zero},
                                                           {"training.fp8_param_gather", gather}})),
                              Opcode::all_gather, "parameter gather");
    };
    // What is not a linear layer stays bf16: embedding and head, 2 x 32,000 x 1,024, and three norms.
    const double linear = 1024.0 * 2048 + 1024 * 1024 + 1024 * 5632 + 2816 * 1024;
    const double passes = zero == std::string("3") ? 2 : 1;
    CHECK(gathered("false") - gathered("true") == Approx(passes * linear).epsilon(1e-3));
  }
}

// The last layer's norm and the embedding, both bf16, share a bucket.
TEST_CASE("fp8: buckets are gathered in the order in which the forward pass uses them") {
  const Plan plan = one_layer(in_fp8("delayed", {{"model.num_hidden_layers", "4"},
                                                 {"optimizer.zero_stage", "1"},
                                                 {"optimizer.overlap_grad_reduce", "true"},
                                                 {"optimizer.overlap_param_gather", "true"},
                                                 {"optimizer.bucket_size", "8000000"},
                                                 {"training.fp8_param_gather", "true"}}));
  std::vector<Index> first_used;
  for (const Instruction& what : plan.segments[plan.programs[0].entries[0].segment].instructions)
    if (what.opcode == Opcode::all_gather) {
      Index first = no_index;
      for (const Buffer& of : plan.buffers)
        if (of.parent == what.outputs[0] && of.parameter != no_index) first = std::min(first, of.parameter);
      first_used.push_back(first);
    }
  REQUIRE(first_used.size() > 3);
  CHECK(std::ranges::is_sorted(first_used));
}

TEST_CASE("fp8: sequence parallelism gathers fp8 and scatters bf16") {
  // Of the second layer, per microbatch. Forward: gathers in front of qkv and fc1, scatters behind
  // attention's projection and fc2. Backward: the gathers again for the gradients of qkv's and fc1's weights,
  // gathers of the gradients of the projection's and fc2's outputs, scatters of those of qkv's and fc1's
  // inputs.
  const auto exchanged = [](std::vector<Override> overrides) {
    overrides.push_back({"model.num_hidden_layers", "2"});
    overrides.push_back({"parallelism.tensor_model_parallel_size", "2"});
    overrides.push_back({"parallelism.sequence_parallel", "true"});
    overrides.push_back({"training.global_batch_size", "4"});  // one microbatch on each of 4 ranks
    std::map<std::string, int> count;
    const Plan plan = one_layer(overrides);
    for (const Entry& entry : plan.programs[0].entries)
      for (const Instruction& what : plan.segments[entry.segment].instructions)
        if (what.layer == 1 && is_communication(what.opcode))
          ++count[fmt::format("{} {}", to_string(what.opcode),
                              to_string(plan.buffers[what.inputs[0]].dtype))];
    std::string words;
    for (const auto& [exchange, times] : count) words += fmt::format("{} x {}, ", times, exchange);
    return words;
  };
  CHECK(exchanged({}) == "6 x all_gather bf16, 4 x reduce_scatter bf16, ");
  CHECK(exchanged(in_fp8("delayed")) == "6 x all_gather fp8, 4 x reduce_scatter bf16, ");
  // Ranks agree on a scale in front of each cast that is gathered.
  CHECK(exchanged(in_fp8("tensorwise")) ==
        "6 x all_gather fp8, 4 x all_reduce fp32, 4 x reduce_scatter bf16, ");
  // Rows and columns of a gradient have scales of their own: two copies are as large as the gradient.
  CHECK(exchanged(in_fp8("blockwise")) ==
        "2 x all_gather bf16, 4 x all_gather fp8, 4 x reduce_scatter bf16, ");
  // Of fp4 two copies are smaller than the gradient, and both are gathered.
  CHECK(exchanged(in_nvfp4()) == "8 x all_gather fp4, 4 x all_reduce fp32, 4 x reduce_scatter bf16, ");
}

TEST_CASE("fp8: plans are valid under every kind of schedule, ZeRO stage and recompute, and read back equal",
          "[long]") {
  const std::vector<std::pair<const char*, const char*>> schedules = {
      {"1f1b", "1"},  {"gpipe", "1"},      {"zb_h1", "1"},   {"interleaved_1f1b", "2"},
      {"zb_v", "2"},  {"dualpipe", "1"},   {"chimera", "1"}, {"dualpipe_v", "2"},
      {"bpipe", "1"}, {"looped_bfs", "2"}, {"hanayo", "2"}};
  for (const auto& [schedule, virtual_stages] : schedules)
    for (const char* zero : {"0", "1", "3"})
      for (const char* recipe : recipes)
        for (const char* recompute : {"none", "selective", "full"}) {
          const bool bidirectional =
              schedule == std::string("dualpipe") || schedule == std::string("chimera");
          if (bidirectional && zero[0] == '3') continue;
          CAPTURE(schedule, zero, recipe, recompute);
          const Plan plan = compile(
              job_from(small_gpt(8, 2, 2, 1),
                       in_fp8(recipe, {{"parallelism.pipeline_schedule", schedule},
                                       {"parallelism.virtual_pipeline_model_parallel_size", virtual_stages},
                                       {"parallelism.sequence_parallel", "true"},
                                       {"model.untie_embeddings_and_output_weights", "true"},
                                       {"optimizer.zero_stage", zero},
                                       {"training.fp8_param_gather", zero[0] == '0' ? "false" : "true"},
                                       {"training.global_batch_size", "32"},
                                       {"cluster.gpu", "h100_sxm"},
                                       {"recompute.granularity", recompute}})));
          CHECK(lint(plan) == std::vector<std::string>{});
          CHECK(parse_plan(serialize(plan), "test.plan") == plan);
        }
}

TEST_CASE(
    "fp8: combines with recompute of modules, experts, context parallelism, adapters, offload and FSDP") {
  const std::vector<std::vector<Override>> layers = {
      {{"model", "{from: mixtral-8x7b, num_hidden_layers: 2}"},
       {"parallelism.expert_model_parallel_size", "2"},
       {"moe.load_imbalance", "1.5"}},
      {{"model", "{from: deepseek-v2-lite, num_hidden_layers: 2}"},
       {"parallelism.expert_model_parallel_size", "4"},
       {"recompute", "{granularity: selective, modules: [moe, mla_up_proj]}"}},
      {{"training.lora", "{rank: 16, dropout: 0.1}"}},
      {{"model.frozen", "[\"layers[0-0].fc1\"]"}},
      {{"parallelism.context_parallel_size", "2"}},
      {{"parallelism.context_parallel_size", "2"}, {"parallelism.cp_comm_type", "a2a"}},
      {{"offload.activations", "cpu"}},
      {{"recompute", "{granularity: selective, modules: [core_attn, mlp]}"}},
      {{"optimizer", "{zero_stage: 3, reshard_after_forward: false}"}},
      {{"optimizer", "{zero_stage: 3, reshard_after_forward: false, reshard_after_backward: false}"}},
      {{"optimizer", "{zero_stage: 3, name: muon}"}},
      {{"optimizer", "{zero_stage: 2, num_distributed_optimizer_instances: 2}"}},
      {{"model", "{from: gemma2-9b, num_hidden_layers: 2}"}},
      {{"model", "{from: bert-large, num_hidden_layers: 2}"}, {"training.seq_length", "512"}}};
  for (const std::vector<Override>& extra : layers)
    for (const char* recipe : recipes)
      for (const char* tp : {"1", "2"}) {
        CAPTURE(extra.front().key, extra.front().value, recipe, tp);
        std::vector<Override> overrides = in_fp8(recipe, extra);
        overrides.push_back({"parallelism.tensor_model_parallel_size", tp});
        overrides.push_back({"parallelism.sequence_parallel", tp[0] == '1' ? "false" : "true"});
        CHECK(lint(one_layer(overrides)) == std::vector<std::string>{});
      }
  for (const char* recipe : {"tensorwise", "blockwise"}) {
    CAPTURE(recipe);
    CHECK(
        lint(one_layer(in_fp8(recipe, {{"recompute", "{granularity: selective, modules: [layernorm]}"}}))) ==
        std::vector<std::string>{});
  }
}

TEST_CASE("fp8: no recipe but delayed ever saves more than bf16 does, whatever is recomputed or split") {
  int smaller = 0;
  for (const char* recipe : {"tensorwise", "blockwise"})
    for (const char* recompute : {"{granularity: none}", "{granularity: selective, modules: [core_attn]}",
                                  "{granularity: selective, modules: [mlp]}", "{granularity: full}",
                                  "{granularity: selective, modules: [layernorm]}",
                                  "{granularity: selective, modules: [core_attn, mlp, layernorm]}"})
      for (const char* tp : {"1", "2", "4"})
        for (const char* sequence_parallel : {"false", "true"}) {
          if (tp[0] == '1' && sequence_parallel[0] == 't') continue;
          CAPTURE(recipe, recompute, tp, sequence_parallel);
          const std::vector<Override> overrides{{"recompute", recompute},
                                                {"parallelism.tensor_model_parallel_size", tp},
                                                {"parallelism.sequence_parallel", sequence_parallel}};
          const double wide = saved_per_token(one_layer(overrides));
          const double narrow = saved_per_token(one_layer(in_fp8(recipe, overrides)));
          CHECK(narrow <= wide);
          smaller += narrow < wide ? 1 : 0;
        }
  CHECK(smaller >= 40);  // all but full recompute, which keeps a layer's input alone
}

TEST_CASE("fp8: a linear layer whose matrices are no multiple of fp8's units is refused by name") {
  CHECK_THROWS_WITH(one_layer(in_fp8("delayed", {{"model.intermediate_size", "2824"}})),
                    "fp8: 2824 input features of fc2 on a rank are no multiple of 16; 2832 would be, or "
                    "precision: bf16");
}

}  // namespace simrun
