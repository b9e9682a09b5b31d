#include "models/flops.h"

#include <catch2/catch.hpp>

#include "models/backward.h"
#include "models/decoder.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

double step_flops(const Job& job) {
  return model_flops(decoder_graph(job)) * static_cast<double>(job.microbatches());
}

TEST_CASE("model FLOPs: Korthikanti et al. 2022 appendix A, 72 B L s h^2 (1 + s/6h + V/12hL), exactly") {
  for (const char* name : {"gpt3-175b-1024xa100", "gpt-1t-3072xa100"}) {
    const Job job = preset_job(name);
    const auto b = static_cast<double>(job.training.global_batch_size),
               l = static_cast<double>(job.model.num_layers);
    const auto s = static_cast<double>(job.training.seq_length),
               h = static_cast<double>(job.model.hidden_size);
    const auto v = static_cast<double>(job.model.vocab_size);
    CAPTURE(name);
    CHECK(step_flops(job) ==
          Approx(72 * b * l * s * h * h * (1 + s / (6 * h) + v / (12 * h * l))).epsilon(1e-12));
  }
}

TEST_CASE("model FLOPs: Llama-3-70B at a sequence of 8192 takes 481.4 GFLOP per token") {
  const Job job = preset_job("llama3-70b-64xh100");
  const double tokens = static_cast<double>(job.training.global_batch_size * job.training.seq_length);
  // 6 x 69,501,714,432 matmul parameters + 12 x 80 layers x 8192 tokens x 64 heads x 128 = 481.43e9
  CHECK(step_flops(job) / tokens ==
        Approx(6 * 69'501'714'432.0 + 12.0 * 80 * 8192 * 64 * 128).epsilon(1e-12));
  CHECK(step_flops(job) / tokens == Approx(481.5e9).epsilon(1e-3));
}

TEST_CASE("FLOPs: each matrix product costs once forward, once for its input and once for its weight") {
  const Graph graph = decoder_graph(job_from(small_gpt(1, 1, 1, 1)));
  for (const Operator& op : graph.operators) {
    CAPTURE(op.name);
    const OperatorFlops flops = operator_flops(graph, op, Extents::unpadded);
    if (op.opcode == Opcode::gemm) {
      CHECK(flops.forward > 0);
      CHECK(flops.backward_input == flops.forward);
      CHECK(flops.backward_weight == flops.forward);
    }
    if (op.opcode == Opcode::attention) CHECK(flops.backward_input == 2 * flops.forward);
  }
}

TEST_CASE("backward: every parameter receives a gradient and every differentiable input too") {
  for (const char* name : {"gpt3-175b-1024xa100", "llama3-8b-8xh100"}) {
    const Graph graph = decoder_graph(preset_job(name));
    std::vector<bool> reached(graph.tensors.size(), false);
    for (const Operator& op : graph.operators)
      for (const BackwardStep& step : backward_steps(graph, op))
        for (const std::uint8_t input : step.gradients_of) reached[op.inputs[input]] = true;
    for (const Operator& op : graph.operators)
      for (const TensorId input : op.inputs) {
        CAPTURE(name, op.name, graph.tensors[input].name);
        if (graph.tensors[input].kind == TensorKind::parameter) CHECK(reached[input]);
      }
  }
}

TEST_CASE("backward: steps that only write parameter gradients are marked W, all others are I") {
  const Graph graph = decoder_graph(job_from(small_gpt(1, 1, 1, 1)));
  for (const Operator& op : graph.operators)
    for (const BackwardStep& step : backward_steps(graph, op)) {
      bool only_parameters = true;
      for (const std::uint8_t input : step.gradients_of)
        only_parameters = only_parameters && graph.tensors[op.inputs[input]].kind == TensorKind::parameter;
      CAPTURE(op.name);
      CHECK(step.weight == only_parameters);
    }
}

}  // namespace
}  // namespace simrun
