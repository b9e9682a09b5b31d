#include "models/trained_parameters.h"

#include <catch2/catch.hpp>

#include "models/backward.h"
#include "models/decoder.h"
#include "models/flops.h"
#include "tests/jobs.h"

// Frozen parameters and low-rank adapters: what is trained, what it costs.
namespace simrun {
namespace {

Graph trained_graph(const Job& job) {
  Graph graph = decoder_graph(job);
  select_trained(graph, job);
  return graph;
}

Job llama(const std::string& model, const std::string& training) {
  return job_from("simrun: 1\nmodel: {from: models/" + model + ".yaml" + training);
}

// Of Llama-2-7B with the given adapters.
std::int64_t trained_with(const std::string& lora) {
  return count_trained_parameters(trained_graph(llama(
      "llama2-7b",
      "}\ntraining: {seq_length: 1024, micro_batch_size: 1, global_batch_size: 8, precision: bf16, lora: " +
          lora + "}\ncluster: {from: dgx_h100, nodes: 1}\n")));
}

Job small(const std::vector<Override>& overrides) { return job_from(small_gpt(2, 1, 1, 1), overrides); }

OperatorFlops total_flops(const Graph& graph) {
  OperatorFlops total;
  for (const Operator& op : graph.operators) {
    const OperatorFlops of = operator_flops(graph, op, Extents::unpadded);
    total.forward += of.forward;
    total.backward_input += of.backward_input;
    total.backward_weight += of.backward_weight;
  }
  return total;
}

TEST_CASE("adapters of rank 8 on q and v of Llama-2-7B have the 4,194,304 parameters that PEFT prints") {
  // 32 layers x 2 adapters x (4096 x 8 + 8 x 4096).
  CHECK(trained_with("{rank: 8, targets: [q, v]}") == 4'194'304);
  // One A for the packed product: 32 x (4096 x 8 + 8 x 12288).
  CHECK(trained_with("{rank: 8, targets: [qkv]}") == 4'194'304);
  CHECK(trained_with("{rank: 16, targets: [q, k, v]}") == 12'582'912);  // 32 x 3 x 2 x 4096 x 16
  // 32 x 16 x (4096 + 12288  +  4096 + 4096  +  4096 + 22016  +  11008 + 4096), gate and up packed.
  CHECK(trained_with("{rank: 16}") == 32 * 16 * (16384 + 8192 + 26112 + 15104));
}

TEST_CASE(
    "adapters of rank 16 on Qwen3-30B-A3B's attention and experts have the 642,514,944 of a QLoRA run") {
  // That run (Qwen3-30B-A3B on one RTX 5090, Unsloth) has q, k, v, o apart and an expert's gate and up
  // packed: 48 layers x 16 x ((2048 + 4096) + 2 (2048 + 512) + (4096 + 2048) + 128 ((2048 + 1536) + (768 +
  // 2048))).
  const Job job = llama(
      "qwen3-30b-a3b",
      "}\ntraining: {seq_length: 1024, micro_batch_size: 1, global_batch_size: 8, precision: bf16, lora: "
      "{rank: 16, targets: [q, k, v, attention_projection, fc1, fc2]}}\ncluster: {from: dgx_h100, nodes: "
      "1}\n");
  CHECK(count_trained_parameters(trained_graph(job)) == 642'514'944);
}

TEST_CASE("grouped keys and values have narrower adapters") {
  // Llama 3 8B: k and v have 8 heads of 128 = 1024 outputs: 32 x (4096 x 8 + 8 x 1024).
  const Job job =
      llama("llama3-8b",
            "}\ntraining: {seq_length: 1024, micro_batch_size: 1, global_batch_size: 8, precision: "
            "bf16, lora: {rank: 8, targets: [v]}}\ncluster: {from: dgx_h100, nodes: 1}\n");
  CHECK(count_trained_parameters(trained_graph(job)) == 1'310'720);
}

TEST_CASE("with all weights frozen but the last norm's there are no weight products, 2/3 of the full step") {
  const Graph full = trained_graph(small({}));
  // Everything in front of and in the layers but the first layer's input norm, whose gradient needs them all.
  const Graph frozen = trained_graph(small({{"model.frozen",
                                             "[embedding, \"layers[1]\", layers.qkv, layers.mlp, "
                                             "layers.attention*, layers.mlp_norm, head]"}}));
  // The word embeddings are tied and frozen with the embedding.
  CHECK(count_trained_parameters(frozen) == 2 * 1024);
  const OperatorFlops of_full = total_flops(full), of_frozen = total_flops(frozen);
  CHECK(of_frozen.forward == of_full.forward);
  CHECK(of_frozen.backward_weight == 0);
  // All but what lies before the first norm, and that is no product.
  CHECK(of_frozen.backward_input == of_full.backward_input);
  // Of the products, attention's own apart, 2 of 3 are left.
  double gemm_full = 0, gemm_frozen = 0;
  for (std::size_t o = 0; o < full.operators.size(); ++o) {
    if (full.operators[o].opcode != Opcode::gemm) continue;
    gemm_full += operator_flops(full, full.operators[o], Extents::unpadded).total();
    gemm_frozen += operator_flops(frozen, frozen.operators[o], Extents::unpadded).total();
  }
  CHECK(gemm_frozen == Approx(2.0 / 3 * gemm_full).epsilon(1e-12));
}

TEST_CASE("the backward pass stops where nothing that is trained lies before") {
  const Graph graph = trained_graph(small({{"model.frozen", "[embedding, \"layers[0]\"]"}}));
  for (const Operator& op : graph.operators) {
    CAPTURE(op.name, op.layer);
    const std::vector<BackwardStep> steps = backward_steps(graph, op);
    if (op.layer == 0 || (op.layer < 0 && !op.after_layers)) CHECK(steps.empty());
    // The tied word embeddings are frozen: the logits pass their input's gradient on and have no other.
    if (op.name == "logits") CHECK(steps.size() == 1);
  }
  // Layer 1's first product needs no gradient of its input's input: the norm before it trains its own
  // weights.
  for (const Operator& op : graph.operators)
    if (op.layer == 1 && op.name == "input_norm") {
      const std::vector<BackwardStep> steps = backward_steps(graph, op);
      REQUIRE(steps.size() == 1);
      CHECK(steps[0].weight);
      CHECK(steps[0].gradients_of == std::vector<std::uint8_t>{1, 2});
    }
}

TEST_CASE("an adapter's products: A and B forward, and backward for themselves and for what lies before") {
  const std::vector<Override> lora{{"training.lora", "{rank: 4, targets: [fc2]}"}};
  const Graph graph = trained_graph(small(lora));
  // Rows of a microbatch over 8 data-parallel ranks: 16 x 512; ffn 4096, hidden 1024.
  const double rows = 16 * 512;
  int found = 0;
  for (const Operator& op : graph.operators) {
    const OperatorFlops flops = operator_flops(graph, op, Extents::unpadded);
    // Nothing is trained before the first layer's fc2.
    const bool first = op.layer == 0;
    if (op.name == "fc2") CHECK(flops.backward_weight == 0);
    if (op.name == "fc2") CHECK(flops.backward_input == (first ? 0 : 2 * rows * 4096 * 1024));
    if (op.name == "fc2_lora_a") {
      CHECK(flops.forward == 2 * rows * 4096 * 4);
      CHECK(flops.backward_weight == flops.forward);
      CHECK(flops.backward_input == (first ? 0 : flops.forward));
      ++found;
    }
    if (op.name == "fc2_lora_b") {
      CHECK(flops.forward == 2 * rows * 4 * 1024);
      CHECK(flops.backward_weight == flops.forward);
      CHECK(flops.backward_input == flops.forward);  // A is trained
      ++found;
    }
  }
  CHECK(found == 4);
}

TEST_CASE("frozen parts may be named as in layout rules: parts, modules, lists of layers, names anywhere") {
  const auto trained = [](const std::string& frozen) {
    return count_trained_parameters(trained_graph(small({{"model.frozen", frozen}})));
  };
  const std::int64_t all = count_trained_parameters(trained_graph(small({})));
  // h = 1024 in 2 layers: qkv 3 h^2 + 3 h, projection h^2 + h, fc1 4 h^2 + 4 h, fc2 4 h^2 + h.
  const std::int64_t h = 1024, attention = 4 * h * h + 4 * h, mlp = 8 * h * h + 5 * h;
  CHECK(trained("[attention]") == all - 2 * attention);
  CHECK(trained("[\"layers[0,1].attention\"]") == all - 2 * attention);
  CHECK(trained("[\"layers[1].mlp\"]") == all - mlp);
  CHECK(trained("[fc1]") == all - 2 * (4 * h * h + 4 * h));
  CHECK(trained("[\"*1\"]") == trained("[fc1]"));
}

TEST_CASE("all scopes that the model lacks are refused at once, where they stand") {
  try {
    trained_graph(small({{"model.frozen", "[embeddings, attention, layers.fc3]"}}));
    FAIL("accepted");
  } catch (const ConfigError& error) {
    REQUIRE(error.diagnostics().size() == 2);
    CHECK(error.diagnostics()[0].message == "no operator is in the scope 'embeddings'");
    CHECK(error.diagnostics()[0].hint == "did you mean 'embedding'?");
    CHECK(error.diagnostics()[1].message == "no operator is in the scope 'layers.fc3'");
  }
}

TEST_CASE("a scope without parameters, a target that the model lacks and nothing to train are refused") {
  const auto refuses = [](const std::vector<Override>& overrides, const std::string& words) {
    CHECK_THROWS_WITH(trained_graph(small(overrides)), Catch::Contains(words));
  };
  refuses({{"model.frozen", "[layers.experts]"}}, "no operator is in the scope 'layers.experts'");
  refuses({{"model.frozen", "[core_attention]"}}, "the scope 'core_attention' has no parameters to freeze");
  refuses({{"model.frozen", "[embedding, layers, head]"}}, "model.frozen: nothing is left to train");
}

}  // namespace
}  // namespace simrun
