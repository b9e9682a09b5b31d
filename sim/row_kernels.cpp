#include "sim/row_kernels.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "sim/attention_cost.h"
#include "sim/expert_bias.h"

namespace simrun {

namespace {

double elements_of(const Plan& plan, Index buffer) {
  return static_cast<double>(plan.buffers[buffer].elements());
}

// Of an operator, per element of its result.
struct PerElement {
  PerElement(double moved, double done = 0) : bytes(moved), operations(done) {}
  double bytes = 0;
  double operations = 0;  // where operands do not lie alike: a scale per row, a weight or bias of all rows
};

// Of results of so many bytes.
double broadcast_operations(const FrameworkKernels& framework, double bytes) {
  return bytes < 4 ? framework.broadcast_operations : framework.broadcast_operations_fp32;
}

std::vector<RowKernel> of_elements(double elements, std::initializer_list<PerElement> kernels) {
  std::vector<RowKernel> list;
  for (const PerElement& each : kernels)
    list.push_back({.bytes = each.bytes * elements, .operations = each.operations * elements});
  return list;
}

bool has_dimension(const Plan& plan, const Buffer& buffer, std::string_view name) {
  return std::any_of(buffer.dims.begin(), buffer.dims.end(),
                     [&](const BufferDim& dim) { return plan.dimension_names[dim.name] == name; });
}

// Q and K of packed q, k and v, where each group of queries has one key and one value.
double rotated_share(const Plan& plan, const Buffer& packed) {
  for (const BufferDim& dim : packed.dims)
    if (plan.dimension_names[dim.name] == "qkv" && dim.extent > 2)
      return static_cast<double>(dim.extent - 1) / static_cast<double>(dim.extent);
  return 1;
}

// Q of packed q, k and v.
double query_share(const Plan& plan, const Buffer& packed) {
  for (const BufferDim& dim : packed.dims)
    if (plan.dimension_names[dim.name] == "qkv" && dim.extent > 2)
      return static_cast<double>(dim.extent - 2) / static_cast<double>(dim.extent);
  return 1;
}

// Bias, dropout and residual as three operators; what there is of them.
std::vector<RowKernel> residual_kernels(const Plan& plan, const Instruction& instruction) {
  const double elements = elements_of(plan, instruction.outputs.at(0));
  const auto b = static_cast<double>(bytes_of(plan.buffers[instruction.outputs[0]].dtype));
  const double operations = broadcast_operations(plan.framework.kernels, b);
  std::vector<RowKernel> kernels;
  const double dropped = instruction.dropout > 0 ? elements : 0;
  for (std::size_t i = 1; i < instruction.inputs.size(); ++i)
    if (elements_of(plan, instruction.inputs[i]) < elements)
      kernels.push_back({.bytes = 2 * b * elements, .operations = operations * elements});
    else
      kernels.push_back({3 * b * elements});
  if (dropped > 0) kernels.push_back({(2 * b + 1) * elements, dropped});
  return kernels;
}

// The rows of experts, or of the GPUs or nodes that have them, which a dispatch or combine writes, reads or
// differentiates.
const Buffer& routed_rows(const Plan& plan, const Instruction& instruction) {
  const bool is_dispatch = instruction.function == Function::dispatch;
  const bool writes_rows = is_dispatch == (instruction.opcode == Opcode::gather);
  return plan.buffers[writes_rows ? instruction.outputs.front() : instruction.inputs.front()];
}

// DeepEP (deepseek-ai/DeepEP, csrc/kernels/intranode.cu and internode.cu): what sends a token's row reads it
// where it lies, and what receives rows sums them, while they are exchanged. Experts' own rows, by capacity,
// are put in their order afterwards.
bool is_done_by_exchange(const Plan& plan, const Instruction& instruction) {
  if (instruction.function != Function::dispatch && instruction.function != Function::combine) return false;
  const Buffer& rows = routed_rows(plan, instruction);
  return rows.dims.size() > 1 && plan.dimension_names[rows.dims[1].name] != "capacity";
}

// Weights of experts' rows, where one kernel does the activation in front of it or both its gradients
// (Megatron Core, fusions/fused_bias_swiglu.py: weighted_bias_swiglu_impl); and an expert's own weights, put
// in the order of its rows with them.
bool is_within_activation(const Plan& plan, const Instruction& instruction) {
  if (instruction.function == Function::weigh_rows || instruction.function == Function::weigh_rows_backward)
    return plan.framework.kernels.fused_activation;
  if (instruction.function != Function::dispatch || instruction.outputs.empty()) return false;
  const Buffer& rows = routed_rows(plan, instruction);
  return plan.dimension_names[rows.dims.back().name] == "one";
}

// Megatron Core's operators (moe_utils.py: permute, unpermute, sort_chunks_by_idxs): rows are selected, and
// summed by a scatter that adds to zeros; a rank that has several experts puts what others sent in their
// order, in a copy of its own. Adding to a row reads it, and its old sum, element by element where PyTorch
// does it in two bytes.
std::vector<RowKernel> permute_kernels(const Plan& plan, const Instruction& instruction) {
  const bool is_dispatch = instruction.function == Function::dispatch;
  const bool forward = instruction.opcode == Opcode::gather;
  if (plan.framework.kernels.fused_permute || (!is_dispatch && instruction.function != Function::combine) ||
      instruction.inputs.size() < 2)
    return {};
  const bool writes_rows = is_dispatch == forward;
  const Buffer &rows = routed_rows(plan, instruction),
               &tokens = plan.buffers[writes_rows ? instruction.inputs.front() : instruction.outputs.front()];
  if (rows.dims.size() < 2 || has_dimension(plan, tokens, "experts")) return {};
  const auto r = static_cast<double>(rows.stored_bytes()), t = static_cast<double>(tokens.stored_bytes());
  std::vector<RowKernel> kernels;
  const bool is_of_all_experts = rows.split.empty() || rows.split.front().empty();
  if (is_of_all_experts && plan.job.expert_parallel > 1 &&
      rows.dims.front().extent > plan.job.expert_parallel)
    kernels.push_back({2 * r});
  const double weighing =
      broadcast_operations(plan.framework.kernels, static_cast<double>(bytes_of(rows.dtype))) *
      static_cast<double>(rows.elements());
  const RowKernel weighted{.bytes = 2 * r, .operations = weighing};  // by the probabilities
  if (forward && is_dispatch) kernels.push_back({2 * r});
  if (forward && !is_dispatch && instruction.inputs.size() > 2) kernels.push_back(weighted);
  const double adding = bytes_of(rows.dtype) < 4 ? plan.framework.kernels.scatter_operations : 0;
  if (!writes_rows)
    kernels.insert(kernels.end(),
                   {{t}, {.bytes = 3 * r, .operations = adding * static_cast<double>(rows.elements())}});
  // The tokens' gradients by row; weighted; by the rows, and summed over each.
  if (!is_dispatch && !forward) kernels.insert(kernels.end(), {{2 * r}, weighted, {3 * r}, {r}});
  return kernels;
}

// PyTorch's own norms (aten/src/ATen/native/cuda/layer_norm_kernel.cu): one kernel forward; backward one for
// the gradient of the input and one that reads input and gradient again for that of the weight.
std::vector<RowKernel> norm_kernels(const Plan& plan, const Instruction& instruction, double fused_bytes) {
  const double efficiency = plan.framework.kernels.norm_efficiency;
  std::vector<RowKernel> kernels{{fused_bytes / efficiency}};
  // Of gradient, x and statistics, without a weight, there is no such gradient.
  const bool is_unweighted = instruction.inputs.size() == 3 && instruction.outputs.size() == 1;
  if (instruction.opcode == Opcode::norm_backward && !is_unweighted) {
    const Buffer& rows = plan.buffers[instruction.outputs.at(0)];
    kernels.push_back({2.0 * static_cast<double>(rows.stored_bytes()) / efficiency});
  }
  return kernels;
}

// x cosines, half of it negated, halves changed, x sines, sum; backward x cosines and sines first. Of
// queries, then of keys.
std::vector<RowKernel> rope_kernels(const Plan& plan, const Instruction& instruction) {
  const Buffer& out = plan.buffers[instruction.outputs.at(0)];
  const auto b = static_cast<double>(bytes_of(out.dtype));
  const PerElement scaled{2 * b, broadcast_operations(plan.framework.kernels, b)};
  const double elements = static_cast<double>(out.elements()) * rotated_share(plan, out) / 2;
  std::vector<RowKernel> kernels = instruction.function == Function::rope
                                       ? of_elements(elements, {scaled, b, 2 * b, scaled, 3 * b})
                                       : of_elements(elements, {scaled, scaled, 2 * b, b, 3 * b});
  const std::vector<RowKernel> of_keys = kernels;
  kernels.insert(kernels.end(), of_keys.begin(), of_keys.end());
  return kernels;
}

// Of gated activations Transformer Engine's grouped MLP of experts fuses SwiGLU alone (TEGroupedMLP in
// megatron/core/transformer/moe/experts.py).
bool fuses_gelu_gate(const Plan& plan, const Buffer& out) {
  const FrameworkKernels& framework = plan.framework.kernels;
  return framework.fused_activation &&
         !(framework.expert_bias == ExpertBias::separate_fc2 && has_dimension(plan, out, "experts"));
}

// Empty: one kernel does it.
std::vector<RowKernel> separate_kernels(const Plan& plan, const Instruction& instruction) {
  const FrameworkKernels& framework = plan.framework.kernels;
  const Buffer& out = plan.buffers[instruction.outputs.at(0)];
  const auto elements = static_cast<double>(out.elements());
  const auto b = static_cast<double>(bytes_of(out.dtype));
  const double own = broadcast_operations(framework, b), fp32 = framework.broadcast_operations_fp32;
  switch (instruction.function) {
    case Function::rms_norm:
      if (framework.fused_norm || b > 2) return {};
      // Cast, square, mean, x 1 / root, cast, x weight; backward of weight, product and sum for the weight,
      // cast, of 1 / root, its own gradient's product and sum, of the square, sum of both, cast.
      return instruction.opcode == Opcode::norm
                 ? of_elements(elements, {b + 4, 8, 4, {8, fp32}, b + 4, {2 * b, own}})
                 : of_elements(elements,
                               {{2 * b, own}, 3 * b, b, b + 4, {8, fp32}, 12, 4, {8, fp32}, 12, b + 4});
    case Function::rope:
    case Function::rope_backward:
      return framework.fused_rope ? std::vector<RowKernel>() : rope_kernels(plan, instruction);
    case Function::swiglu:
      return framework.fused_activation ? std::vector<RowKernel>() : of_elements(elements, {2 * b, 3 * b});
    case Function::gated_silu:
    case Function::gated_gelu:
    case Function::gated_sigmoid:
      return framework.fused_activation ? std::vector<RowKernel>() : of_elements(elements, {2 * b, 3 * b});
    case Function::gated_silu_backward:
    case Function::gated_gelu_backward:
    case Function::gated_sigmoid_backward:
      return framework.fused_activation ? std::vector<RowKernel>()
                                        : of_elements(elements, {3 * b, 3 * b, 3 * b});
    case Function::swiglu_backward:  // the gradient has both halves
      return framework.fused_activation ? std::vector<RowKernel>()
                                        : of_elements(elements / 2, {3 * b, 3 * b, 3 * b, 4 * b});
    case Function::geglu:
      return fuses_gelu_gate(plan, out) ? std::vector<RowKernel>() : of_elements(elements, {2 * b, 3 * b});
    case Function::geglu_backward:
      return fuses_gelu_gate(plan, out) ? std::vector<RowKernel>()
                                        : of_elements(elements / 2, {3 * b, 3 * b, 3 * b, 4 * b});
    case Function::scale_queries:  // a product of the queries alone
      return of_elements(elements * query_share(plan, out), {{2 * b, own}});
    case Function::scale_rows:
    case Function::weigh_rows: return of_elements(elements, {{2 * b, own}});
    case Function::scale_rows_backward:
    case Function::weigh_rows_backward:  // of the rows, then of the weights
      return of_elements(elements, {{2 * b, own}, 2 * b});
    case Function::gelu:
      return framework.fused_activation ? std::vector<RowKernel>()
                                        : of_elements(elements, {{2 * b, own}, 2 * b});  // bias, gelu
    case Function::add:
      return framework.fused_residual || instruction.opcode != Opcode::map
                 ? std::vector<RowKernel>()
                 : residual_kernels(plan, instruction);
    case Function::dispatch:
    case Function::combine: return permute_kernels(plan, instruction);
    default: return {};
  }
}

// A multiprocessor does four times as many 32-bit integer operations per clock as special functions (CUDA C++
// Programming Guide, table of arithmetic throughput: 64 and 16 from Volta to Hopper). Where those are not
// known, half as many as fp32 ones, of which a multiply-add is two.
double integer_operations_per_second(const Gpu& gpu) {
  return gpu.special_functions > 0 ? 4 * gpu.special_functions : gpu.vector_flops / 2;
}

}  // namespace

double row_kernel_seconds(const Gpu& gpu, double bytes) {
  return bytes / (gpu.memory_bandwidth * gpu.memory_efficiency) + gpu.kernel_launch_s;
}

double row_kernel_seconds(const Gpu& gpu, const RowKernel& kernel) {
  const double random =
      gpu.kernels.random_numbers > 0 ? kernel.random_numbers / gpu.kernels.random_numbers : 0;
  const double rate = integer_operations_per_second(gpu),
               operations = rate > 0 ? kernel.operations / rate : 0;
  return std::max(row_kernel_seconds(gpu, kernel.bytes), operations + gpu.kernel_launch_s) + random;
}

namespace {

// Of a loss whose logits are a tensor in half precision alone: it reads them as the head wrote them, and
// nothing casts them.
std::optional<std::vector<RowKernel>> kernels_of_half_logits(const Plan& plan, const Instruction& instruction,
                                                             double fused_bytes) {
  if (plan.framework.memory.logits != LogitsTensors::half || instruction.inputs.empty()) return std::nullopt;
  const bool casts = instruction.opcode == Opcode::map && instruction.function == Function::cast;
  const bool reads = instruction.opcode == Opcode::cross_entropy ||
                     instruction.opcode == Opcode::cross_entropy_backward ||
                     (instruction.opcode == Opcode::reduce && instruction.function == Function::max);
  if (!casts && !reads) return std::nullopt;
  const Index logits = casts ? instruction.outputs.at(0) : instruction.inputs[0];
  // The head's product is not of the narrow types of fp8 and fp4.
  const auto half = static_cast<double>(std::max<std::int64_t>(bytes_of(plan.job.precision), 2));
  const double wide = static_cast<double>(bytes_of(plan.buffers[logits].dtype));
  if (!has_dimension(plan, plan.buffers[logits], "vocab") || half >= wide) return std::nullopt;
  if (casts) return std::vector<RowKernel>{};
  return std::vector<RowKernel>{{fused_bytes - (wide - half) * elements_of(plan, logits)}};
}

}  // namespace

std::vector<RowKernel> row_kernels(const Plan& plan, const Instruction& instruction, double fused_bytes) {
  if (is_done_by_exchange(plan, instruction) || is_within_activation(plan, instruction)) return {};
  if (std::vector<RowKernel> kernels = expert_bias_gradient_kernels(plan, instruction); !kernels.empty())
    return kernels;
  if (!instruction.outputs.empty())
    if (std::vector<RowKernel> kernels = separate_kernels(plan, instruction); !kernels.empty())
      return kernels;
  if (auto kernels = kernels_of_half_logits(plan, instruction, fused_bytes)) return *kernels;
  const FrameworkKernels& framework = plan.framework.kernels;
  if (instruction.opcode == Opcode::optimizer && framework.optimizer_bytes > 0)
    return {{fused_bytes}, {framework.optimizer_bytes * elements_of(plan, instruction.inputs.at(0))}};
  const double fp32 = framework.broadcast_operations_fp32;
  // Less the largest, exponentials, their sum, divided by it; backward times the loss's gradient, cast.
  if (!framework.fused_cross_entropy && instruction.opcode == Opcode::cross_entropy)
    return of_elements(elements_of(plan, instruction.inputs.at(0)), {{8, fp32}, 8, 4, {8, fp32}});
  if (!framework.fused_cross_entropy && instruction.opcode == Opcode::cross_entropy_backward)
    return of_elements(elements_of(plan, instruction.inputs.at(0)), {{8, fp32}, 6});
  const bool is_norm = instruction.opcode == Opcode::norm || instruction.opcode == Opcode::norm_backward;
  if (is_norm && framework.norm_efficiency < 1) return norm_kernels(plan, instruction, fused_bytes);
  const bool draws = instruction.function == Function::add && instruction.dropout > 0;
  return {{fused_bytes, draws ? elements_of(plan, instruction.outputs.at(0)) : 0}};
}

bool adds_behind_product(const Plan& plan, const Instruction& instruction) {
  if (plan.framework.kernels.fused_weight_gradient || !instruction.accumulate) return false;
  const Buffer& main = plan.buffers[instruction.outputs.at(0)];
  return bytes_of(main.dtype) > bytes_of(plan.buffers[instruction.inputs.at(0)].dtype);
}

std::vector<RowKernel> kernels_behind_product(const Plan& plan, const Instruction& instruction) {
  std::vector<RowKernel> kernels = expert_bias_kernels(plan, instruction);
  const FrameworkKernels& framework = plan.framework.kernels;
  const Buffer& out = plan.buffers[instruction.outputs.at(0)];
  const auto elements = static_cast<double>(out.elements()), b = static_cast<double>(bytes_of(out.dtype));
  if (!framework.fused_qkv_bias && instruction.inputs.size() > 2 &&
      (has_dimension(plan, out, "qkv") || has_dimension(plan, out, "qkv_rows")))
    kernels.push_back(
        {.bytes = 2 * b * elements, .operations = broadcast_operations(framework, b) * elements});
  if (adds_behind_product(plan, instruction)) {
    const auto own = static_cast<double>(bytes_of(plan.buffers[instruction.inputs.at(0)].dtype));
    kernels.push_back(
        {.bytes = (own + 2 * b) * elements, .operations = broadcast_operations(framework, b) * elements});
  }
  return kernels;
}

}  // namespace simrun
