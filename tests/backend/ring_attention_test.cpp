#include <catch2/catch.hpp>
#include <cmath>

#include "tests/backend/kernel_bench.h"

// Kernels of context parallelism, and of more tensor-parallel ranks than key-value heads.
namespace simrun {
namespace {

// Rank 0 of two: queries of the first and the last quarter of 8 tokens, its own keys and the other rank's.
struct RingOfTwo {
  const char* const query = "batch:2 sequence:4 kv_heads:2 group:2 head_dim:3";
  const char* const pair = "batch:2 key_sequence:4 kv_heads:2 key_value:2 head_dim:3";
  const char* const sums = "batch:2 kv_heads:2 group:2 sequence:4";
  KernelBench bench;
  Index q = part(query), own = part(pair), other = part(pair);
  Index context[2] = {part(query), part(query)}, log_sums[2] = {bench.tensor(sums), bench.tensor(sums)};
  Index joined = part(query), joined_sums = bench.tensor(sums);

  Index part(const char* dims) {
    const Index tensor = bench.tensor(dims);
    bench.set_part(tensor, 1, zigzag_part(8, 0, 2));
    return tensor;
  }
  Index keys(std::int32_t step) const { return step == 0 ? own : other; }

  Instruction forward(std::int32_t step, const CausalMask& causal, float dropout) const {
    Instruction what = bench.instruction(Opcode::attention, Function::flash, {q, keys(step)},
                                         {context[step], log_sums[step]});
    what.part = {{0}, /*zigzag=*/true, /*whole_keys=*/false, step};
    what.causal = causal;
    what.dropout = dropout;
    what.constants = {0.6, 0};
    return what;
  }
};

}  // namespace

TEST_CASE("the gradients of blocks of attention, joined, are those of finite differences") {
  struct Case {
    CausalMask causal;
    float dropout;
  };
  for (const Case& c : {Case{{true, 0}, 0}, Case{{false, 0}, 0}, Case{{true, 3}, 0}, Case{{true, 3, true}, 0},
                        Case{{true, 0}, 0.3f}}) {
    CAPTURE(c.causal.on, c.causal.window, c.dropout);
    RingOfTwo ring;
    KernelBench& bench = ring.bench;
    const Index r = ring.part(ring.query);
    const auto loss = [&] {
      for (const int step : {0, 1}) bench.run(ring.forward(step, c.causal, c.dropout));
      bench.run(bench.instruction(Opcode::map, Function::flash,
                                  {ring.context[0], ring.log_sums[0], ring.context[1], ring.log_sums[1]},
                                  {ring.joined, ring.joined_sums}));
      return bench.dot(ring.joined, r);
    };
    loss();
    Index dq[2], dkeys[2];
    for (const int step : {0, 1}) {
      dq[step] = ring.part(ring.query);
      dkeys[step] = ring.part(ring.pair);
      Instruction backward = ring.forward(step, c.causal, c.dropout);
      backward.opcode = Opcode::attention_backward;
      backward.inputs = {r, ring.q, ring.keys(step), ring.joined, ring.joined_sums};
      backward.outputs = {dq[step], dkeys[step]};
      bench.run(backward);
    }
    const Index whole = ring.part(ring.query);
    bench.run(bench.instruction(Opcode::map, Function::sum_gradients, {dq[0], dq[1]}, {whole}));
    CHECK(bench.error(ring.q, whole, loss) < gradient_tolerance);
    CHECK(bench.error(ring.own, dkeys[0], loss) < gradient_tolerance);
    CHECK(bench.error(ring.other, dkeys[1], loss) < gradient_tolerance);
  }
}

TEST_CASE("queries that see none of a block's keys leave the join as it was") {
  RingOfTwo ring;
  // Tokens 0, 1, 6, 7 and a window of one: none of 2 to 5 is seen.
  for (const int step : {0, 1}) ring.bench.run(ring.forward(step, {true, 1}, 0));
  for (const double value : ring.bench.values(ring.context[1])) CHECK(value == 0);
  for (const double sum : ring.bench.values(ring.log_sums[1])) CHECK(sum == -HUGE_VAL);
  ring.bench.run(ring.bench.instruction(
      Opcode::map, Function::flash, {ring.context[0], ring.log_sums[0], ring.context[1], ring.log_sums[1]},
      {ring.joined, ring.joined_sums}));
  CHECK(ring.bench.values(ring.joined) == ring.bench.values(ring.context[0]));
}

TEST_CASE("packed q, k, v come apart into q and k, v, and together again") {
  KernelBench bench;
  const Index packed = bench.tensor("batch:1 sequence:2 kv_heads:2 qkv:4 head_dim:3");
  const Index again = bench.tensor("batch:1 sequence:2 kv_heads:2 qkv:4 head_dim:3");
  const Index q = bench.tensor("batch:1 sequence:2 kv_heads:2 group:2 head_dim:3");
  const Index pair = bench.tensor("batch:1 key_sequence:2 kv_heads:2 key_value:2 head_dim:3");
  bench.run(bench.instruction(Opcode::map, Function::split, {packed}, {q, pair}));
  bench.run(bench.instruction(Opcode::map, Function::concat, {q, pair}, {again}));
  CHECK(bench.values(again) == bench.values(packed));
  // The second head's key: behind its two queries.
  CHECK(bench.values(pair)[2 * 3] == bench.values(packed)[(4 + 2) * 3]);
}

TEST_CASE("of six ranks' heads each is a copy of one of two key-value heads; gradients of copies add up") {
  KernelBench bench;
  // Two groups of 3 queries, a key and a value, one element wide: rows 0..2 q, 3 k, 4 v; 5..7 q, 8 k, 9 v.
  const Index rows = bench.tensor("batch:1 sequence:1 qkv_rows:10");
  const char* heads = "batch:1 sequence:1 kv_heads:3 qkv:3 head_dim:1";
  const Index packed = bench.tensor(heads), r = bench.tensor(heads),
              drows = bench.tensor("batch:1 sequence:1 qkv_rows:10");
  for (std::size_t i = 0; i < 10; ++i) bench.values(rows)[i] = static_cast<double>(i);
  for (const Index tensor : {packed, r}) bench.set_part(tensor, 2, {1, 3, 6});
  const Instruction select = bench.instruction(Opcode::copy, Function::none, {rows}, {packed});
  bench.run(select);
  // Copies 1 and 2 of the first head, copy 0 of the second.
  CHECK(bench.values(packed) == std::vector<double>{1, 3, 4, 2, 3, 4, 5, 8, 9});
  bench.run(bench.instruction(Opcode::copy, Function::none, {r}, {drows}));
  const auto loss = [&] {
    bench.run(select);
    return bench.dot(packed, r);
  };
  CHECK(bench.error(rows, drows, loss) < gradient_tolerance);
}

}  // namespace simrun
