#include "sim/scan_cost.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "schedules/instruction_flops.h"
#include "sim/delta_rule_cost.h"
#include "sim/gemm_cost.h"
#include "sim/row_kernels.h"

namespace simrun {
namespace {

constexpr std::int64_t tokens_of_chunk = 128;
constexpr double fp32_bytes = 4;

// Extents of the layer on this rank, and bytes of what lies in memory for all its tokens.
struct ScanSizes {
  std::int64_t chunks, tokens, groups, heads, head_dim, state;  // tokens: of a chunk; heads: of a group
  Dtype dtype;
  double channels, shared, convolved, scores, chunk_states, steps;

  ScanSizes(const Plan& plan, const Instruction& instruction) {
    const ScanOperands of = scan_operands(instruction);
    const Buffer &out = plan.buffers[of.channels], &packed = plan.buffers[of.packed],
                 &weight = plan.buffers[of.weight];
    const std::int64_t sequence = out.dims.at(1).extent, inner = out.dims.back().extent;
    const std::int64_t width = weight.dims.at(1).extent;
    tokens = std::min(tokens_of_chunk, sequence);
    chunks = out.dims.at(0).extent * ((sequence + tokens - 1) / tokens);
    groups = out.dims.at(2).extent;
    state = (width - inner) / 2;
    heads = packed.dims.back().extent - inner - width;
    head_dim = inner / heads;
    dtype = out.dtype;
    const auto all = static_cast<double>(chunks * tokens * groups),
               element = static_cast<double>(bytes_of(dtype));
    channels = all * static_cast<double>(inner) * element;
    shared = all * static_cast<double>(state) * element;  // B, or C
    convolved = all * static_cast<double>(width) * element;
    scores = all * static_cast<double>(tokens) * fp32_bytes;
    steps = all * static_cast<double>(heads) * fp32_bytes;
    chunk_states = static_cast<double>(chunks * groups * inner) * static_cast<double>(state) * fp32_bytes;
  }

  GemmShape product(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k) const {
    return {.batch = batch, .m = m, .n = n, .k = k, .input = dtype, .output = dtype};
  }
  GemmShape of_heads(std::int64_t m, std::int64_t n, std::int64_t k) const {
    return product(chunks * groups * heads, m, n, k);
  }
  GemmShape of_states() const { return of_heads(head_dim, state, tokens); }
  GemmShape within_chunk() const { return of_heads(tokens, head_dim, (tokens + 1) / 2); }
  GemmShape from_states() const { return of_heads(tokens, head_dim, state); }
  GemmShape of_scores() const { return product(chunks * groups, tokens, tokens, state); }
  GemmShape from_scores() const { return product(chunks * groups, tokens, state, tokens); }
};

// Convolution, steps and their sums, states of chunks, states passed on, C B. `passed`: bytes of states
// as they are passed on, by those in fp32.
std::vector<ScanKernel> up_to_scores(const ScanSizes& s, double passed) {
  return {{{}, 2 * s.convolved},
          {{}, 3 * s.steps},
          {{s.of_states()}, s.channels + s.shared + 2 * s.steps + s.chunk_states},
          {{}, (1 + passed) * s.chunk_states},
          {{s.of_scores()}, 2 * s.shared + s.scores}};
}

std::vector<ScanKernel> kernels_of(const Plan& plan, const Instruction& instruction) {
  if (instruction.function == Function::gated_delta_rule) return delta_rule_kernels(plan, instruction);
  const ScanSizes s(plan, instruction);
  // Forward they are passed on in the type of C, backward in fp32.
  const bool is_forward = instruction.opcode == Opcode::scan;
  const double passed = is_forward ? static_cast<double>(bytes_of(s.dtype)) / fp32_bytes : 1;
  std::vector<ScanKernel> kernels = up_to_scores(s, passed);
  if (is_forward) {
    // Reads x and z, writes the channels before and behind the gate.
    kernels.push_back({{s.within_chunk(), s.from_states()},
                       4 * s.channels + s.shared + s.scores + passed * s.chunk_states + 2 * s.steps});
    return kernels;
  }
  const std::vector<ScanKernel> gradients{
      {{}, 5 * s.channels},                                       // gate
      {{s.of_states()}, s.channels + s.shared + s.chunk_states},  // states that are read
      {{}, 3 * s.chunk_states},                                   // passed back
      {{s.within_chunk(), s.from_states()},                       // x
       3 * s.channels + s.shared + s.scores + s.chunk_states + 2 * s.steps},
      {{s.from_states()}, s.channels + 3 * s.shared + s.chunk_states},  // B, from states
      {{s.from_states()}, s.channels + 3 * s.shared + s.chunk_states},  // C, from states
      {{s.within_chunk()}, 2 * s.channels + s.scores},                  // C B
      {{s.from_scores()}, s.scores + 4 * s.shared},                     // B
      {{s.from_scores()}, s.scores + 4 * s.shared},                     // C
      {{s.within_chunk()}, 2 * s.channels + s.scores + 2 * s.steps},    // decay
      {{}, 4 * s.steps},                                                // its sums over a chunk
      {{}, 4 * s.steps},                                                // steps
      {{}, 3 * s.convolved}};                                           // convolution
  kernels.insert(kernels.end(), gradients.begin(), gradients.end());
  return kernels;
}

}  // namespace

KernelWork scan_work(const Plan& plan, const Instruction& instruction) {
  KernelWork work;
  for (const ScanKernel& kernel : kernels_of(plan, instruction)) {
    work.bytes += kernel.bytes;
    for (const GemmShape& product : kernel.products)
      work.flops += static_cast<double>(kernel.steps) * gemm_flops(product);
  }
  return work;
}

double scan_seconds(const Plan& plan, const Instruction& instruction) {
  const Gpu& gpu = plan.cluster.gpu;
  double seconds = 0;
  for (const ScanKernel& kernel : kernels_of(plan, instruction)) {
    double step = 0;
    for (GemmShape product : kernel.products) {
      product.rate_share = plan.framework.kernels.scan_efficiency;
      step += gemm_seconds(gpu, product, 0);
    }
    const double products = static_cast<double>(kernel.steps) * std::max(step, kernel.step_s);
    const double moved = kernel.bytes / plan.framework.kernels.scan_memory_efficiency;
    seconds += std::max(products + gpu.kernel_launch_s, row_kernel_seconds(gpu, moved));
  }
  return seconds;
}

std::int64_t scan_launches(const Plan& plan, const Instruction& instruction) {
  return static_cast<std::int64_t>(kernels_of(plan, instruction).size());
}

}  // namespace simrun
