#include <catch2/catch.hpp>
#include <filesystem>
#include <set>

#include "schedules/compile.h"
#include "schedules/lint.h"
#include "schedules/summary.h"
#include "sim/kernel_cost.h"
#include "sim/row_kernels.h"
#include "sim/simulate.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

std::set<std::string> preset_names() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(SIMRUN_SOURCE_DIR "/configs/models"))
    if (is_decoder_only(entry.path().stem().string())) names.insert(entry.path().stem().string());
  return names;
}

std::string preset_text(const std::string& model, const std::string& parallelism, int sequence = 256) {
  return "simrun: 1\nmodel: " + model + "\ntraining: {seq_length: " + std::to_string(sequence) +
         ", micro_batch_size: 1, global_batch_size: 16, precision: bf16}\n"
         "parallelism: " +
         parallelism + "\ncluster: {from: dgx_h100, nodes: 1}\n";
}

// The same model with four layers, whatever its family calls them, and tensor parallelism that its heads
// divide by: GPT-2 XL has 25.
struct Cut {
  std::string model;
  std::string tensor_parallel;
};
Cut four_layers(const std::string& preset) {
  const ModelConfig model = job_from(preset_text("{from: models/" + preset + ".yaml}", "{}")).model;
  const std::string& type = model.model_type;
  const char* const key = type == "gpt"                       ? "num_layers"
                          : type == "gpt2" || type == "bloom" ? "n_layer"
                          : type == "mpt" || type == "dbrx"   ? "n_layers"
                                                              : "num_hidden_layers";
  const std::string pattern = !model.is_hybrid()        ? ""
                              : model.experts.count > 0 ? ", hybrid_override_pattern: \"ME*E\""
                                                        : ", hybrid_override_pattern: \"M-*M\"";
  return {"{from: models/" + preset + ".yaml, " + key + ": 4" + pattern + "}",
          model.num_attention_heads % 2 == 0 ? "tensor_model_parallel_size: 2, "
                                             : "tensor_model_parallel_size: 1, "};
}

TEST_CASE("presets: every model compiles, lints and runs, unsplit and over tensor and pipeline ranks",
          "[long]") {
  for (const std::string& preset : preset_names()) {
    const Cut cut = four_layers(preset);
    const std::string split = cut.tensor_parallel + "pipeline_model_parallel_size: 2";
    for (const std::string& parallelism :
         {std::string("{}"), "{" + split + "}", "{" + split + ", sequence_parallel: true}"}) {
      CAPTURE(preset, parallelism);
      const Plan plan = compile(job_from(preset_text(cut.model, parallelism)));
      CHECK(lint(plan).empty());
      const Summary summary = summarize(plan, simulate(plan));
      CHECK(summary.step_time_s > 0);
      CHECK(summary.mfu > 0);
      CHECK(summary.mfu < 1);
    }
  }
}

TEST_CASE("every family's layer is recomputed, split into I and W, and run with unfused attention") {
  const std::vector<std::string> variants = {"recompute: {granularity: full}",
                                             "recompute: {granularity: selective, modules: [layernorm, mlp]}",
                                             "recompute: {granularity: selective}"};
  for (const char* preset : {"bloom-7b1", "gemma2-2b", "gpt-neox-20b", "mistral-7b", "mpt-7b",
                             "nemotron4-340b", "opt-1.3b", "phi3-mini", "qwen2.5-7b", "qwen3-8b"})
    for (const std::string& variant : variants) {
      const std::string split =
          "{tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2, sequence_parallel: true, "
          "pipeline_schedule: zb_h1}";
      const Job job = job_from(preset_text(four_layers(preset).model, split) + variant + "\n",
                               {{"training.attention", "unfused"}, {"training.hidden_dropout", "0.1"}});
      CAPTURE(preset, variant);
      const Plan plan = compile(job);
      CHECK(lint(plan).empty());
      CHECK(summarize(plan, simulate(plan)).step_time_s > 0);
    }
}

