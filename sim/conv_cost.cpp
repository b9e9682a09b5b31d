#include "sim/conv_cost.h"

#include <algorithm>

#include "schedules/instruction_flops.h"
#include "sim/row_kernels.h"

namespace simrun {
namespace {

constexpr std::int64_t channel_multiple = 8;

std::int64_t padded_channels(std::int64_t channels) {
  return (channels + channel_multiple - 1) / channel_multiple * channel_multiple;
}

double bytes_of_buffer(const Plan& plan, Index index) {
  const Buffer& buffer = plan.buffers[index];
  return static_cast<double>(buffer.elements() * bytes_of(buffer.dtype));
}

double operand_bytes(const Plan& plan, const Instruction& instruction) {
  double bytes = 0;
  for (const Index index : instruction.inputs) bytes += bytes_of_buffer(plan, index);
  for (const Index index : instruction.outputs)
    bytes += bytes_of_buffer(plan, index) * (instruction.accumulate ? 2 : 1);
  return bytes;
}

// One step of a recurrence: its rows, and the product that they go through.
struct Recurrence {
  std::int64_t steps = 1;
  GemmShape product;
  double pointwise_bytes = 0;  // of one step
};

Recurrence recurrence_of(const Plan& plan, const Instruction& instruction) {
  const bool backward = instruction.opcode == Opcode::lstm_backward;
  const Index gates_index = backward ? instruction.outputs.at(0) : instruction.inputs.at(0);
  const Buffer& gates = plan.buffers[gates_index];  // [batch, sequence, gates, cell]
  const Buffer& weight = plan.buffers[instruction.inputs.at(1)];
  Recurrence of;
  of.steps = gates.dims.at(1).extent;
  const std::int64_t width = gates.dims.at(2).extent * gates.dims.at(3).extent;
  const std::int64_t hidden = weight.dims.back().extent;
  of.product = {.m = gates.dims.at(0).extent,
                .n = backward ? hidden : width,
                .k = backward ? width : hidden,
                .input = gates.dtype,
                .output = gates.dtype};
  of.pointwise_bytes = (operand_bytes(plan, instruction) - bytes_of_buffer(plan, instruction.inputs.at(1))) /
                       static_cast<double>(of.steps);
  return of;
}

}  // namespace

GemmShape convolution_gemm(const Plan& plan, const Instruction& instruction) {
  const ConvolutionOperands of = convolution_operands(instruction);
  const std::vector<BufferDim>& weight = plan.buffers[of.weight].dims;
  const std::vector<BufferDim>& input = plan.buffers[of.input].dims;
  const std::vector<BufferDim>& output = plan.buffers[of.output].dims;
  const std::int64_t kernel = weight.at(1).extent * weight.at(2).extent;
  const std::int64_t channels = padded_channels(weight.at(3).extent);
  const std::int64_t features = weight.at(0).extent;
  const auto rows = [](const std::vector<BufferDim>& dims) {
    return dims.at(0).extent * dims.at(1).extent * dims.at(2).extent;
  };
  GemmShape shape{.input = plan.buffers[of.input].dtype,
                  .output = plan.buffers[instruction.outputs[0]].dtype};
  shape.accumulate = instruction.accumulate;
  if (instruction.function == Function::convolution_weight_gradient) {
    shape.m = features;
    shape.n = channels * kernel;
    shape.k = rows(output);
  } else if (instruction.function == Function::convolution_input_gradient) {
    shape.m = rows(input);
    shape.n = channels;
    shape.k = std::max<std::int64_t>(features * kernel * rows(output) / rows(input), 1);
  } else {
    shape.m = rows(output);
    shape.n = features;
    shape.k = channels * kernel;
  }
  return shape;
}

KernelWork convolution_work(const Plan& plan, const Instruction& instruction) {
  return {instruction_flops(plan, instruction), operand_bytes(plan, instruction)};
}

double convolution_seconds(const Plan& plan, const Instruction& instruction) {
  const Gpu& gpu = plan.cluster.gpu;
  return gemm_seconds(gpu, convolution_gemm(plan, instruction), operand_bytes(plan, instruction)) +
         gpu.kernel_launch_s;
}

double batch_norm_bytes(const Plan& plan, const Instruction& instruction, double bytes) {
  bytes += bytes_of_buffer(plan, instruction.inputs.at(0));
  if (instruction.opcode == Opcode::norm_backward) bytes += bytes_of_buffer(plan, instruction.inputs.at(1));
  return bytes;
}

KernelWork lstm_work(const Plan& plan, const Instruction& instruction) {
  const Recurrence of = recurrence_of(plan, instruction);
  const double weight = bytes_of_buffer(plan, instruction.inputs.at(1));
  return {instruction_flops(plan, instruction),
          static_cast<double>(of.steps) * (of.pointwise_bytes + weight)};
}

double lstm_seconds(const Plan& plan, const Instruction& instruction) {
  const Gpu& gpu = plan.cluster.gpu;
  const Recurrence of = recurrence_of(plan, instruction);
  const double step =
      gemm_seconds(gpu, of.product) + gpu.kernel_launch_s + row_kernel_seconds(gpu, of.pointwise_bytes);
  return static_cast<double>(of.steps) * step;
}

}  // namespace simrun
