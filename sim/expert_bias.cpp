#include "sim/expert_bias.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

namespace simrun {

namespace {

bool is_dimension(const Plan& plan, const BufferDim& dim, std::string_view name) {
  return plan.dimension_names[dim.name] == name;
}

// Rows of experts: [experts, capacity, ...].
bool is_of_experts(const Plan& plan, const Buffer& buffer) {
  return buffer.dims.size() > 2 && is_dimension(plan, buffer.dims[0], "experts") &&
         is_dimension(plan, buffer.dims[1], "capacity");
}

bool is_second_product(const Plan& plan, const Buffer& rows) {
  return is_dimension(plan, rows.dims.back(), "hidden");
}

bool is_added_behind(const Plan& plan, const Buffer& rows) {
  const ExpertBias bias = plan.framework.kernels.expert_bias;
  return bias == ExpertBias::separate || (bias == ExpertBias::separate_fc2 && is_second_product(plan, rows));
}

// Rows are counted per GPU or node on their way where DeepEP exchanges them, with probabilities in fp32.
bool is_weighted_in_fp32(const Plan& plan, const Buffer& rows) {
  return bytes_of(rows.dtype) < 4 &&
         std::any_of(plan.dimension_names.begin(), plan.dimension_names.end(),
                     [](const std::string& name) { return name == "gpu_rows" || name == "node_rows"; });
}

// Of results in the rows' own type.
double own_operations(const FrameworkKernels& framework, const Buffer& rows) {
  return bytes_of(rows.dtype) < 4 ? framework.broadcast_operations : framework.broadcast_operations_fp32;
}

// Per element of a rank's rows: bytes, and operations where operands do not lie alike.
struct PerElement {
  double bytes = 0;
  double operations = 0;
};

struct Kernels {
  const Buffer& rows;
  std::vector<RowKernel> list;

  // One kernel per expert for each.
  void of_each(std::initializer_list<PerElement> kernels) {
    const auto experts = static_cast<std::size_t>(rows.dims.front().extent);
    const double elements = static_cast<double>(rows.elements()) / static_cast<double>(experts);
    for (const PerElement& each : kernels)
      list.insert(list.end(), experts,
                  {.bytes = each.bytes * elements, .operations = each.operations * elements});
  }
  void of_all(double bytes) { list.push_back({bytes * static_cast<double>(rows.elements())}); }
};

}  // namespace

std::vector<RowKernel> expert_bias_kernels(const Plan& plan, const Instruction& product) {
  const Buffer& rows = plan.buffers[product.outputs.at(0)];
  if (product.inputs.size() < 3 || !is_of_experts(plan, rows) || !is_added_behind(plan, rows)) return {};
  const FrameworkKernels& framework = plan.framework.kernels;
  const auto b = static_cast<double>(bytes_of(rows.dtype));
  const double own = own_operations(framework, rows), fp32 = framework.broadcast_operations_fp32;
  Kernels kernels{rows, {}};
  if (!is_second_product(plan, rows)) {
    kernels.of_each({{2 * b, own}});  // sum
    kernels.of_all(2 * b);            // joined
  } else if (is_weighted_in_fp32(plan, rows)) {
    kernels.of_each({{4, fp32}, {b + 8, fp32}});  // bias x probability, sum
    kernels.of_all(8);
    kernels.of_all(4 + b);
  } else {
    kernels.of_each({{b, own}, {3 * b}});
    kernels.of_all(2 * b);
  }
  return kernels.list;
}

std::vector<RowKernel> expert_bias_gradient_kernels(const Plan& plan, const Instruction& sum) {
  if (sum.opcode != Opcode::reduce || sum.function != Function::sum || sum.inputs.empty()) return {};
  const Buffer& rows = plan.buffers[sum.inputs[0]];
  if (!is_of_experts(plan, rows) || !is_added_behind(plan, rows)) return {};
  const FrameworkKernels& framework = plan.framework.kernels;
  const auto b = static_cast<double>(bytes_of(rows.dtype));
  Kernels kernels{rows, {}};
  if (!is_second_product(plan, rows)) {
    kernels.of_each({{b, framework.broadcast_sum * own_operations(framework, rows)}});  // summed over rows
  } else {
    const bool in_fp32 = is_weighted_in_fp32(plan, rows);
    const double wide = in_fp32 ? 4 : b;
    const double operations = in_fp32 ? framework.broadcast_operations_fp32 : own_operations(framework, rows);
    if (in_fp32) {
      kernels.of_all(b + 4);
      kernels.of_each({{4 + b}});  // the rows' part, narrowed again
    }
    // Gradient x probability, summed over rows; gradient x bias, summed over each row.
    kernels.of_each({{2 * wide, operations},
                     {wide, framework.broadcast_sum * operations},
                     {2 * wide, operations},
                     {wide}});
  }
  kernels.of_all(2 * b);  // rows' gradients, joined
  return kernels.list;
}

}  // namespace simrun
