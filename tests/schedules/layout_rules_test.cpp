#include "schedules/layout_rules.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <stdexcept>

#include "models/decoder.h"
#include "models/model_scope.h"
#include "schedules/compile.h"
#include "schedules/lint.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

// Two layers of 16 heads, ffn 4096, on 8 GPUs: tp 4, dp 2, so a batch of 4; sequence 512.
Job job_with_layout(const std::string& layout, const std::vector<Override>& more = {}) {
  return job_from(small_gpt(2, 4, 1, 1) + "layout:\n" + layout, more);
}

struct Laid {
  Graph graph;
  DeviceMesh mesh;
  std::vector<Layout> layouts;

  explicit Laid(const Job& job)
      : graph(decoder_graph(job)), mesh(mesh_of(job)), layouts(layouts_of(job, graph, mesh)) {}
  std::string of(const std::string& name, std::int32_t layer) const {
    for (std::size_t o = 0; o < layouts.size(); ++o)
      if (graph.operators[o].name == name && graph.operators[o].layer == layer)
        return describe(layouts[o], graph, mesh);
    throw std::logic_error("no operator " + name);
  }
};

// "line:column message | hint", one a line.
std::string faults(const std::string& layout) {
  std::string text;
  try {
    Laid{job_with_layout(layout)};
  } catch (const ConfigError& error) {
    for (const Diagnostic& fault : error.diagnostics())
      text += fmt::format("{}:{} {} | {}\n", fault.position.line, fault.position.column, fault.message,
                          fault.hint);
  }
  return text;
}

std::vector<std::string> names_in(const std::string& scope, const Graph& graph, std::int32_t layer) {
  std::vector<std::string> names;
  for (const Operator& op : graph.operators)
    if (op.layer == layer && holds(parse_scope(scope), graph, op)) names.push_back(op.name);
  return names;
}

TEST_CASE("layout scopes: layers, their parts, modules, operators and patterns") {
  const Graph graph = decoder_graph(job_from(small_gpt(4, 1, 1, 1)));
  using Names = std::vector<std::string>;
  CHECK(names_in("attention", graph, 1) == Names{"qkv", "core_attention", "attention_projection"});
  CHECK(names_in("mlp", graph, 1) == Names{"fc1", "mlp_activation", "fc2"});
  CHECK(names_in("core_attn", graph, 1) == Names{"core_attention"});
  CHECK(names_in("fc*", graph, 1) == Names{"fc1", "fc2"});
  CHECK(names_in("*norm", graph, 1) == Names{"input_norm", "mlp_norm"});
  CHECK(names_in("layers[0,2-3].fc1", graph, 1).empty());
  CHECK(names_in("layers[0,2-3].fc1", graph, 2) == Names{"fc1"});
  CHECK(names_in("layers", graph, 3).size() == names_in("", graph, 3).size());
  CHECK(names_in("layers", graph, -1).empty());
  CHECK(names_in("embedding", graph, -1) ==
        Names{"tokens", "word_embedding", "position_embedding", "embedding_dropout"});
  CHECK(names_in("head", graph, -1).front() == "final_norm");
}

TEST_CASE("layout rules: what Megatron's keys mean, written as rules, is the same plan") {
  const std::string rules = "  - split: {heads: tp, ffn: tp, vocab: tp, batch: dp}\n";
  Plan by_rules = compile(job_with_layout(rules)), by_keys = compile(job_from(small_gpt(2, 4, 1, 1)));
  CHECK(by_rules.job.config_sha256 != by_keys.job.config_sha256);
  by_rules.job.config_sha256 = by_keys.job.config_sha256;
  CHECK(by_rules == by_keys);
}

TEST_CASE("layout rules: a user's rule decides its dimensions in its scope, the last rule wins") {
  const Laid laid(
      job_with_layout("  - split: {ffn: tp}\n"
                      "  - {scope: \"layers[1].mlp\", replicate: [ffn], split: {sequence: tp}}\n"));
  CHECK(laid.of("fc1", 0) == "batch split over dp, ffn split over tp");
  CHECK(laid.of("fc1", 1) == "batch split over dp, sequence split over tp");
  CHECK(laid.of("qkv", 1) == "batch split over dp, kv_heads split over tp");
  CHECK(laid.of("mlp_norm", 1) == "batch split over dp");
}

TEST_CASE(
    "layout rules: attention around a ring keeps its part of the sequence, one that exchanges heads is "
    "free") {
  const std::string rules = "  - {scope: attention, split: {batch: [cp, dp]}}\n";
  const auto refused = [&](const char* type) {
    try {
      compile(job_with_layout(rules, {{"parallelism.tensor_model_parallel_size", "1"},
                                      {"parallelism.context_parallel_size", "2"},
                                      {"parallelism.cp_comm_type", type},
                                      {"training.attention", "flash"},
                                      {"training.micro_batch_size", "8"}}));
    } catch (const ConfigError& error) {
      REQUIRE(error.diagnostics().size() == 1);  // once, not for each layer
      return error.diagnostics()[0].message;
    }
    return std::string();
  };
  const std::string message =
      "core_attention of layer 0 must keep its sequence split over cp, along which keys and values travel";
  CHECK(refused("p2p") == message);
  CHECK(refused("all_gather") == message);
  CHECK(refused("a2a").empty());
}

