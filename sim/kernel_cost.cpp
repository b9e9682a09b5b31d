#include "sim/kernel_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "sim/attention_cost.h"
#include "sim/conv_cost.h"
#include "sim/measured_cost.h"
#include "sim/offload_cost.h"

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

// Elements of K that the time to fill the software pipeline and to write the tile is worth: CUTLASS's default
// 4 stages of 32.
constexpr double prologue_k = 128;
// A split shorter than this is not worth its reduction.
constexpr std::int64_t least_split_k = 256;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

double peak_flops(const Gpu& gpu, Dtype dtype) {
  if (const auto found = gpu.peak_flops.find(dtype); found != gpu.peak_flops.end()) return found->second;
  if (dtype == Dtype::fp32 && gpu.vector_flops > 0) return gpu.vector_flops;
  throw std::runtime_error(fmt::format("GPU {} states no peak for {}", gpu.name, to_string(dtype)));
}

double gemm_bytes(const GemmShape& shape) {
  const double inputs = static_cast<double>(shape.batch * (shape.m * shape.k + shape.k * shape.n));
  const double outputs = static_cast<double>(shape.batch * shape.m * shape.n) * (shape.accumulate ? 2 : 1);
  return inputs * static_cast<double>(bytes_of(shape.input)) +
         outputs * static_cast<double>(bytes_of(shape.output));
}

bool has_dim(const Buffer& buffer, std::uint16_t name) {
  return std::any_of(buffer.dims.begin(), buffer.dims.end(),
                     [name](const BufferDim& dim) { return dim.name == name; });
}

// Bytes that reading or writing a whole buffer moves; unlike Buffer::bytes, a view's count too.
double traffic_bytes(const Buffer& buffer) { return static_cast<double>(buffer.stored_bytes()); }

double sum_bytes(const Plan& plan, const std::vector<Index>& buffers) {
  double bytes = 0;
  for (const Index index : buffers) bytes += traffic_bytes(plan.buffers[index]);
  return bytes;
}

bool is_index(const Buffer& buffer) { return buffer.dtype == Dtype::int64 || buffer.dtype == Dtype::int32; }

// A gather reads only the rows that it copies out, not the table: indices + rows read + rows written.
double gather_bytes(const Plan& plan, const Instruction& instruction) {
  double bytes = 2 * sum_bytes(plan, instruction.outputs);
  // Indices, or rows that the table's rows are added to.
  for (std::size_t input = 1; input < instruction.inputs.size(); ++input)
    bytes += traffic_bytes(plan.buffers[instruction.inputs[input]]);
  return bytes;
}

// Experts' rows and their tokens: each row is read once and written once, or added to its token's.
double routed_bytes(const Plan& plan, const Instruction& instruction) {
  const double bytes = sum_bytes(plan, instruction.inputs) + sum_bytes(plan, instruction.outputs);
  if (instruction.opcode == Opcode::gather)
    return instruction.function == Function::dispatch ? gather_bytes(plan, instruction) : bytes;
  // The gradient of combine reads its token's row for every row that it writes.
  return instruction.function == Function::combine
             ? bytes + traffic_bytes(plan.buffers[instruction.outputs.at(0)]) -
                   traffic_bytes(plan.buffers[instruction.inputs.at(0)])
             : bytes;
}

bool is_routed(const Instruction& instruction) {
  return instruction.function == Function::dispatch || instruction.function == Function::combine;
}

// A scatter reads indices and values and adds them to the rows that they name; a fresh output is filled with
// zeros first.
double scatter_bytes(const Plan& plan, const Instruction& instruction) {
  const Buffer& table = plan.buffers[instruction.outputs.at(0)];
  double bytes = instruction.accumulate ? 0 : traffic_bytes(table);
  for (const Index index : instruction.inputs) {
    const Buffer& input = plan.buffers[index];
    bytes += traffic_bytes(input);
    if (!is_index(input)) bytes += 2.0 * static_cast<double>(input.elements() * bytes_of(table.dtype));
  }
  return bytes;
}

double memory_seconds(const Gpu& gpu, double bytes) {
  return bytes / (gpu.memory_bandwidth * gpu.memory_efficiency);
}

}  // namespace

