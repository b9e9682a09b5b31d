// Random rules of a user, from the job to the linted plan.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <random>

#include "models/decoder.h"
#include "schedules/compile.h"
#include "schedules/layout_rules.h"
#include "schedules/lint.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

using Random = std::mt19937;

const char* one_of(Random& random, const std::vector<const char*>& words) {
  return words[random() % words.size()];
}

std::string random_rules(Random& random) {
  std::string rules = "layout:\n";
  const std::size_t count = 1 + random() % 3;
  for (std::size_t r = 0; r < count; ++r) {
    const std::string scope = one_of(random, {"layers", "attention", "mlp", "fc1", "layers[0].fc2", "qkv",
                                              "head", "logits", "core_attn", "*norm", "layers[1]"});
    const std::string dim = one_of(random, {"batch", "sequence", "hidden", "heads", "ffn", "vocab"});
    const std::string axes = one_of(random, {"tp", "dp", "[dp, tp]", "[tp, dp]"});
    const std::string whole =
        one_of(random, {"", ", replicate: [batch]", ", replicate: [heads, ffn, vocab]"});
    rules += fmt::format("  - {{scope: \"{}\", split: {{{}: {}}}{}}}\n", scope, dim, axes, whole);
  }
  return rules;
}

// Two layers on 8 GPUs, tp 2 x dp 4, with 8 sequences a rank, so a batch of 32; vocabulary unpadded.
Job job_of(const std::string& rules, const char* zero_stage) {
  return job_from(small_gpt(2, 2, 1, 1) + rules, {{"training.micro_batch_size", "8"},
                                                  {"training.seq_length", "128"},
                                                  {"model.untie_embeddings_and_output_weights", "true"},
                                                  {"optimizer.zero_stage", zero_stage}});
}

// Every product and attention of the model is divided over all ranks.
bool divides_all(const Job& job) {
  const Graph graph = decoder_graph(job);
  const DeviceMesh mesh = mesh_of(job);
  const std::vector<Layout> layouts = layouts_of(job, graph, mesh);
  for (std::size_t o = 0; o < layouts.size(); ++o) {
    const Opcode opcode = graph.operators[o].opcode;
    if (opcode != Opcode::gemm && opcode != Opcode::attention) continue;
    std::int64_t parts = 1;
    for (const DimensionSplit& split : layouts[o].splits) parts *= mesh.size(split.axes);
    if (parts != 8) return false;
  }
  return true;
}

TEST_CASE("random rules: what is accepted lints, with the model's FLOPs, or more where work is repeated") {
  Random random(11);
  int refused = 0, exact = 0, repeated = 0;
  for (int round = 0; round < 120; ++round) {
    const std::string rules = random_rules(random);
    const char* zero_stage = one_of(random, {"0", "1", "2", "3"});
    CAPTURE(rules, zero_stage);
    try {
      const Job job = job_of(rules, zero_stage);
      const Plan plan = compile(job);
      const std::vector<std::string> faults = lint(plan);
      if (!faults.empty()) FAIL_CHECK(faults.front());
      const double ratio = plan.job.hardware_flops_per_step / plan.job.model_flops_per_step;
      if (divides_all(job)) {
        CHECK(ratio == Approx(1));
        ++exact;
      } else {
        CHECK(ratio > 1.001);
        ++repeated;
      }
    } catch (const ConfigError&) {
      ++refused;
    }
  }
  CHECK(refused > 10);
  CHECK(exact > 10);
  CHECK(repeated > 10);
}

}  // namespace
}  // namespace simrun
