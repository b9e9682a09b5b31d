// Random rules of a user, from the job to the linted plan.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <random>
#include <set>

#include "schedules/compile.h"
#include "schedules/extent_tables.h"
#include "schedules/lint.h"
#include "schedules/lower_model.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

using Random = std::mt19937;

const char* one_of(Random& random, const std::vector<const char*>& words) {
  return words[random() % words.size()];
}

// Of three kinds: dense, with experts in the second layer, and two stacks. Scopes with dimensions that their
// operators have.
struct Part {
  const char* scope;
  std::vector<const char*> dims;
};
struct RandomModel {
  const char* yaml;
  std::vector<Part> parts;
  bool decodes = false;
};
const std::vector<RandomModel>& models() {
  static const std::vector<Part> everywhere{{"layers", {"batch", "sequence"}},
                                            {"attention", {"batch", "sequence", "heads", "hidden"}},
                                            {"qkv", {"batch", "heads", "hidden"}},
                                            {"core_attn", {"batch", "heads"}},
                                            {"head", {"batch", "vocab"}},
                                            {"logits", {"vocab", "hidden"}},
                                            {"*norm", {"batch", "sequence"}},
                                            {"embedding", {"batch", "vocab", "hidden"}},
                                            {"layers[0].mlp", {"batch", "sequence", "ffn"}},
                                            {"layers[0].fc1", {"hidden", "ffn", "batch"}},
                                            {"layers[0].fc2", {"hidden", "ffn", "sequence"}}};
  static const std::vector<RandomModel> all{
      {"{model_type: gpt, num_layers: 2, hidden_size: 1024, num_attention_heads: 16, vocab_size: 51200, "
       "max_position_embeddings: 512, untie_embeddings_and_output_weights: true}",
       everywhere},
      {"{model_type: qwen3_moe, num_hidden_layers: 2, hidden_size: 512, intermediate_size: 1024, "
       "moe_intermediate_size: 256, num_attention_heads: 8, num_key_value_heads: 8, head_dim: 64, "
       "vocab_size: "
       "1024, num_experts: 8, num_experts_per_tok: 2, mlp_only_layers: [0], decoder_sparse_step: 1, "
       "norm_topk_prob: true, tie_word_embeddings: false}",
       everywhere},
      {"{model_type: t5, num_layers: 1, num_decoder_layers: 1, d_model: 512, d_kv: 64, d_ff: 2048, "
       "num_heads: "
       "8, vocab_size: 1024, relative_attention_num_buckets: 32, feed_forward_proj: relu, dropout_rate: 0, "
       "tie_word_embeddings: false}",
       everywhere, true}};
  return all;
}

struct Shape {
  int tp, cp, pp;  // of 8 GPUs
};

std::string random_rules(Random& random, const RandomModel& model, const Shape& shape) {
  const bool own_mesh = random() % 5 == 0, task_graphs = !own_mesh && random() % 6 == 0;
  std::string rules = "layout:\n";
  if (own_mesh) rules += fmt::format("  mesh: {{x: 2, y: {}}}\n  rules:\n", 4 / shape.pp);
  const std::string margin = own_mesh ? "    " : "  ";
  std::vector<const char*> axes{"tp", "dp", "[dp, tp]", "[tp, dp]"};
  if (shape.cp > 1) axes.insert(axes.end(), {"cp", "[cp, dp]", "[tp, cp]"});
  if (own_mesh) axes = {"x", "y", "[x, y]", "[y, x]"};
  const std::size_t count = 1 + random() % 3;
  for (std::size_t r = 0; r < count; ++r) {
    const Part& part = model.parts[random() % model.parts.size()];
    const std::string scope = part.scope;
    if (task_graphs) {
      rules += fmt::format("{}- {{scope: \"{}\", {}: {}}}\n", margin, scope,
                           one_of(random, {"replicate", "split"}), one_of(random, {"2", "4"}));
      continue;
    }
    const std::string dim = one_of(random, part.dims), other = one_of(random, part.dims);
    rules += fmt::format("{}- {{scope: \"{}\", split: {{{}: {}}}{}}}\n", margin, scope, dim,
                         one_of(random, axes), dim == other ? "" : fmt::format(", replicate: [{}]", other));
  }
  return rules;
}

