#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "models/flops.h"
#include "models/model_graph.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

Graph graph_of_images(const std::string& preset, const std::string& precision = "bf16") {
  return build_graph(job_from("simrun: 1\nmodel: {from: models/" + preset +
                              ".yaml}\ntraining: {micro_batch_size: 1, global_batch_size: 1, precision: " +
                              precision + "}\ncluster: {from: dgx_h100, nodes: 1, gpus_per_node: 1}\n"));
}

double forward_flops(const Graph& graph) {
  double total = 0;
  for (const Operator& op : graph.operators) total += operator_flops(graph, op, Extents::unpadded).forward;
  return total;
}

TEST_CASE("forward FLOPs of image models are the published multiply-adds within 0.5 %") {
  std::ifstream file(SIMRUN_SOURCE_DIR "/tests/data/vision_flops.csv");
  std::string line;
  std::getline(file, line);  // preset,forward_gmacs,source
  int models = 0;
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    std::string preset, gmacs;
    std::getline(cells, preset, ',');
    std::getline(cells, gmacs, ',');
    CAPTURE(preset);
    CHECK(forward_flops(graph_of_images(preset)) / 2e9 == Approx(std::stod(gmacs)).epsilon(0.005));
    ++models;
  }
  CHECK(models == 5);
}

TEST_CASE("a convolution has three products of one size, but none for the gradient of the images") {
  const Graph graph = graph_of_images("resnet-50");
  const auto flops_of = [&](const std::string& name, std::int32_t layer) {
    for (const Operator& op : graph.operators)
      if (op.name == name && op.layer == layer) return operator_flops(graph, op, Extents::unpadded);
    return OperatorFlops{};
  };
  // 112 x 112 positions x 64 channels x 7 x 7 x 3 multiply-adds
  CHECK(flops_of("stem", -1).forward == 2.0 * 112 * 112 * 64 * 147);
  CHECK(flops_of("stem", -1).backward_input == 0);
  CHECK(flops_of("stem", -1).backward_weight == flops_of("stem", -1).forward);
  // Block 3 is the first of the second resolution: 3x3 of 128 channels with stride 2, 28 x 28 positions.
  const OperatorFlops strided = flops_of("conv2", 3);
  CHECK(strided.forward == 2.0 * 28 * 28 * 128 * 9 * 128);
  CHECK(strided.backward_input == strided.forward);
}

TEST_CASE("BERT: 6 FLOPs per parameter of its products and 12 L s h per token") {
  const Graph graph = build_graph(
      job_from("simrun: 1\nmodel: {from: models/bert-large.yaml}\n"
               "training: {seq_length: 512, micro_batch_size: 1, global_batch_size: 8, precision: bf16}\n"
               "cluster: {from: dgx_h100, nodes: 1}\n"));
  const double h = 1024, layers = 24, s = 512, v = 30522;
  // The layers, the masked-LM transform and the word table for every token; pooler and two classes per
  // sequence. The batch of the graph is 8 sequences.
  const double per_sequence =
      s * (6 * (12 * layers * h * h + h * h + v * h) + 12 * layers * s * h) + 6 * (h * h + 2 * h);
  CHECK(model_flops(graph) == Approx(8 * per_sequence).epsilon(1e-12));
}

TEST_CASE("BERT without its next-sentence head lacks the pooler and two classes") {
  const auto parameters = [](const char* head) {
    return count_parameters(build_graph(job_from(
        "simrun: 1\nmodel: {from: models/bert-base.yaml, bert_binary_head: " + std::string(head) +
        "}\ntraining: {seq_length: 512, micro_batch_size: 1, global_batch_size: 8, precision: bf16}\n"
        "cluster: {from: dgx_h100, nodes: 1}\n")));
  };
  CHECK(parameters("true") == 110'106'428);
  CHECK(parameters("true") - parameters("false") == 768 * 768 + 768 + 2 * 768 + 2);
  // BertModel: 109,482,240 with the pooler; the masked-LM head has a dense layer, a norm and a bias per word.
  CHECK(parameters("true") - (768 * 768 + 768 + 2 * 768 + 30522) - (2 * 768 + 2) == 109'482'240);
}

}  // namespace
}  // namespace simrun
