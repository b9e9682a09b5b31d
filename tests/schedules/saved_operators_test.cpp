// recompute.saved: what a layer keeps is listed; of the rest just what the backward pass reads is recomputed.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "schedules/compile.h"
#include "schedules/lint.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

Override saved(const std::string& scopes) {
  return {"recompute", "{granularity: selective, saved: [" + scopes + "]}"};
}

// Bytes per rank that the forward pass keeps of a microbatch: what one more layer adds.
std::int64_t kept_by_a_layer(int tp, const std::vector<Override>& overrides) {
  std::int64_t kept = 0;
  for (const int layers : {1, 2})
    for (const Buffer& buffer : compile(job_from(small_gpt(layers, tp, 1, 1), overrides)).buffers)
      if (buffer.scope == Scope::microbatch) kept += (layers == 2 ? 1 : -1) * buffer.bytes();
  return kept;
}

// What a backward pass runs once more: "2 x qkv", in alphabetical order.
std::vector<std::string> recomputed(const Plan& plan) {
  std::map<std::string, int> counts;
  const auto pass = std::ranges::find(plan.segments, PassKind::backward, &Segment::kind);
  REQUIRE(pass != plan.segments.end());
  for (const Instruction& instruction : pass->instructions)
    if (instruction.phase == Phase::recompute && instruction.opcode != Opcode::free)
      ++counts[instruction.label];
  std::vector<std::string> lines;
  for (const auto& [label, count] : counts) lines.push_back(std::to_string(count) + " x " + label);
  return lines;
}

TEST_CASE("recompute.saved: a layer keeps its input, its last mask and what is listed, to the byte") {
  const std::int64_t sbh = std::int64_t{512} * 2 * 1024;  // small_gpt: 2 bytes an element, 1 a mask's
  const std::int64_t input = 2 * sbh, qkv = 6 * sbh, fc1 = 8 * sbh, sum = 2 * sbh, mask = sbh;
  CHECK(kept_by_a_layer(1, {saved("qkv")}) == input + mask + qkv);
  CHECK(kept_by_a_layer(1, {saved("qkv, fc1")}) == input + mask + qkv + fc1);
  // Nothing reads a product that is only added: listing it costs nothing.
  CHECK(kept_by_a_layer(1, {saved("qkv, fc2")}) == input + mask + qkv);
  for (const std::int64_t t : {2, 4}) {
    const Override sequence_parallel{"parallelism.sequence_parallel", "true"};
    CHECK(kept_by_a_layer(static_cast<int>(t), {sequence_parallel, saved("qkv, fc1")}) ==
          (input + mask + qkv + fc1) / t);
  }
  // The sum that follows from the listed product is read again: by the second norm. It is kept where it is
  // smallest, behind the reduce-scatter.
  const Override sequence_parallel{"parallelism.sequence_parallel", "true"};
  CHECK(kept_by_a_layer(4, {sequence_parallel, saved("qkv, attention_projection")}) ==
        (input + mask + qkv + sum) / 4);
}

TEST_CASE("recompute.saved: only what the backward pass reads again is recomputed, each once a layer") {
  const auto of = [](const std::string& scopes) {
    return recomputed(compile(job_from(small_gpt(2, 1, 1, 1), {saved(scopes)})));
  };
  // The norms are read by the weights of qkv and fc1, the sum by the second norm; fc2 and its sum by nobody.
  CHECK(of("qkv, core_attention, fc1") ==
        std::vector<std::string>{"2 x attention_add", "2 x attention_projection", "2 x input_norm",
                                 "2 x mlp_activation", "2 x mlp_norm"});
  CHECK(of("layers") == std::vector<std::string>{});
  CHECK(of("\"layers[0]\", fc1") ==
        std::vector<std::string>{"1 x attention_add", "1 x attention_projection", "1 x core_attention",
                                 "1 x input_norm", "1 x mlp_activation", "1 x mlp_norm", "1 x qkv"});
}

TEST_CASE("recompute that stops early leaves out what nothing reads again: the last product and its sum") {
  const auto of = [](const char* early, const char* dropout) {
    return recomputed(
        compile(job_from(small_gpt(2, 2, 1, 1), {{"recompute", "{granularity: full}"},
                                                 {"model.hidden_dropout", dropout},
                                                 {"framework.kernels.recompute_stops_early", early}})));
  };
  std::vector<std::string> whole = of("false", "0");
  const std::vector<std::string> early = of("true", "0");
  CHECK(std::ranges::count(whole, "2 x fc2") == 1);
  for (const char* last : {"2 x fc2", "2 x fc2 all_reduce", "2 x mlp_add"}) std::erase(whole, last);
  CHECK(early == whole);
  CHECK(std::ranges::count(early, "2 x mlp_activation") == 1);
  // A search puts its own recompute in the place of the job's.
  Job searched = job_from(small_gpt(2, 2, 1, 1), {{"model.hidden_dropout", "0"},
                                                  {"framework.kernels.recompute_stops_early", "true"}});
  searched.recompute = {};
  searched.recompute.granularity = RecomputeGranularity::full;
  CHECK(recomputed(compile(searched)) == early);
  // The gradient of dropout reads the last sum's mask, so that all is run again.
  CHECK(of("true", "0.1") == of("false", "0.1"));
}

TEST_CASE("recompute.saved: with everything listed the plan is that without recompute") {
  for (const int tp : {1, 2}) {
    const std::string yaml = small_gpt(2, tp, 1, 1);
    Plan listed = compile(job_from(yaml, {saved("layers")}));
    const Plan plain = compile(job_from(yaml));
    CHECK(listed.segments == plain.segments);
    CHECK(listed.buffers == plain.buffers);
  }
}

TEST_CASE("recompute.saved: every strategy lints") {
  for (const char* scopes : {"qkv", "core_attn, fc1", "attention, fc2", "\"layers[1-3].*\""})
    for (const int tp : {1, 2})
      for (const char* schedule : {"1f1b", "zb_h1", "interleaved_1f1b"})
        for (const char* zero : {"1", "3"}) {
          std::vector<Override> overrides{saved(scopes),
                                          {"parallelism.tensor_model_parallel_size", std::to_string(tp)},
                                          {"parallelism.sequence_parallel", tp > 1 ? "true" : "false"},
                                          {"parallelism.pipeline_schedule", schedule},
                                          {"optimizer.zero_stage", zero}};
          if (std::string(schedule) == "interleaved_1f1b")
            overrides.push_back({"parallelism.virtual_pipeline_model_parallel_size", "2"});
          CAPTURE(scopes, tp, schedule, zero);
          CHECK(lint(compile(job_from(small_gpt(4, 1, 2, 1), overrides))) == std::vector<std::string>{});
        }
}

TEST_CASE("recompute.saved: what no layer has is refused where it stands") {
  const auto messages = [](const std::string& scopes) {
    std::vector<std::string> said;
    try {
      compile(job_from(small_gpt(2, 1, 1, 1), {saved(scopes)}));
    } catch (const ConfigError& error) {
      for (const Diagnostic& fault : error.diagnostics()) said.push_back(fault.message);
    }
    return said;
  };
  CHECK(messages("qkv, head, fc3") == std::vector<std::string>{"'head' is in no layer, and kept anyway",
                                                               "no operator is in the scope 'fc3'"});
}

}  // namespace
}  // namespace simrun
