#include <catch2/catch.hpp>
#include <cmath>

#include "backend/cpu/mask.h"
#include "tests/backend/kernel_bench.h"

// What attentions of other families than GPT's and Llama's are made of, against finite differences and
// against numbers that a reader can work out.
namespace simrun {
namespace {

// An attention and its backward instruction over operands of these shapes; the gradients have the same.
struct BenchAttention {
  KernelBench bench;
  std::vector<Index> operands, gradients;
  Index context = 0, direction = 0;
  Instruction forward, backward;

  BenchAttention(const std::vector<const char*>& shapes, const char* context_shape,
                 const char* log_sums_shape) {
    for (const char* shape : shapes) {
      operands.push_back(bench.tensor(shape));
      gradients.push_back(bench.tensor(shape));
    }
    context = bench.tensor(context_shape);
    direction = bench.tensor(context_shape);
    const Index log_sums = bench.tensor(log_sums_shape);
    forward = bench.instruction(Opcode::attention, Function::flash, operands, {context, log_sums});
    std::vector<Index> read{direction};
    read.insert(read.end(), operands.begin(), operands.end());
    read.insert(read.end(), {context, log_sums});
    backward = bench.instruction(Opcode::attention_backward, Function::flash, read, gradients);
    forward.constants = backward.constants = {0.6, 0};
  }

