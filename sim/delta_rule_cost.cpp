#include "sim/delta_rule_cost.h"

#include <algorithm>

#include "configs/delta_net_config.h"
#include "schedules/instruction_flops.h"

namespace simrun {
namespace {

constexpr double bytes_of_fp32 = 4;
// Of one number per token and value head: exp, negation, cast, sum, softplus and product for the decay,
// sigmoid for beta; backward those of softplus and sigmoid, three products and sums for the two parameters.
constexpr int gate_kernels = 7, gate_gradient_kernels = 8;

// Extents of the layer on this rank, and bytes of what lies in memory for all its tokens.
struct DeltaExtents {
  std::int64_t sequences, chunks, tokens, heads, key, value;  // chunks of a sequence; tokens of one
  Dtype dtype;
  // Of all tokens: the convolution's channels; q or k of key heads and of value heads, v, A, one number in
  // fp32; and states of all chunks.
  double convolved, keys_once, keys, values, inverse, numbers, states;

  DeltaExtents(const Plan& plan, const Instruction& instruction) {
    const ScanOperands of = scan_operands(instruction);
    const Buffer &out = plan.buffers[of.channels], &weight = plan.buffers[of.weight];
    const auto extent = [&](std::size_t d) { return out.dims.at(d).extent; };
    const std::int64_t key_heads = extent(2), group = extent(3), width = weight.dims.at(1).extent;
    sequences = extent(0);
    tokens = std::min(DeltaNetConfig::chunk, extent(1));
    chunks = (extent(1) + tokens - 1) / tokens;
    heads = key_heads * group;
    value = extent(4);
    key = (width - group * value) / 2;
    dtype = out.dtype;
    const auto rows = static_cast<double>(sequences * extent(1)),
               element = static_cast<double>(bytes_of(dtype));
    const auto of_rows = [&](std::int64_t elements) {
      return rows * static_cast<double>(elements) * element;
    };
    convolved = of_rows(key_heads * width);
    keys_once = of_rows(key_heads * key);
    keys = of_rows(heads * key);
    values = of_rows(heads * value);
    inverse = of_rows(heads * tokens);
    numbers = rows * static_cast<double>(heads) * bytes_of_fp32;
    states = static_cast<double>(sequences * chunks * heads * key * value) * element;
  }

  // Of every chunk and value head.
  GemmShape product(std::int64_t m, std::int64_t n, std::int64_t k) const {
    return {.batch = sequences * chunks * heads, .m = m, .n = n, .k = k, .input = dtype, .output = dtype};
  }
  GemmShape of_scores() const { return product(tokens, tokens, key); }
  GemmShape from_scores(std::int64_t width) const { return product(tokens, width, tokens); }
  GemmShape with_state() const { return product(tokens, value, key); }
  // Of one chunk: [key, value], over tokens or, which is as much work, rows times a state.
  GemmShape step() const {
    return {.batch = sequences * heads, .m = key, .n = value, .k = tokens, .input = dtype, .output = dtype};
  }
};

using ScanKernels = std::vector<ScanKernel>;

void add_numbers(ScanKernels& kernels, int count, const DeltaExtents& s) {
  kernels.insert(kernels.end(), static_cast<std::size_t>(count), {{}, 2 * s.numbers});
}

// W and U, then states and what is written to them: of both passes.
void add_states(ScanKernels& kernels, const DeltaExtents& s, double step_s) {
  kernels.push_back({{s.from_scores(s.key), s.from_scores(s.value)},
                     s.inverse + 2 * s.keys + 2 * s.values + 2 * s.numbers});
  kernels.push_back(
      {{s.step(), s.step()}, 2 * s.keys + 2 * s.values + s.states + s.numbers, s.chunks, step_s});
}

ScanKernels forward_kernels(const DeltaExtents& s, const FrameworkKernels& framework) {
  ScanKernels kernels{{{}, 2 * s.convolved}, {{}, s.keys_once + s.keys}, {{}, s.keys_once + s.keys},
                      {{}, 2 * s.keys},      {{}, 2 * s.keys},           {{}, 2 * s.values}};
  add_numbers(kernels, gate_kernels + 1, s);  // and sums of the decay
  const double in_fp32 = bytes_of_fp32 / static_cast<double>(bytes_of(s.dtype));
  kernels.push_back({{s.of_scores()}, s.keys + in_fp32 * s.inverse + 2 * s.numbers});
  kernels.push_back({{}, (in_fp32 + 1) * s.inverse});
  add_states(kernels, s, framework.chunk_step_s);
  kernels.push_back({{s.with_state(), s.of_scores(), s.from_scores(s.value)},
                     2 * s.keys + 2 * s.values + s.states + s.numbers});
  return kernels;
}

ScanKernels backward_kernels(const DeltaExtents& s, const FrameworkKernels& framework) {
  ScanKernels kernels;
  add_states(kernels, s, framework.chunk_step_s);
  // What the outputs say of the updates, then states backwards.
  kernels.push_back({{s.of_scores(), s.from_scores(s.value)}, 2 * s.keys + 2 * s.values + s.numbers});
  kernels.push_back({{s.step(), s.step(), s.step()},
                     3 * s.keys + 3 * s.values + s.states + s.numbers,
                     s.chunks,
                     framework.chunk_backward_step_s});
  // q, k, W and the decay.
  kernels.push_back({{s.with_state(), s.with_state(), s.with_state(), s.of_scores(),
                      s.product(s.tokens, s.tokens, s.value), s.from_scores(s.key), s.from_scores(s.key)},
                     5 * s.keys + 3 * s.values + 2 * s.states + 2 * s.numbers});
  // Through W, U and A: k, v, betas and the decay.
  kernels.push_back({{s.of_scores(), s.product(s.tokens, s.tokens, s.value), s.from_scores(s.key),
                      s.from_scores(s.value), s.of_scores(), s.from_scores(s.tokens), s.from_scores(s.tokens),
                      s.from_scores(s.key), s.from_scores(s.key)},
                     3 * s.keys + 3 * s.values + s.inverse + 4 * s.numbers});
  kernels.push_back({{}, 3 * s.keys});                 // both gradients of k
  add_numbers(kernels, gate_gradient_kernels + 2, s);  // and of the decay, and their sums
  for (int of = 0; of < 2; ++of) {                     // q, k
    kernels.push_back({{}, 3 * s.keys});               // norm
    kernels.push_back({{}, s.keys + s.keys_once});     // sums over the value heads
  }
  kernels.push_back({{}, 2 * s.convolved});  // q, k and v side by side
  kernels.push_back({{}, 3 * s.convolved});  // convolution
  return kernels;
}

}  // namespace

std::vector<ScanKernel> delta_rule_kernels(const Plan& plan, const Instruction& instruction) {
  const DeltaExtents s(plan, instruction);
  const FrameworkKernels& framework = plan.framework.kernels;
  return instruction.opcode == Opcode::scan ? forward_kernels(s, framework) : backward_kernels(s, framework);
}

}  // namespace simrun
