// What attention without a fused kernel costs by its products and by how its softmax runs.
#include <catch2/catch.hpp>

#include "sim/attention_cost.h"
#include "sim/kernel_cost.h"
#include "tests/sim/shapes.h"

namespace simrun {
namespace {

// Unfused attention over `heads` heads of `head_dim` and 64 tokens.
struct Unfused {
  Unfused(std::int64_t heads, std::int64_t head_dim) : shapes(plain_gpu()) {
    const Index qkv = shapes.buffer(
        Dtype::bf16,
        {{"batch", 1}, {"sequence", 64}, {"kv_heads", heads}, {"qkv", 3}, {"head_dim", head_dim}});
    const Index context = shapes.buffer(
        Dtype::bf16,
        {{"batch", 1}, {"sequence", 64}, {"kv_heads", heads}, {"group", 1}, {"head_dim", head_dim}});
    forward = Shapes::does(Opcode::attention, Function::unfused, {qkv}, {context});
    forward.causal.on = true;
  }
  double bytes() const { return kernel_work(shapes.plan, forward).bytes; }

  Shapes shapes;
  Instruction forward;
};

}  // namespace

TEST_CASE("heads of no multiple of 8 elements leave the tensor cores") {
  // BLOOM's tables: heads of 108 are slow, of 104 and 112 not.
  const auto seconds = [](std::int64_t head_dim) {
    Unfused attention(4, head_dim);
    return attention_seconds(attention.shapes.plan, attention.forward);
  };
  CHECK(seconds(108) > 5 * seconds(104));
  CHECK(seconds(112) < 1.2 * seconds(104));
}

TEST_CASE("Megatron's softmax kernel takes rows by fours; what it refuses goes through fp32") {
  // 4 matrices of 64 x 64: fused 2 B read and written; separate 2 + 4, 4 + 4, 4 + 4, 4 + 2.
  Unfused eight(8, 64), three(3, 64);
  const double fused_eight = eight.bytes(), fused_three = three.bytes();
  for (Unfused* attention : {&eight, &three})
    attention->shapes.plan.framework.kernels.softmax = SoftmaxKernel::megatron;
  CHECK(eight.bytes() == fused_eight);
  CHECK(three.bytes() - fused_three == (28.0 - 4.0) * 3 * 64 * 64);
  eight.shapes.plan.framework.kernels.fused_softmax_limit = 32;  // of 64 keys
  CHECK(eight.bytes() - fused_eight == (28.0 - 4.0) * 8 * 64 * 64);
}

TEST_CASE("under autocast softmax writes fp32: 16 bytes per score forward and 16 backward") {
  // Forward add 2 + 2, softmax 2 + 4, cast 4 + 2; backward cast 2 + 4, softmax 4 + 4 + 2. Fused 4 and 6.
  Unfused forward(8, 64), backward(8, 64);
  backward.forward.opcode = Opcode::attention_backward;
  const double fused_forward = forward.bytes(), fused_backward = backward.bytes();
  for (Unfused* attention : {&forward, &backward})
    attention->shapes.plan.framework.kernels.softmax = SoftmaxKernel::autocast;
  CHECK(forward.bytes() - fused_forward == (16.0 - 4.0) * 8 * 64 * 64);
  CHECK(backward.bytes() - fused_backward == (16.0 - 6.0) * 8 * 64 * 64);
}

TEST_CASE("softmax in half precision takes 8 bytes per score forward and 10 backward") {
  // Forward fill 2 + 2, softmax 2 + 2; backward softmax 2 + 2 + 2, fill 2 + 2. Fused 4 and 6.
  Unfused forward(8, 64), backward(8, 64);
  backward.forward.opcode = Opcode::attention_backward;
  const double fused_forward = forward.bytes(), fused_backward = backward.bytes();
  for (Unfused* attention : {&forward, &backward})
    attention->shapes.plan.framework.kernels.softmax = SoftmaxKernel::separate_half;
  CHECK(forward.bytes() - fused_forward == (8.0 - 4.0) * 8 * 64 * 64);
  CHECK(backward.bytes() - fused_backward == (10.0 - 6.0) * 8 * 64 * 64);
}

TEST_CASE("a mask that all heads share is filled in by the integer operations of its indices") {
  Gpu gpu = plain_gpu();
  gpu.special_functions = 0.25e12;
  Unfused attention(8, 64);
  attention.shapes.plan.cluster.gpu = gpu;
  FrameworkKernels& framework = attention.shapes.plan.framework.kernels;
  framework.softmax = SoftmaxKernel::separate_half;
  const double streaming = attention_seconds(attention.shapes.plan, attention.forward);
  framework.broadcast_operations = 20;
  // 20 ps instead of the 4 of reading and writing 2 B at 1 TB/s, for each of 8 x 64 x 64 scores.
  CHECK(attention_seconds(attention.shapes.plan, attention.forward) - streaming ==
        Approx(16e-12 * 8 * 64 * 64));
}

}  // namespace simrun
