#include "models/vision_language.h"

#include <catch2/catch.hpp>

#include "models/backward.h"
#include "models/flops.h"
#include "models/model_graph.h"
#include "models/trained_parameters.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

// Two of ViT-L's layers, of which the first is read, before two of Vicuna's: 64 patches of 28 x 28.
Job small_llava(const std::vector<Override>& overrides = {}) {
  return job_from(
      "simrun: 1\n"
      "model:\n"
      "  from: llava-1.5-7b\n"
      "  text_config: {num_hidden_layers: 2, hidden_size: 512, intermediate_size: 1024, num_attention_heads: "
      "4, "
      "num_key_value_heads: 4, vocab_size: 1024}\n"
      "  vision_config: {image_size: 224, patch_size: 28, num_hidden_layers: 2, hidden_size: 256, "
      "intermediate_size: 768, num_attention_heads: 2}\n"
      "training: {seq_length: 256, micro_batch_size: 1, global_batch_size: 8, precision: bf16}\n"
      "cluster: {from: dgx_h100, nodes: 1, gpus_per_node: 1}\n",
      overrides);
}

Graph trained(const Job& job) {
  Graph graph = build_graph(job);
  select_trained(graph, job);
  return graph;
}

const Operator& operator_named(const Graph& graph, const std::string& name) {
  for (const Operator& op : graph.operators)
    if (op.name == name) return op;
  FAIL("no operator " << name);
  return graph.operators.front();
}

std::vector<std::int64_t> sizes(const Graph& graph, TensorId tensor) {
  std::vector<std::int64_t> result;
  for (const DimensionId dim : graph.tensors[tensor].dims) result.push_back(graph.dimensions[dim].size);
  return result;
}

using Sizes = std::vector<std::int64_t>;

TEST_CASE("an image's patches, without the class token, stand before the text in one sequence") {
  const Graph graph = build_graph(small_llava({{"training.images_per_sample", "2"}}));
  const Operator& merge = operator_named(graph, "merge_images");
  REQUIRE(merge.inputs.size() == 2);
  CHECK(sizes(graph, merge.inputs[0]) == Sizes{2, 64, 512});  // images, (224 / 28)^2, width of the text
  CHECK(sizes(graph, merge.inputs[1]) == Sizes{1, 256 - 128, 512});  // what two images leave
  CHECK(sizes(graph, merge.outputs[0]) == Sizes{1, 256, 512});
  CHECK(sizes(graph, operator_named(graph, "vision_features").inputs[0]) == Sizes{2, 65, 256});
  CHECK(sizes(graph, operator_named(graph, "vision_patch_embedding").inputs[0]) == Sizes{2, 64, 28 * 28 * 3});
  CHECK(sizes(graph, operator_named(graph, "logits").outputs[0]) == Sizes{1, 256, 1024});  // every position
}

TEST_CASE("FLOPs are the tower's up to the layer that is read, the projector's and the decoder's, by hand") {
  const double t = 65, v = 256, n = 64, h = 512, s = 256;
  const double tower = n * 2352 * v + t * (4 * v * v + 2 * v * 768 + 2 * t * v);
  const double projector = n * (v * h + h * h);
  const double decoder = 2 * s * (4 * h * h + 3 * h * 1024 + 2 * s * h) + s * h * 1024;
  // Forward and twice as much backward; the images have no gradient.
  CHECK(model_flops(trained(small_llava())) ==
        Approx(6 * (tower + projector + decoder) - 2 * n * 2352 * v).epsilon(1e-12));
  // Frozen, the tower is run forward, and the projector's first product has no gradient of its input.
  CHECK(model_flops(trained(small_llava({{"model.frozen", "[vision_tower]"}}))) ==
        Approx(6 * (projector + decoder) - 2 * n * v * h + 2 * tower).epsilon(1e-12));
  // The first stage: weights of the projector alone have gradients, but those of activations go back to it.
  const double attention = 2 * s * (2 * s * h);  // no weight: forward and twice as much backward, always
  CHECK(model_flops(trained(small_llava({{"model.frozen", "[vision_tower, language_model]"}}))) ==
        Approx(2 * tower + 6 * projector - 2 * n * v * h + 4 * (decoder - attention) + 6 * attention)
            .epsilon(1e-12));
}

TEST_CASE("the layers behind the one that is read are run, kept and never trained") {
  const Graph graph = trained(small_llava());
  int discarded = 0;
  for (const Operator& op : graph.operators) {
    CAPTURE(op.name, op.layer);
    // The second of two layers and the last norm.
    const bool unread = op.name.starts_with("vision_") && (op.layer == 1 || op.name == "vision_final_norm");
    CHECK(op.discarded == unread);
    if (!unread) continue;
    ++discarded;
    CHECK(backward_steps(graph, op).empty());
  }
  CHECK(discarded == 10 + 1);
  // 12 matrices' worth here: 4 v^2 + 2 v ffn, their biases, two norms; and the last norm.
  const std::int64_t unread = 4 * 256 * 256 + 2 * 256 * 768 + (4 * 256 + 768 + 256) + 4 * 256 + 2 * 256;
  CHECK(count_parameters(graph) - count_trained_parameters(graph) == unread);
  const Graph whole = trained(small_llava({{"model.vision_feature_layer", "-1"}}));
  CHECK(count_parameters(whole) == count_parameters(graph));
  CHECK(count_parameters(whole) - count_trained_parameters(whole) == 2 * 256);
}

TEST_CASE("each part can be frozen by its name, and the parts are all there is") {
  std::int64_t sum = 0;
  for (const char* part : {"vision_tower", "multi_modal_projector", "language_model"}) {
    const Graph graph = trained(
        small_llava({{"model.vision_feature_layer", "-1"}, {"model.frozen", "[" + std::string(part) + "]"}}));
    sum += count_parameters(graph) - count_trained_parameters(graph);
  }
  // The tower's last norm is frozen in each of the three, and by name in the first.
  CHECK(sum == count_parameters(build_graph(small_llava())) + 2 * 2 * 256);
  // 256 x 512 + 512 and 512 x 512 + 512.
  const Graph projector = trained(small_llava({{"model.frozen", "[vision_tower, language_model]"}}));
  CHECK(count_trained_parameters(projector) == 131'584 + 262'656);
  CHECK_THROWS_WITH(trained(job_from(small_gpt(2, 1, 1, 1), {{"model.frozen", "[vision_tower]"}})),
                    Catch::Contains("no operator is in the scope 'vision_tower'"));
  CHECK_THROWS_WITH(trained(small_llava({{"model.frozen", "[vision]"}})),
                    Catch::Contains("no operator is in"));
}

TEST_CASE("a frozen tower has no backward pass, and its features are the last thing that is kept of it") {
  const Graph graph = trained(small_llava({{"model.frozen", "[vision_tower]"}}));
  for (const Operator& op : graph.operators) {
    CAPTURE(op.name, op.layer);
    if (op.name.starts_with("vision_")) CHECK(backward_steps(graph, op).empty());
    if (op.name == "projector_fc1") {
      const std::vector<BackwardStep> steps = backward_steps(graph, op);
      REQUIRE(steps.size() == 1);
      CHECK(steps[0].weight);
    }
  }
}

TEST_CASE("adapters go to the language model's products, not to the tower's of the same kind") {
  const Graph graph = trained(small_llava({{"training.lora", "{rank: 8, targets: [qkv]}"}}));
  CHECK(count_trained_parameters(graph) == 2 * (512 * 8 + 8 * 1536));
}

}  // namespace
}  // namespace simrun
