#include "sim/kernel_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "schedules/instruction_flops.h"
#include "sim/attention_cost.h"
#include "sim/conv_cost.h"
#include "sim/measured_cost.h"
#include "sim/offload_cost.h"
#include "sim/row_kernels.h"
#include "sim/scan_cost.h"

namespace simrun {

namespace {

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

double product_seconds(const Plan& plan, GemmShape shape) {
  if (shape.batch > 1) shape.rate_share = plan.framework.kernels.batched_gemm_efficiency;
  return gemm_seconds(plan.cluster.gpu, shape) + plan.cluster.gpu.kernel_launch_s;
}

// A product with its launch, and what runs behind it.
double product_seconds(const Plan& plan, const Instruction& instruction) {
  const Gpu& gpu = plan.cluster.gpu;
  GemmShape shape = gemm_shape(plan, instruction);
  if (adds_behind_product(plan, instruction)) {
    shape.output = shape.input;
    shape.accumulate = false;
  }
  double seconds = product_seconds(plan, shape);
  for (const RowKernel& kernel : kernels_behind_product(plan, instruction))
    seconds += row_kernel_seconds(gpu, kernel);
  return seconds;
}

// Products with masks; of a combine's gradients that of the rows, then that of the mask.
std::vector<GemmShape> mask_shapes(const Plan& plan, const Instruction& instruction) {
  const std::optional<MaskProducts> of = mask_products(plan, instruction);
  if (!of) return {};
  GemmShape shape{of->groups, of->tokens, of->hidden, of->places};
  shape.input = shape.output = plan.buffers[instruction.inputs.at(0)].dtype;
  GemmShape of_rows = shape, of_mask = shape;
  std::swap(of_rows.m, of_rows.k);
  std::swap(of_mask.n, of_mask.k);
  const bool forward = instruction.opcode == Opcode::gather;
  if (instruction.function == Function::dispatch) return {forward ? of_rows : shape};
  return forward ? std::vector{shape} : std::vector{of_rows, of_mask};
}

}  // namespace

Picoseconds to_picoseconds(double seconds) {
  if (!(seconds >= 0 && seconds < longest_instruction_s))
    throw std::range_error(fmt::format("one instruction takes {:.3g} s, too long to simulate", seconds));
  return std::llround(seconds * 1e12);
}

KernelWork kernel_work(const Plan& plan, const Instruction& instruction) {
  double bytes = sum_bytes(plan, instruction.inputs) + sum_bytes(plan, instruction.outputs);
  if (const std::vector<GemmShape> shapes = mask_shapes(plan, instruction); !shapes.empty()) {
    KernelWork work;
    for (const GemmShape& shape : shapes) {
      work.flops += gemm_flops(shape);
      work.bytes += gemm_bytes(shape);
    }
    return work;
  }
  if (is_routed(instruction)) return {0, routed_bytes(plan, instruction)};
  if (instruction.function == Function::batch_norm) bytes = batch_norm_bytes(plan, instruction, bytes);
  // Of the sequence only the first position is read.
  if (instruction.function == Function::select) bytes = 2 * sum_bytes(plan, instruction.outputs);
  switch (instruction.opcode) {
    case Opcode::init:
    case Opcode::free: return {};
    case Opcode::gemm: {
      const GemmShape shape = gemm_shape(plan, instruction);
      return {gemm_flops(shape), gemm_bytes(shape)};
    }
    case Opcode::attention:
    case Opcode::attention_backward: return attention_work(plan, instruction);
    case Opcode::conv: return convolution_work(plan, instruction);
    case Opcode::lstm:
    case Opcode::lstm_backward: return lstm_work(plan, instruction);
    case Opcode::scan:
    case Opcode::scan_backward: return scan_work(plan, instruction);
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

Picoseconds kernel_time(const Plan& plan, const Instruction& instruction) {
  if (instruction.opcode != Opcode::free)
    if (const std::optional<double> off = offload_seconds(plan, instruction)) return to_picoseconds(*off);
  const Gpu& gpu = plan.cluster.gpu;
  if (!gpu.measured.empty() && instruction.opcode != Opcode::free && instruction.opcode != Opcode::init)
    if (const std::optional<double> measured = measured_seconds(plan, instruction))
      return to_picoseconds(*measured + gpu.kernel_launch_s);
  switch (instruction.opcode) {
    case Opcode::init:
    case Opcode::free: return 0;
    case Opcode::gemm: return to_picoseconds(product_seconds(plan, instruction));
    case Opcode::attention:
    case Opcode::attention_backward: return to_picoseconds(attention_seconds(plan, instruction));
    case Opcode::conv: return to_picoseconds(convolution_seconds(plan, instruction));
    case Opcode::lstm:
    case Opcode::lstm_backward: return to_picoseconds(lstm_seconds(plan, instruction));
    case Opcode::scan:
    case Opcode::scan_backward: return to_picoseconds(scan_seconds(plan, instruction));
    default: break;
  }
  double seconds = 0;
  if (const std::vector<GemmShape> shapes = mask_shapes(plan, instruction); !shapes.empty()) {
    for (const GemmShape& shape : shapes) seconds += product_seconds(plan, shape);
    return to_picoseconds(seconds);
  }
  for (const RowKernel& kernel : row_kernels(plan, instruction, kernel_work(plan, instruction).bytes))
    seconds += row_kernel_seconds(gpu, kernel);
  return to_picoseconds(seconds);
}

std::int64_t kernel_launches(const Plan& plan, const Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::init:
    case Opcode::free: return 0;
    case Opcode::gemm: return 1 + static_cast<std::int64_t>(kernels_behind_product(plan, instruction).size());
    case Opcode::attention:
    case Opcode::attention_backward: return attention_launches(plan, instruction);
    case Opcode::scan:
    case Opcode::scan_backward: return scan_launches(plan, instruction);
    default: break;
  }
  const FrameworkKernels& framework = plan.framework.kernels;
  if (instruction.opcode == Opcode::route && framework.routing_operators > 0)
    return framework.routing_operators;
  if (instruction.opcode == Opcode::route_backward && framework.routing_backward_operators > 0)
    return framework.routing_backward_operators;
  const std::vector<GemmShape> masks = mask_shapes(plan, instruction);
  return static_cast<std::int64_t>(masks.empty() ? row_kernels(plan, instruction, 0).size() : masks.size());
}

}  // namespace simrun