// On 8 GPUs with 8 sequences a rank.
Job random_job(Random& random, std::string& text) {
  const RandomModel& model = models()[random() % models().size()];
  const bool decodes = model.decodes;
  std::vector<Shape> shapes{{2, 1, 1}, {2, 1, 2}, {4, 1, 1}, {1, 1, 1}};
  if (!decodes) shapes.insert(shapes.end(), {{2, 2, 1}, {1, 2, 2}});
  const Shape shape = shapes[random() % shapes.size()];
  const bool ring = shape.cp > 1 && random() % 2 == 0;
  text = fmt::format(
      "simrun: 1\nmodel: {}\ntraining: {{seq_length: 128, {}micro_batch_size: 8, global_batch_size: 64, "
      "precision: bf16}}\nparallelism: {{tensor_model_parallel_size: {}, pipeline_model_parallel_size: {}, "
      "context_parallel_size: {}, sequence_parallel: {}{}}}\noptimizer: {{zero_stage: {}}}\n{}"
      "cluster: {{from: dgx_h100, nodes: 1}}\n",
      model.yaml, decodes ? "decoder_seq_length: 64, " : "", shape.tp, shape.pp, shape.cp, random() % 2 == 0,
      shape.cp > 1 ? ring ? ", cp_comm_type: p2p" : ", cp_comm_type: all_gather" : "",
      one_of(random, {"0", "0", "1", "3"}), random_rules(random, model, shape));
  return job_from(text);
}

// Whether every product and attention of the model is divided over all ranks of its stage.
bool divides_all(const Job& job) {
  const LoweredModel model = lower_model(job);
  std::int64_t ranks = 1;
  for (const Axis& axis : model.mesh(0).mesh.axes) ranks *= axis.size;
  for (std::size_t o = 0; o < model.layouts.size(); ++o) {
    const Opcode opcode = model.graph.operators[o].opcode;
    if (opcode != Opcode::gemm && opcode != Opcode::attention) continue;
    std::set<AxisId> axes;  // a ring's queries and keys are both split over its own
    for (const DimensionSplit& split : model.layouts[o].splits)
      axes.insert(split.axes.begin(), split.axes.end());
    if (model.mesh(0).size({axes.begin(), axes.end()}) != ranks) return false;
  }
  return true;
}

// Elements of all weights, each local slice times the ranks that have another.
std::int64_t parameters_over_ranks(const Plan& plan) {
  std::int64_t total = 0;
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.category != Category::weights || buffer.parent == no_index ||
        buffer.name.find("shard") != std::string::npos)
      continue;
    std::int64_t parts = 1;
    for (const std::string& names : buffer.split)
      for (const Mesh& mesh : plan.stages[0].meshes) {
        const std::vector<std::uint8_t> axes = axes_of_split(names, mesh);
        for (const std::uint8_t axis : axes) parts *= mesh.axes[axis].size;
        if (!axes.empty()) break;
      }
    total += buffer.elements() * parts;
  }
  return total;
}

}  // namespace

TEST_CASE("random rules: what is accepted lints, with the model's FLOPs, or more where work is repeated",
          "[long]") {
  Random random(11);
  int refused = 0, exact = 0, repeated = 0, counted = 0;
  for (int round = 0; round < 480; ++round) {
    std::string text;
    try {
      const Job job = random_job(random, text);
      CAPTURE(round, text);
      const Plan plan = compile(job);
      const std::vector<std::string> faults = lint(plan);
      if (!faults.empty()) FAIL(faults.front());
      const double ratio = plan.job.hardware_flops_per_step / plan.job.model_flops_per_step;
      if (divides_all(job)) {
        CHECK(ratio == Approx(1));
        ++exact;
      } else {
        CHECK(ratio > 1.000001);
        ++repeated;
      }
      // ZeRO-3 keeps slices of buckets; stacks that share a word table have it on both of their stages.
      if (job.optimizer.zero_stage == 3 || plan.stages.size() > 1) continue;
      CHECK(parameters_over_ranks(plan) == plan.job.parameters);
      ++counted;
    } catch (const ConfigError&) {
      ++refused;
    }
  }
  CHECK(exact + repeated >= 300);
  CHECK(refused > 30);
  CHECK(exact > 60);
  CHECK(repeated > 60);
  CHECK(counted > 100);
}

}  // namespace simrun