TEST_CASE("Qwen3: what tensor-parallel ranks know of the weights of q's and k's norms is summed at the end") {
  // Each rank normalises its own heads, so their 2 x 128 gradients per layer are partial sums over tp.
  const Plan plan = compile(
      job_from(preset_text("{from: qwen3-8b, num_hidden_layers: 4}", "{tensor_model_parallel_size: 2}")));
  std::int64_t summed = 0;
  for (const Segment& segment : plan.segments)
    for (const Instruction& instruction : segment.instructions)
      if (instruction.opcode == Opcode::all_reduce && instruction.phase == Phase::reduction &&
          plan.streams[instruction.stream].traffic == Traffic::tensor)
        for (const Index buffer : instruction.inputs) summed += plan.buffers[buffer].elements();
  CHECK(summed == 1024);  // 4 x 2 x 128
}

// Exchanges over tensor-parallel ranks in layer 1, for one microbatch: forward, backward. (Those of the
// embedding are counted to its reader, layer 0.)
std::vector<int> exchanges_per_layer(const char* model, const char* parallelism) {
  const Plan plan = compile(job_from(preset_text(model, parallelism)));
  std::set<std::string> seen;  // the variants of a pass have the same exchanges
  int forward = 0, backward = 0;
  for (const Segment& segment : plan.segments) {
    if (!seen.insert(to_string(segment.kind)).second) continue;
    for (const Instruction& instruction : segment.instructions) {
      if (instruction.layer != 1 || !is_communication(instruction.opcode)) continue;
      if (plan.streams[instruction.stream].traffic != Traffic::tensor) continue;
      if (segment.kind == PassKind::forward) ++forward;
      if (segment.kind == PassKind::backward) ++backward;
    }
  }
  return {forward, backward};
}

TEST_CASE("GPT-NeoX sums its parallel branches over tensor ranks once forward, a serial layer twice") {
  const char* const parallel = "{from: gpt-neox-20b, num_hidden_layers: 2}";
  const char* const serial = "{from: gpt-neox-20b, num_hidden_layers: 2, use_parallel_residual: false}";
  const char* const tp = "{tensor_model_parallel_size: 2}";
  // Backward, both norms have inputs of their own, whose gradients are summed apart (Black et al. 2022
  // section 2.2 names the untied norms an oversight).
  CHECK(exchanges_per_layer(parallel, tp) == std::vector<int>{1, 2});
  CHECK(exchanges_per_layer(serial, tp) == std::vector<int>{2, 2});
  CHECK(exchanges_per_layer("{from: gemma2-9b, num_hidden_layers: 2}", tp) == std::vector<int>{2, 2});
}

// Seconds of the forward attention kernel of every layer.
std::vector<double> attention_seconds_of(const Plan& plan) {
  std::vector<double> seconds;
  for (const Segment& segment : plan.segments)
    if (segment.kind == PassKind::forward)
      for (const Instruction& instruction : segment.instructions)
        if (instruction.opcode == Opcode::attention)
          seconds.push_back(static_cast<double>(kernel_time(plan, instruction)) * 1e-12);
  return seconds;
}

TEST_CASE("sliding windows: Gemma 2's even layers cost less than its odd ones, from 4096 tokens on") {
  const std::string model = "{from: gemma2-9b, num_hidden_layers: 4}";
  const std::vector<double> seconds =
      attention_seconds_of(compile(job_from(preset_text(model, "{}", 16384))));
  REQUIRE(seconds.size() == 4);
  // 4096 of 16384 tokens: a share of 1/4 (1 - 1/8) = 7/32 of the matrix instead of 1/2; launches are 5 us.
  CHECK(seconds[0] / seconds[1] == Approx(7.0 / 16).epsilon(0.01));
  CHECK(seconds[0] == seconds[2]);
  CHECK(seconds[1] == seconds[3]);
  const std::vector<double> brief = attention_seconds_of(compile(job_from(preset_text(model, "{}", 4096))));
  CHECK(brief[0] == brief[1]);
}

TEST_CASE("sliding windows: Mistral at 32,768 tokens runs faster, and its HFU is still its MFU") {
  const auto summary_of = [](const char* model) {
    const Plan plan = compile(job_from(preset_text(model, "{}", 32768)));
    CHECK(plan.job.hardware_flops_per_step == Approx(plan.job.model_flops_per_step));
    return summarize(plan, simulate(plan));
  };
  const Summary window = summary_of("{from: mistral-7b, num_hidden_layers: 4, vocab_size: 32768}");
  const Summary full =
      summary_of("{from: mistral-7b, num_hidden_layers: 4, vocab_size: 32768, sliding_window: null}");
  CHECK(window.step_time_s < 0.75 * full.step_time_s);
}

}  // namespace
}  // namespace simrun