TEST_CASE("layout rules: an axis given to one dimension is not free for the strategy's rules") {
  // Rows of the first product of the MLP split instead of its columns: fc1 sums partial products over tp.
  const Laid laid(job_with_layout("  - {scope: fc1, split: {hidden: tp}}\n"));
  CHECK(laid.of("fc1", 0) == "batch split over dp, hidden split over tp");
  CHECK(laid.of("fc2", 0) == "batch split over dp, ffn split over tp");
}

TEST_CASE("layout rules: a dimension over an ordered list of axes, and over a mesh of the user's own") {
  // A batch of 2 x dp 2 = 4 over 2 x 4 ranks does not divide; 8 microbatch sequences make it 16.
  const std::vector<Override> wide{{"training.micro_batch_size", "8"}};
  CHECK(Laid(job_with_layout("  - {scope: mlp, split: {batch: [dp, tp]}, replicate: ffn}\n", wide))
            .of("fc1", 0) == "batch split over dp x tp");
  const std::string own =
      "  mesh: {x: 2, y: 4}\n  rules: [{scope: mlp, split: {ffn: [y, x]}, replicate: [batch]}]\n";
  const Job job = job_with_layout(own);
  const DeviceMesh mesh = mesh_of(job);
  // tp is cut where x ends: ranks 0-1, 2-3, and dp.
  CHECK(mesh.mesh.axes == std::vector<Axis>{{"tp0", 2}, {"tp1", 2}, {"cp", 1}, {"dp", 2}});
  CHECK(mesh.axes("y") == std::vector<AxisId>{3, 1});
  CHECK(Laid(job).of("fc1", 0) == "ffn split over y x x");
}

TEST_CASE("layout rules: a sharded step with rules of several regions compiles and lints") {
  for (const char* rules :
       {"  - {scope: mlp, split: {batch: [dp, tp]}, replicate: [ffn]}\n",
        "  - {scope: \"layers[0].attention\", replicate: [heads]}\n  - {scope: head, split: {vocab: [dp, "
        "tp]}, "
        "replicate: [batch]}\n  - {scope: embedding, split: {vocab: [dp, tp]}, replicate: [batch]}\n",
        "  - {split: {hidden: tp}, replicate: [ffn, heads, vocab]}\n"})
    for (const char* zero : {"0", "1", "3"}) {
      const Plan plan = compile(
          job_with_layout(rules, {{"training.micro_batch_size", "8"}, {"optimizer.zero_stage", zero}}));
      CAPTURE(rules, zero);
      CHECK(lint(plan).empty());
    }
}

TEST_CASE(
    "layout rules: what the model or the mesh cannot follow is listed with operator, sizes and places") {
  CHECK(faults("  - {scope: atention, split: {heads: tp}}\n") ==
        "7:13 no operator is in the scope 'atention' | did you mean 'attention'?\n");
  CHECK(faults("  - {scope: \"layers[2-5].mlp\", split: {ffn: tp}}\n") ==
        "7:13 the scope 'layers[2-5].mlp' names layer 2 | the model's are 0 to 1.\n");
  CHECK(faults("  - {split: {head: tp, ffnn: tp}}\n") ==
        "7:14 the model has no dimension 'head' | did you mean 'heads'?\n"
        "7:24 the model has no dimension 'ffnn' | did you mean 'ffn'?\n");
  CHECK(faults("  - {scope: fc1, split: {vocab: tp}}\n") ==
        "7:26 no operator in the scope 'fc1' has a dimension 'vocab' | theirs are batch, sequence, hidden, "
        "ffn.\n");
  CHECK(faults("  - {scope: core_attention, split: {head_dim: tp}}\n") ==
        "7:37 core_attention of layer 0 needs its dimension 'head_dim' whole | \n");
  CHECK(faults("  - {scope: fc1, split: {hidden: tp, ffn: tp}}\n") ==
        "7:43 fc1 of layer 0 would be split twice over tp: its hidden and its ffn | a rule for scope fc1 may "
        "replicate one of them.\n");
  CHECK(faults("  - {scope: mlp, split: {batch: [tp, dp]}}\n") ==
        "7:34 fc1 of layer 0: batch 4 does not split over tp x dp, 8 ranks | 4 ranks do; so does batch 8.\n");
  CHECK(
      faults(
          "  - {scope: logits, split: {vocab: tp}, replicate: batch}\n  - {scope: word_embedding, replicate: "
          "vocab}\n") ==
      "8:13 word_embeddings is replicated for word_embedding, but vocab split over tp for logits | a "
      "parameter "
      "that two operators read lies on its ranks once.\n");
  // Every rank adds its own tokens' gradient of the logits to all ranks' equal one of the embedding.
  CHECK(
      faults("  - {scope: logits, split: {sequence: tp}, replicate: vocab}\n"
             "  - {scope: word_embedding, replicate: vocab}\n") ==
      "8:13 the gradient of word_embeddings is partial sum over dp for word_embedding, but partial sum over "
      "tp x dp for logits | what two operators add to it is summed over the same ranks.\n");
}

TEST_CASE("layout rules: a mesh of own axes that does not cover the stage or cuts across tp is refused") {
  CHECK(faults("  mesh: {x: 2, y: 2}\n") ==
        "7:9 the mesh has 4 ranks, but a pipeline stage has 8 (tensor 4 x context 1 x data parallel 2) | its "
        "sizes must multiply to 8.\n");
  const Job odd = job_from(small_gpt(1, 3, 1, 3) + "layout: {mesh: {x: 2, y: 12}}\n",
                           {{"model.num_attention_heads", "24"}, {"model.hidden_size", "1536"}});
  CHECK_THROWS_AS(mesh_of(odd), ConfigError);
}

}  // namespace
}  // namespace simrun