  double loss() {
    bench.run(forward);
    return bench.dot(context, direction);
  }
  void check_gradients() {
    loss();
    bench.run(backward);
    for (std::size_t i = 0; i < operands.size(); ++i)
      CHECK(bench.error(operands[i], gradients[i], [&] { return loss(); }) < gradient_tolerance);
  }
};

BenchAttention packed_attention(std::vector<const char*> more) {
  std::vector<const char*> shapes{"batch:2 sequence:5 kv_heads:2 qkv:4 head_dim:3"};
  shapes.insert(shapes.end(), more.begin(), more.end());
  return {shapes, "batch:2 sequence:5 kv_heads:2 group:2 head_dim:3",
          "batch:2 kv_heads:2 group:2 sequence:5"};
}

}  // namespace

TEST_CASE("the gradients of attention over operands apart are those of finite differences") {
  // Latent attention: keys wider than values.
  BenchAttention latent({"batch:2 sequence:5 kv_heads:2 qk_dim:4", "batch:2 sequence:5 kv_heads:2 qk_dim:4",
                         "batch:2 sequence:5 kv_heads:2 v_dim:3"},
                        "batch:2 sequence:5 kv_heads:2 v_dim:3", "batch:2 kv_heads:2 one:1 sequence:5");
  latent.forward.causal = latent.backward.causal = {true, 0};
  latent.check_gradients();
  // Cross attention: 5 queries of two per kv head, 7 keys.
  BenchAttention cross(
      {"batch:2 sequence:5 kv_heads:2 group:2 head_dim:3", "batch:2 key_sequence:7 kv_heads:2 head_dim:3",
       "batch:2 key_sequence:7 kv_heads:2 head_dim:3"},
      "batch:2 sequence:5 kv_heads:2 group:2 head_dim:3", "batch:2 kv_heads:2 group:2 sequence:5");
  cross.check_gradients();
  cross.forward.dropout = cross.backward.dropout = 0.3f;
  cross.check_gradients();
}

TEST_CASE("the gradients of attention with sinks and biases are those of finite differences") {
  BenchAttention sinks = packed_attention({"kv_heads:2 group:2"});
  sinks.forward.causal = sinks.backward.causal = {true, 3};
  sinks.check_gradients();
  sinks.forward.dropout = sinks.backward.dropout = 0.3f;
  sinks.check_gradients();
  for (const bool causal : {false, true}) {
    BenchAttention relative = packed_attention({"buckets:6 kv_heads:2"});
    relative.forward.causal = relative.backward.causal = {causal, 0};
    relative.forward.constants = relative.backward.constants = {0.6, 0, 4};
    relative.check_gradients();
  }
  BenchAttention alibi = packed_attention({});
  alibi.forward.alibi = alibi.backward.alibi = true;
  alibi.forward.causal = alibi.backward.causal = {true, 0};
  alibi.forward.constants = alibi.backward.constants = {0.6, 0, 8};
  alibi.check_gradients();
}

TEST_CASE("a sink as large as the only score that is seen takes half of the probability") {
  BenchAttention one({"batch:1 sequence:1 kv_heads:1 qkv:3 head_dim:2", "kv_heads:1 group:1"},
                     "batch:1 sequence:1 kv_heads:1 group:1 head_dim:2",
                     "batch:1 kv_heads:1 group:1 sequence:1");
  one.forward.constants = {1, 0};
  one.bench.values(one.operands[0]) = {1, 2, 3, 4, 10, 20};  // q k = 11
  one.bench.values(one.operands[1]) = {11};
  one.loss();
  CHECK(one.bench.values(one.context) == std::vector<double>{5, 10});
}

TEST_CASE("tokens of two documents do not see each other, and the first of each sees itself alone") {
  BenchAttention of = packed_attention({});
  of.forward.causal = of.backward.causal = {true, 0};
  DocumentMask documents;
  documents.config.lengths = DocumentLengths::recorded;
  documents.config.recorded = {3, 4, 5};  // of 5 tokens each: 3 + 2, 2 + 3
  of.bench.plan().job.documents = documents;
  of.check_gradients();
  const auto value = [&](int sample, int token) {  // of the first kv head, element 0
    return of.bench.values(
        of.operands[0])[static_cast<std::size_t>((((sample * 5 + token) * 2) * 4 + 3) * 3)];
  };
  const auto context = [&](int sample, int token) {
    return of.bench.values(of.context)[static_cast<std::size_t>((((sample * 5 + token) * 2) * 2) * 3)];
  };
  for (const auto& [sample, first] : {std::pair{0, 0}, {0, 3}, {1, 0}, {1, 2}})
    CHECK(context(sample, first) == Approx(value(sample, first)));
  CHECK(context(0, 2) != Approx(value(0, 2)));
}

TEST_CASE("ALiBi's slopes are the paper's") {
  // Section 3: 8 heads have 1/2 to 1/256, 16 heads 2^-0.5 to 2^-8.
  CHECK(cpu::alibi_slope(0, 8, 8) == 0.5);
  CHECK(cpu::alibi_slope(7, 8, 8) == 1.0 / 256);
  CHECK(cpu::alibi_slope(0, 16, 8) == Approx(std::sqrt(0.5)));
  // Its code for 6 heads: those of 4, then the first and third of 8.
  const double six[] = {0.25, 1.0 / 16, 1.0 / 64, 1.0 / 256, 0.5, 0.125};
  for (std::int64_t head = 0; head < 6; ++head) CHECK(cpu::alibi_slope(head, 6, 8) == six[head]);
}

TEST_CASE("T5's rows of distances: near ones by themselves, far ones by their logarithm") {
  const cpu::RelativeBuckets encoder{32, 128, true}, decoder{32, 128, false};
  // 32 rows to both sides: 8 near ones each, then 8 x log(d / 8) / log(16): 16 is 2 rows on, 32 is 4, 64
  // is 6.
  for (const auto& [distance, row] : {std::pair{0, 0},
                                      {-7, 7},
                                      {-8, 8},
                                      {-16, 10},
                                      {-32, 12},
                                      {-64, 14},
                                      {-128, 15},
                                      {-5000, 15},
                                      {1, 17},
                                      {7, 23},
                                      {64, 30},
                                      {500, 31}})
    CHECK(encoder.row(distance) == row);
  // Before only: 16 near ones, then 16 x log(d / 16) / log(8).
  for (const auto& [distance, row] :
       {std::pair{3, 0}, {0, 0}, {-15, 15}, {-16, 16}, {-32, 21}, {-64, 26}, {-127, 31}, {-128, 31}})
    CHECK(decoder.row(distance) == row);
  CHECK(cpu::RelativeBuckets{1, 128, false}.row(-9) == 0);
  CHECK(cpu::RelativeBuckets{8, 1, true}.row(-9) == 3);
}

TEST_CASE("rope of latent attention turns the last elements of queries and the part that heads share") {
  KernelBench bench;
  const Index q = bench.tensor("batch:2 sequence:3 kv_heads:2 qk_dim:5"),
              turned = bench.tensor("batch:2 sequence:3 kv_heads:2 qk_dim:5"),
              r = bench.tensor("batch:2 sequence:3 kv_heads:2 qk_dim:5"),
              dq = bench.tensor("batch:2 sequence:3 kv_heads:2 qk_dim:5");
  Instruction rope = bench.instruction(Opcode::map, Function::rope, {q}, {turned});
  Instruction back = bench.instruction(Opcode::map, Function::rope_backward, {r}, {dq});
  rope.constants = back.constants = {10000, 2.0 / 5};
  const auto loss = [&] {
    bench.run(rope);
    return bench.dot(turned, r);
  };
  loss();
  bench.run(back);
  CHECK(bench.error(q, dq, loss) < gradient_tolerance);
  // Head 0 of token 1, by one radian.
  const std::vector<double>&in = bench.values(q), &out = bench.values(turned);
  CHECK(out[10 + 2] == in[10 + 2]);
  CHECK(out[10 + 3] == Approx(in[10 + 3] * std::cos(1) - in[10 + 4] * std::sin(1)));
}

TEST_CASE("the gradients of latent attention's keys and values are those of finite differences") {
  KernelBench bench;
  const char *up_shape = "batch:2 sequence:3 kv_heads:2 kv_up:5",
             *shared_shape = "batch:2 sequence:3 qk_rope:4";
  const char *key_shape = "batch:2 sequence:3 kv_heads:2 qk_dim:6",
             *value_shape = "batch:2 sequence:3 kv_heads:2 v_dim:3";
  const Index up = bench.tensor(up_shape), shared = bench.tensor(shared_shape), key = bench.tensor(key_shape),
              value = bench.tensor(value_shape);
  const Index of_key = bench.tensor(key_shape), of_value = bench.tensor(value_shape);
  const Index dup = bench.tensor(up_shape), dshared = bench.tensor(shared_shape);
  Instruction forward = bench.instruction(Opcode::map, Function::mla_rope, {up, shared}, {key, value});
  Instruction backward =
      bench.instruction(Opcode::map, Function::mla_rope_backward, {of_key, of_value}, {dup, dshared});
  forward.constants = backward.constants = {100};
  const auto loss = [&] {
    bench.run(forward);
    return bench.dot(key, of_key) + bench.dot(value, of_value);
  };
  loss();
  bench.run(backward);
  CHECK(bench.error(up, dup, loss) < gradient_tolerance);
  CHECK(bench.error(shared, dshared, loss) < gradient_tolerance);
}

TEST_CASE("split and concat are each other's reverse") {
  KernelBench bench;
  const Index whole = bench.tensor("batch:2 sequence:3 kv_down:5"),
              a = bench.tensor("batch:2 sequence:3 kv_lora:3"),
              b = bench.tensor("batch:2 sequence:3 qk_rope:2"),
              again = bench.tensor("batch:2 sequence:3 kv_down:5");
  bench.run(bench.instruction(Opcode::map, Function::split, {whole}, {a, b}));
  CHECK(bench.values(a)[3] == bench.values(whole)[5]);
  CHECK(bench.values(b)[0] == bench.values(whole)[3]);
  bench.run(bench.instruction(Opcode::map, Function::concat, {a, b}, {again}));
  CHECK(bench.values(again) == bench.values(whole));
}

TEST_CASE("an adapter of keys alone is added to keys, and their gradient comes back to it") {
  KernelBench bench;
  const char *packed = "batch:1 sequence:2 kv_heads:2 qkv:4 head_dim:3",
             *one = "batch:1 sequence:2 kv_heads:2 one:1 head_dim:3",
             *group = "batch:1 sequence:2 kv_heads:2 group:2 head_dim:3";
  const Index x = bench.tensor(packed), y = bench.tensor(packed), r = bench.tensor(packed);
  const Index k = bench.tensor(one), dk = bench.tensor(one), q = bench.tensor(group),
              dq = bench.tensor(group);
  bench.plan().buffers[k].name = bench.plan().buffers[dk].name = "k_lora_scale";
  bench.plan().buffers[q].name = bench.plan().buffers[dq].name = "q_lora_scale";
  const auto loss = [&] {
    bench.run(bench.instruction(Opcode::map, Function::add, {x, k, q}, {y}));
    return bench.dot(y, r);
  };
  bench.run(bench.instruction(Opcode::copy, Function::none, {r}, {dk}));
  bench.run(bench.instruction(Opcode::copy, Function::none, {r}, {dq}));
  CHECK(bench.error(k, dk, loss) < gradient_tolerance);
  CHECK(bench.error(q, dq, loss) < gradient_tolerance);
  loss();
  CHECK(bench.values(y)[6] == bench.values(x)[6] + bench.values(k)[0]);  // slot 2 of the first kv head
  CHECK(bench.values(y)[9] == bench.values(x)[9]);                       // its value
}

TEST_CASE("the gradient of tanh is that of finite differences") {
  KernelBench bench;
  const Index x = bench.tensor("batch:3 pooled:4"), y = bench.tensor("batch:3 pooled:4"),
              r = bench.tensor("batch:3 pooled:4"), dx = bench.tensor("batch:3 pooled:4");
  const auto loss = [&] {
    bench.run(bench.instruction(Opcode::map, Function::tanh, {x}, {y}));
    return bench.dot(y, r);
  };
  loss();
  bench.run(bench.instruction(Opcode::map, Function::tanh_backward, {r, y}, {dx}));
  CHECK(bench.error(x, dx, loss) < gradient_tolerance);
}

}  // namespace simrun
