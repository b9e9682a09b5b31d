#include "sim/gemm_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>
#include <utility>

#include "sim/row_kernels.h"

namespace simrun {

namespace {

// Thread-block tiles that cuBLAS and CUTLASS choose from, largest first.
// Source: NVIDIA, "Matrix Multiplication Background User's Guide", table of cuBLAS tile sizes.
struct Tile {
  std::int64_t m, n;
};
constexpr std::array<Tile, 6> tiles = {{{256, 128}, {128, 256}, {128, 128}, {128, 64}, {64, 128}, {64, 64}}};

// An SM reads (m + n) k operand elements for 2 m n k FLOPs, so a tile reuses each element m n / (m + n) times
// and loses time to operand traffic in proportion to 1 / reuse. `matmul_efficiency` is measured on the
// largest tile, whose factor is 1. The weight 16 is an assumption: 128x128 then runs at 95 % of 256x128's
// rate, 128x64 at 86 %, 64x64 at 79 %.
constexpr double reuse_at_half_rate = 16;
double reuse(Tile tile) {
  return static_cast<double>(tile.m * tile.n) / static_cast<double>(tile.m + tile.n);
}
double tile_rate(Tile tile) {
  const double largest = reuse(tiles.front());
  return reuse(tile) / (reuse(tile) + reuse_at_half_rate) * (largest + reuse_at_half_rate) / largest;
}

// Bytes of a row of K that the time to fill the software pipeline and to write the tile is worth: CUTLASS's
// default 4 stages of 32 elements of fp16. It is a latency, so types of half the width gain nothing there.
constexpr double prologue_bytes = 256;
// A split shorter than this is not worth its reduction.
constexpr std::int64_t least_split_k = 256;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// What is left of the rate where rows begin at odd addresses. A large product takes twice as long: padding
// GPT-2's vocabulary from 50257 to 50304 makes its training step 1.25 times as fast (Karpathy, nanoGPT), of
// which the head is a third. A batch of small ones leaves the tensor cores: on Jean Zay's A100 heads of 108
// and 150 elements cost attention's four products 9 of 19.5 TFLOP/s, where heads of 104, 144 and 216 cost
// next to nothing, here with the prologue of a short K (BLOOM's chronicles, tables of 2022-02-23 and 02-26).
constexpr std::int64_t load_bytes = 16;
constexpr double unaligned_share = 0.5;
constexpr double unaligned_batch_of_vector_rate = 0.9;

double peak_flops(const Gpu& gpu, Dtype dtype) {
  if (const auto found = gpu.peak_flops.find(dtype); found != gpu.peak_flops.end()) return found->second;
  if (dtype == Dtype::fp32 && gpu.vector_flops > 0) return gpu.vector_flops;
  throw std::runtime_error(fmt::format("GPU {} states no peak for {}", gpu.name, to_string(dtype)));
}

bool has_dim(const Buffer& buffer, std::uint16_t name) {
  return std::any_of(buffer.dims.begin(), buffer.dims.end(),
                     [name](const BufferDim& dim) { return dim.name == name; });
}

// Rows of a matrix are as long as its last dimensions of one kind, those which the other two operands have or
// lack alike; one row needs no alignment but its own.
bool has_aligned_rows(const Buffer& matrix, std::pair<const Buffer&, const Buffer&> others) {
  const auto kind = [&](const BufferDim& dim) {
    return (has_dim(others.first, dim.name) ? 1 : 0) + (has_dim(others.second, dim.name) ? 2 : 0);
  };
  std::int64_t elements = 1;
  for (auto dim = matrix.dims.rbegin(); dim != matrix.dims.rend() && kind(*dim) == kind(matrix.dims.back());
       ++dim)
    elements *= dim->extent;
  return stored_bytes(matrix.dtype, 2 * elements) % (2 * load_bytes) == 0;
}

}  // namespace

double matmul_flops_per_second(const Gpu& gpu, Dtype dtype) {
  const double of_efficiency = dtype == Dtype::fp8 ? gpu.kernels.fp8_efficiency : 1;
  // Products without tensor cores draw less than the power limit: their clock stays.
  const double sustained = dtype == Dtype::fp32 ? 1 : gpu.kernels.sustained;
  return peak_flops(gpu, dtype) * gpu.matmul_efficiency * of_efficiency * sustained;
}

double gemm_flops(const GemmShape& shape) {
  return 2.0 * static_cast<double>(shape.batch * shape.m * shape.n) * static_cast<double>(shape.k);
}

double gemm_bytes(const GemmShape& shape) {
  const double inputs = static_cast<double>(shape.batch * (shape.m * shape.k + shape.k * shape.n));
  const double outputs = static_cast<double>(shape.batch * shape.m * shape.n) * (shape.accumulate ? 2 : 1);
  return inputs * element_bytes(shape.input) + outputs * element_bytes(shape.output);
}

namespace {

double rate_of(const Gpu& gpu, const GemmShape& shape) {
  const double rate = matmul_flops_per_second(gpu, shape.input) * shape.rate_share;
  if (!shape.unaligned || shape.input == Dtype::fp32) return rate;
  if (shape.batch == 1 || gpu.vector_flops <= 0) return rate * unaligned_share;
  return std::min(rate * unaligned_share, gpu.vector_flops * unaligned_batch_of_vector_rate);
}

}  // namespace

double gemm_seconds(const Gpu& gpu, const GemmShape& shape) {
  return gemm_seconds(gpu, shape, gemm_bytes(shape));
}

double gemm_seconds(const Gpu& gpu, const GemmShape& shape, double bytes) {
  const double sm_rate = rate_of(gpu, shape) / static_cast<double>(gpu.sm_count);
  const double memory = bytes / (gpu.memory_bandwidth * gpu.memory_efficiency);
  const double prologue_k = prologue_bytes / element_bytes(shape.input);
  double best = std::numeric_limits<double>::infinity();
  for (const Tile tile : tiles) {
    const std::int64_t blocks = ceil_div(shape.m, tile.m) * ceil_div(shape.n, tile.n) * shape.batch;
    for (std::int64_t splits = 1;; splits *= 2) {
      const double k = static_cast<double>(ceil_div(shape.k, splits)) + prologue_k;
      const double waves = static_cast<double>(ceil_div(blocks * splits, gpu.sm_count));
      const double tile_seconds =
          2.0 * static_cast<double>(tile.m * tile.n) * k / (sm_rate * tile_rate(tile));
      // Each split writes an fp32 partial product that a second kernel reads.
      const double partials =
          splits == 1 ? 0 : 8.0 * static_cast<double>(splits * shape.batch * shape.m * shape.n);
      const double extra = splits == 1 ? 0 : row_kernel_seconds(gpu, partials);
      best = std::min(best, std::max((waves + gpu.kernels.tail_waves) * tile_seconds, memory) + extra);
      if (blocks * splits >= gpu.sm_count || shape.k < 2 * splits * least_split_k) break;
    }
  }
  return best;
}

GemmShape gemm_shape(const Plan& plan, const Instruction& instruction) {
  const Buffer& a = plan.buffers[instruction.inputs.at(0)];
  const Buffer& b = plan.buffers[instruction.inputs.at(1)];
  const Buffer& d = plan.buffers[instruction.outputs.at(0)];
  GemmShape shape;
  shape.input = a.dtype;
  shape.output = d.dtype;
  shape.accumulate = instruction.accumulate;
  for (const BufferDim& dim : a.dims) {
    const bool in_b = has_dim(b, dim.name), in_d = has_dim(d, dim.name);
    if (in_b && in_d) shape.batch *= dim.extent;
    if (!in_b && in_d) shape.m *= dim.extent;
    if (in_b && !in_d) shape.k *= dim.extent;
  }
  for (const BufferDim& dim : b.dims)
    if (has_dim(d, dim.name) && !has_dim(a, dim.name)) shape.n *= dim.extent;
  shape.unaligned =
      !has_aligned_rows(a, {b, d}) || !has_aligned_rows(b, {a, d}) || !has_aligned_rows(d, {a, b});
  return shape;
}

}  // namespace simrun