Picoseconds to_picoseconds(double seconds) {
  if (!(seconds >= 0 && seconds < longest_instruction_s))
    throw std::range_error(fmt::format("one instruction takes {:.3g} s, too long to simulate", seconds));
  return std::llround(seconds * 1e12);
}

double matmul_flops_per_second(const Gpu& gpu, Dtype dtype) {
  return peak_flops(gpu, dtype) * gpu.matmul_efficiency;
}

double row_kernel_seconds(const Gpu& gpu, double bytes) {
  return memory_seconds(gpu, bytes) + gpu.kernel_launch_s;
}

double gemm_seconds(const Gpu& gpu, const GemmShape& shape) {
  return gemm_seconds(gpu, shape, gemm_bytes(shape));
}

double gemm_seconds(const Gpu& gpu, const GemmShape& shape, double bytes) {
  const double sm_rate = matmul_flops_per_second(gpu, shape.input) / static_cast<double>(gpu.sm_count);
  const double memory = memory_seconds(gpu, bytes);
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
      best = std::min(best, std::max(waves * tile_seconds, memory) + extra);
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
  return shape;
}

KernelWork kernel_work(const Plan& plan, const Instruction& instruction) {
  double bytes = sum_bytes(plan, instruction.inputs) + sum_bytes(plan, instruction.outputs);
  if (is_routed(instruction)) return {0, routed_bytes(plan, instruction)};
  if (instruction.function == Function::batch_norm) bytes = batch_norm_bytes(plan, instruction, bytes);
  // Of the sequence only the first position is read.
  if (instruction.function == Function::select) bytes = 2 * sum_bytes(plan, instruction.outputs);
  switch (instruction.opcode) {
    case Opcode::init:
    case Opcode::free: return {};
    case Opcode::gemm: {
      const GemmShape shape = gemm_shape(plan, instruction);
      return {2.0 * static_cast<double>(shape.batch * shape.m * shape.n) * static_cast<double>(shape.k),
              gemm_bytes(shape)};
    }
    case Opcode::attention:
    case Opcode::attention_backward: return attention_work(plan, instruction);
    case Opcode::conv: return convolution_work(plan, instruction);
    case Opcode::lstm:
    case Opcode::lstm_backward: return lstm_work(plan, instruction);
    case Opcode::gather: return {0, gather_bytes(plan, instruction)};
    case Opcode::scatter: return {0, scatter_bytes(plan, instruction)};
    default: break;
  }
  if (!instruction.accumulate) return {0, bytes};
  // beta = 1 reads the main gradients that it adds to.
  double added_to = 0;
  for (const Index output : instruction.outputs)
    if (plan.buffers[output].category == Category::gradients) added_to += traffic_bytes(plan.buffers[output]);
  return {0, bytes + added_to};
}

namespace {

Picoseconds time_on_device(const Plan& plan, const Instruction& instruction) {
  if (instruction.opcode != Opcode::free)
    if (const std::optional<double> off = offload_seconds(plan, instruction)) return to_picoseconds(*off);
  const Gpu& gpu = plan.cluster.gpu;
  if (!gpu.measured.empty() && instruction.opcode != Opcode::free && instruction.opcode != Opcode::init)
    if (const std::optional<double> measured = measured_seconds(plan, instruction))
      return to_picoseconds(*measured + gpu.kernel_launch_s);
  switch (instruction.opcode) {
    case Opcode::init:
    case Opcode::free: return 0;
    case Opcode::gemm:
      return to_picoseconds(gemm_seconds(gpu, gemm_shape(plan, instruction)) + gpu.kernel_launch_s);
    case Opcode::attention:
    case Opcode::attention_backward: return to_picoseconds(attention_seconds(plan, instruction));
    case Opcode::conv: return to_picoseconds(convolution_seconds(plan, instruction));
    case Opcode::lstm:
    case Opcode::lstm_backward: return to_picoseconds(lstm_seconds(plan, instruction));
    default: break;
  }
  return to_picoseconds(row_kernel_seconds(gpu, kernel_work(plan, instruction).bytes));
}

}  // namespace

Picoseconds kernel_time(const Plan& plan, const Instruction& instruction) {
  const Picoseconds time = time_on_device(plan, instruction);
  return time == 0 ? 0 : std::max(time, to_picoseconds(plan.framework.kernels.host_dispatch_s));
}

}  // namespace simrun
