// framework.kernels.separate_gate and recompute_stops_early: other operators and other recompute, the same
// numbers on every rank.
#include <catch2/catch.hpp>

#include "schedules/compile.h"
#include "tests/backend/checked_run.h"
#include "tests/backend/kernel_bench.h"

namespace simrun {
namespace {

const std::string separate = "framework: {kernels: {separate_gate: true, recompute_stops_early: true}}\n";

TEST_CASE("the gradients of a gate and of what it lets through are those of finite differences") {
  struct Case {
    Function forward, backward;
  };
  for (const Case& c : {Case{Function::gated_silu, Function::gated_silu_backward},
                        Case{Function::gated_gelu, Function::gated_gelu_backward},
                        Case{Function::gated_sigmoid, Function::gated_sigmoid_backward}}) {
    CAPTURE(to_string(c.forward));
    KernelBench bench;
    const char* rows = "batch:2 sequence:3 ffn:4";
    const Index gate = bench.tensor(rows), value = bench.tensor(rows), y = bench.tensor(rows);
    const Index r = bench.tensor(rows), dgate = bench.tensor(rows), dvalue = bench.tensor(rows);
    const auto loss = [&] {
      bench.run(bench.instruction(Opcode::map, c.forward, {gate, value}, {y}));
      return bench.dot(y, r);
    };
    loss();
    bench.run(bench.instruction(Opcode::map, c.backward, {r, gate, value}, {dgate, dvalue}));
    CHECK(bench.error(gate, dgate, loss) < gradient_tolerance);
    CHECK(bench.error(value, dvalue, loss) < gradient_tolerance);
  }
}

TEST_CASE("a gate that is a product of its own computes the same on every number of ranks") {
  struct Case {
    const char* parallelism;
    const char* optimizer;
    const char* recompute;
    int gpus;
  };
  const Execution alone = checked_run(compile(tiny_job({.model = tiny_llama, .more = separate})));
  // Four layers of norms, qkv, projection, both halves of fc1 and fc2; table, last norm and head.
  CHECK(alone.gradients.tensors().size() == 4 * 7 + 3);
  for (const Case& c :
       {Case{"{tensor_model_parallel_size: 2, sequence_parallel: true}", "{zero_stage: 3}",
             "recompute: {granularity: full}\n", 4},
        Case{"{pipeline_model_parallel_size: 2, pipeline_schedule: zb_h1}", "{zero_stage: 1}",
             "recompute: {granularity: selective, saved: [qkv, core_attention, fc1_gate]}\n", 4},
        Case{"{tensor_model_parallel_size: 2}", "{zero_stage: 2}",
             "recompute: {granularity: full, method: uniform, num_layers: 2}\n", 2}}) {
    CAPTURE(c.parallelism, c.recompute);
    const Plan plan = compile(tiny_job({.model = tiny_llama,
                                        .parallelism = c.parallelism,
                                        .optimizer = c.optimizer,
                                        .more = separate + c.recompute,
                                        .gpus = c.gpus}));
    const Execution run = checked_run(plan);
    check_equal(run, alone, 1e-10);
    check_memory(plan, run, false);
  }
}

TEST_CASE("LoRA of fc1 has an adapter at each of its two products") {
  const Plan plan = compile(tiny_job({.model = tiny_llama,
                                      .training = ", lora: {rank: 2, alpha: 4, targets: [fc1]}",
                                      .more = separate,
                                      .gpus = 2}));
  // Beside the frozen ones two matrices at each of two products of four layers.
  CHECK(checked_run(plan).gradients.tensors().size() == 4 * 7 + 3 + 4 * 2 * 2);
}

}  // namespace
}  // namespace simrun
