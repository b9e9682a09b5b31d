#include <catch2/catch.hpp>
#include <functional>

#include "tests/backend/cuda/cuda_host_device.h"
#include "tests/backend/kernel_bench.h"

// Every kernel of the CUDA device against the CPU's, operand by operand, by one lane and by three.
namespace simrun {
namespace {

using Build = std::function<Instruction(KernelBench&)>;

void check_alike(const Build& build) {
  KernelBench reference;
  const Instruction what = build(reference);
  reference.run(what);
  for (const int lanes : {1, 3}) {
    KernelBench bench(make_cuda_host_device(HostNumbers::f64, lanes));
    const Instruction same = build(bench);
    REQUIRE(make_cuda_host_device(HostNumbers::f64)->refusal(bench.plan(), same) == "");
    bench.run(same);
    for (const Index output : what.outputs) {
      CAPTURE(to_string(what.opcode), to_string(what.function), lanes, output);
      const std::vector<double>&ours = bench.values(output), &theirs = reference.values(output);
      for (std::size_t i = 0; i < theirs.size(); ++i)
        if (std::abs(ours[i] - theirs[i]) > 1e-11 * (1 + std::abs(theirs[i]))) {
          CAPTURE(i, ours[i], theirs[i]);
          FAIL("differs");
        }
      CHECK(bench.mask(output) == reference.mask(output));
    }
  }
}

Instruction with(Instruction what, std::vector<double> constants) {
  what.constants = std::move(constants);
  return what;
}

void add_into(KernelBench& bench, Instruction& what) {
  what.accumulate = true;
  for (const Index output : what.outputs) bench.plan().buffers[output].category = Category::gradients;
}

}  // namespace

TEST_CASE("CUDA kernels: products in whatever order dimensions lie, with a bias, and added up") {
  struct Case {
    const char *a, *b, *d, *bias;
  };
  for (const Case& c :
       {Case{"batch:2 sequence:3 hidden:4", "hidden:4 ffn:5", "batch:2 sequence:3 ffn:5", "ffn:5"},
        Case{"batch:2 sequence:3 hidden:4", "vocab:6 hidden:4", "batch:2 sequence:3 vocab:6", ""},
        Case{"batch:2 sequence:3 hidden:4", "batch:2 sequence:3 ffn:5", "hidden:4 ffn:5", ""},
        Case{"batch:2 sequence:3 hidden:4", "batch:2 sequence:3 ffn:5", "ffn:5 hidden:4", ""},
        Case{"experts:2 rows:3 hidden:4", "experts:2 hidden:4 ffn:5", "experts:2 rows:3 ffn:5",
             "experts:2 ffn:5"},
        Case{"rows:3 experts:2 hidden:4", "hidden:4 experts:2 ffn:5", "ffn:5 rows:3 experts:2", ""}})
    for (const bool adds : {false, true})
      check_alike([&](KernelBench& bench) {
        std::vector<Index> inputs{bench.tensor(c.a), bench.tensor(c.b)};
        if (*c.bias != '\0') inputs.push_back(bench.tensor(c.bias));
        Instruction what = bench.instruction(Opcode::gemm, Function::none, inputs, {bench.tensor(c.d)});
        if (adds) add_into(bench, what);
        return what;
      });
}

TEST_CASE("CUDA kernels: norms and their gradients") {
  for (const Function function : {Function::layer_norm, Function::rms_norm, Function::qk_norm})
    for (const bool adds : {false, true}) {
      const bool centred = function == Function::layer_norm, heads = function == Function::qk_norm;
      // 150 rows are three chunks of gradients.
      const char* rows =
          heads ? "batch:5 sequence:15 kv_heads:2 qkv:4 head_dim:4" : "batch:5 sequence:30 hidden:7";
      const char* weights = heads ? "qk:2 head_dim:4" : "hidden:7";
      const char* kept = heads     ? "batch:5 sequence:15 kv_heads:2 qkv:4 one:1"
                         : centred ? "batch:5 sequence:30 pair:2"
                                   : "batch:5 sequence:30 one:1";
      check_alike([&](KernelBench& bench) {
        std::vector<Index> inputs{bench.tensor(rows), bench.tensor(weights)};
        if (centred) inputs.push_back(bench.tensor(weights));
        return with(
            bench.instruction(Opcode::norm, function, inputs, {bench.tensor(rows), bench.tensor(kept)}),
            {1e-5});
      });
      check_alike([&](KernelBench& bench) {
        const std::vector<Index> inputs{bench.tensor(rows), bench.tensor(rows), bench.tensor(weights),
                                        bench.tensor(kept)};
        std::vector<Index> outputs{bench.tensor(rows), bench.tensor(weights)};
        if (centred) outputs.push_back(bench.tensor(weights));
        Instruction what = bench.instruction(Opcode::norm_backward, function, inputs, outputs);
        if (adds) {
          what.accumulate = true;
          for (std::size_t o = 1; o < outputs.size(); ++o)
            bench.plan().buffers[outputs[o]].category = Category::gradients;
        }
        return what;
      });
    }
}

TEST_CASE("CUDA kernels: activations and their gradients, plain and gated, with and without a bias") {
  struct Case {
    Function forward, backward;
    bool gated, biased;
  };
  for (const Case& c : {Case{Function::gelu, Function::gelu_backward, false, true},
                        Case{Function::squared_relu, Function::squared_relu_backward, false, false},
                        Case{Function::swiglu, Function::swiglu_backward, true, true},
                        Case{Function::geglu, Function::geglu_backward, true, false}}) {
    const char* in = c.gated ? "batch:2 sequence:3 gate:2 ffn:4" : "batch:2 sequence:3 ffn:4";
    const char* out = "batch:2 sequence:3 ffn:4";
    const char* bias = c.gated ? "gate:2 ffn:4" : "ffn:4";
    check_alike([&](KernelBench& bench) {
      std::vector<Index> inputs{bench.tensor(in)};
      if (c.biased) inputs.push_back(bench.tensor(bias));
      return bench.instruction(Opcode::map, c.forward, inputs, {bench.tensor(out)});
    });
    check_alike([&](KernelBench& bench) {
      std::vector<Index> inputs{bench.tensor(out), bench.tensor(in)};
      if (c.biased) inputs.push_back(bench.tensor(bias));
      return bench.instruction(Opcode::map, c.backward, inputs, {bench.tensor(in)});
    });
  }
  for (const auto& [forward, backward] : {std::pair{Function::gated_silu, Function::gated_silu_backward},
                                          std::pair{Function::gated_gelu, Function::gated_gelu_backward}}) {
    const char* rows = "batch:2 sequence:3 ffn:4";
    check_alike([&, forward = forward](KernelBench& bench) {
      const std::vector<Index> inputs{bench.tensor(rows), bench.tensor(rows)};
      return bench.instruction(Opcode::map, forward, inputs, {bench.tensor(rows)});
    });
    check_alike([&, backward = backward](KernelBench& bench) {
      const std::vector<Index> inputs{bench.tensor(rows), bench.tensor(rows), bench.tensor(rows)};
      return bench.instruction(Opcode::map, backward, inputs, {bench.tensor(rows), bench.tensor(rows)});
    });
  }
  for (const Function function : {Function::relu, Function::soft_cap, Function::scale, Function::cast})
    check_alike([&](KernelBench& bench) {
      const bool has_number = function != Function::cast;
      return with(bench.instruction(Opcode::map, function, {bench.tensor("sequence:9 ffn:4")},
                                    {bench.tensor("sequence:9 ffn:4")}),
                  has_number ? std::vector<double>{2.5} : std::vector<double>{});
    });
  for (const Function function : {Function::relu_backward, Function::soft_cap_backward})
    check_alike([&](KernelBench& bench) {
      const Index gradient = bench.tensor("sequence:9 ffn:4"), y = bench.tensor("sequence:9 ffn:4");
      return with(bench.instruction(Opcode::map, function, {gradient, y}, {bench.tensor("sequence:9 ffn:4")}),
                  {2.5});
    });
}

TEST_CASE("CUDA kernels: sums of biases, residuals and gradients; dropout; rope") {
  const char* rows = "batch:2 sequence:5 hidden:7";
  for (const float dropout : {0.0f, 0.25f})
    check_alike([&](KernelBench& bench) {
      const std::vector<Index> inputs{bench.tensor(rows), bench.tensor("hidden:7"), bench.tensor(rows),
                                      bench.tensor("batch:2 sequence:5"), bench.tensor(rows)};
      std::vector<Index> outputs{bench.tensor(rows)};
      if (dropout > 0) outputs.push_back(bench.tensor(rows, Dtype::uint8));
      Instruction what = bench.instruction(Opcode::map, Function::add, inputs, outputs);
      what.dropout = dropout;
      return what;
    });
  check_alike([&](KernelBench& bench) {
    Instruction what =
        bench.instruction(Opcode::map, Function::add_backward,
                          {bench.tensor(rows), bench.tensor(rows, Dtype::uint8)}, {bench.tensor(rows)});
    what.dropout = 0.25f;
    return what;
  });
  for (const bool adds : {false, true})
    check_alike([&](KernelBench& bench) {
      std::vector<Index> inputs;  // more than one kernel takes
      for (int i = 0; i < 8; ++i) inputs.push_back(bench.tensor(rows));
      Instruction what =
          bench.instruction(Opcode::map, Function::sum_gradients, inputs, {bench.tensor(rows)});
      if (adds) add_into(bench, what);
      return what;
    });
  for (const Function function : {Function::rope, Function::rope_backward})
    check_alike([&](KernelBench& bench) {
      const char* packed = "batch:2 sequence:5 kv_heads:2 qkv:4 head_dim:6";
      return with(bench.instruction(Opcode::map, function, {bench.tensor(packed)}, {bench.tensor(packed)}),
                  {10000, 0.67});
    });
}

TEST_CASE("CUDA kernels: sums and maxima over any dimensions, padding left out of maxima") {
  struct Case {
    Function function;
    const char *in, *out;
  };
  for (const Case& c : {Case{Function::sum, "batch:3 sequence:50 hidden:7", "hidden:7"},
                        Case{Function::sum, "batch:3 sequence:5 hidden:7", "batch:3 sequence:5"},
                        Case{Function::sum, "batch:3 sequence:5 hidden:7", "sequence:5"},
                        Case{Function::sum, "batch:3 sequence:5 gate:2 ffn:7", "gate:2 ffn:7"},
                        Case{Function::max, "batch:3 sequence:5 vocab:9", "batch:3 sequence:5"}})
    for (const bool adds : {false, true})
      check_alike([&](KernelBench& bench) {
        Instruction what =
            bench.instruction(Opcode::reduce, c.function, {bench.tensor(c.in)}, {bench.tensor(c.out)});
        if (adds) add_into(bench, what);
        return what;
      });
}

TEST_CASE("CUDA kernels: look-ups, their gradients in order, and the cross entropy") {
  const char* rows = "batch:2 sequence:9 hidden:4";  // 18 tokens of 5 kinds: lists of several
  for (const bool adds : {false, true})
    check_alike([&](KernelBench& bench) {
      const Index gradient = bench.tensor(rows), tokens = bench.tensor("batch:2 sequence:9", Dtype::int64);
      Instruction what = bench.instruction(Opcode::scatter, Function::none, {gradient, tokens},
                                           {bench.tensor("vocab:4 hidden:4")});
      if (adds) add_into(bench, what);
      return what;
    });
  check_alike([&](KernelBench& bench) {
    return with(bench.instruction(Opcode::scatter, Function::none, {bench.tensor(rows)},
                                  {bench.tensor("positions:11 hidden:4")}),
                {2});
  });
  check_alike([&](KernelBench& bench) {
    const Index table = bench.tensor("vocab:4 hidden:4"),
                tokens = bench.tensor("batch:2 sequence:9", Dtype::int64);
    return bench.instruction(Opcode::gather, Function::none, {table, tokens}, {bench.tensor(rows)});
  });
  check_alike([&](KernelBench& bench) {
    const Index table = bench.tensor("positions:11 hidden:4"), x = bench.tensor(rows);
    return with(bench.instruction(Opcode::gather, Function::none, {table, x}, {bench.tensor(rows)}), {2});
  });
  const char* logits = "batch:2 sequence:9 vocab:6";
  check_alike([&](KernelBench& bench) {
    const Index x = bench.tensor(logits), maximum = bench.tensor("batch:2 sequence:9");
    const Index labels = bench.tensor("batch:2 sequence:9", Dtype::int64);
    return bench.instruction(Opcode::cross_entropy, Function::none, {x, maximum, labels},
                             {bench.tensor("batch:2 sequence:9 sums:2")});
  });
  check_alike([&](KernelBench& bench) {
    const Index sums = bench.tensor("batch:2 sequence:9 sums:2"),
                maximum = bench.tensor("batch:2 sequence:9");
    const Index x = bench.tensor(logits), labels = bench.tensor("batch:2 sequence:9", Dtype::int64);
    return bench.instruction(Opcode::cross_entropy_backward, Function::none, {sums, maximum, x, labels},
                             {bench.tensor(logits)});
  });
}

TEST_CASE("CUDA kernels: attention with masks, caps, windows and dropout, over several tiles") {
  struct Case {
    Function function;
    CausalMask causal;
    bool capped;
    float dropout;
  };
  for (const Case& c :
       {Case{Function::flash, {true, 0}, false, 0}, Case{Function::flash, {false, 0}, false, 0.2f},
        Case{Function::flash, {true, 20}, true, 0}, Case{Function::unfused, {true, 0}, false, 0},
        Case{Function::unfused, {false, 0}, false, 0.3f}}) {
    const char* packed = "batch:1 sequence:70 kv_heads:2 qkv:4 head_dim:3";
    const char* context = "batch:1 sequence:70 kv_heads:2 group:2 head_dim:3";
    const char* square = "batch:1 kv_heads:2 group:2 sequence:70 key_sequence:70";
    const auto describe = [&](Instruction what) {
      what.causal = c.causal;
      what.soft_cap = c.capped;
      what.dropout = c.dropout;
      return with(what, {0.6, 1.5});
    };
    check_alike([&](KernelBench& bench) {
      const Index x = bench.tensor(packed), y = bench.tensor(context);
      std::vector<Index> outputs{y};
      if (c.function == Function::flash)
        outputs.push_back(bench.tensor("batch:1 kv_heads:2 group:2 sequence:70"));
      else if (c.dropout == 0)
        outputs = {y, bench.tensor(square)};
      else
        outputs = {y, bench.tensor(square), bench.tensor(square, Dtype::uint8), bench.tensor(square)};
      return describe(bench.instruction(Opcode::attention, c.function, {x}, outputs));
    });
    if (c.function == Function::flash)
      check_alike([&](KernelBench& bench) {
        const Index r = bench.tensor(context), x = bench.tensor(packed), y = bench.tensor(context);
        const Index sums = bench.tensor("batch:1 kv_heads:2 group:2 sequence:70"), dx = bench.tensor(packed);
        Instruction forward = describe(bench.instruction(Opcode::attention, c.function, {x}, {y, sums}));
        bench.run(forward);  // output and log-sums that are those of x
        return describe(bench.instruction(Opcode::attention_backward, c.function, {r, x, y, sums}, {dx}));
      });
  }
}

TEST_CASE("CUDA kernels: optimizer updates, with clipping, main weights and momentum") {
  for (const bool clips : {false, true})
    for (const bool has_main : {false, true})
      check_alike([&](KernelBench& bench) {
        const Index gradient = bench.tensor("elements:40"), weights = bench.tensor("elements:40");
        const Index m = bench.tensor("elements:40"), v = bench.tensor("elements:40");
        bench.plan().buffers[weights].category = Category::weights;
        for (double& x : bench.values(v)) x = x * x;
        std::vector<Index> inputs{gradient}, outputs{weights, m, v};
        if (!has_main) inputs.push_back(weights);
        inputs.insert(inputs.end(), {m, v});
        if (has_main) {
          outputs.push_back(bench.tensor("elements:40"));
          inputs.push_back(outputs.back());
        }
        if (clips) {
          inputs.push_back(bench.tensor("one:1"));
          bench.values(inputs.back()) = {40.0};
        }
        return with(bench.instruction(Opcode::optimizer, Function::adam, inputs, outputs),
                    clips ? std::vector<double>{1.0} : std::vector<double>{});
      });
  check_alike([&](KernelBench& bench) {
    const Index gradient = bench.tensor("elements:40"), weights = bench.tensor("elements:40");
    const Index m = bench.tensor("elements:40");
    return bench.instruction(Opcode::optimizer, Function::sgd, {gradient, weights, m}, {weights, m});
  });
}

}  // namespace simrun
