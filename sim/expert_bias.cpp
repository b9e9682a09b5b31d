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

// Rows are counted per GPU or node on their way where DeepEP exchanges them.
bool is_exchanged_by_deepep(const Plan& plan) {
  return std::any_of(plan.dimension_names.begin(), plan.dimension_names.end(),
                     [](const std::string& name) { return name == "gpu_rows" || name == "node_rows"; });
}

// A kernel per expert and entry for `of_each` bytes per element, one of all rows for `of_all`.
struct Kernels {
  const Buffer& rows;
  std::vector<RowKernel> list;

  void of_each(std::initializer_list<double> bytes) {
    const auto experts = static_cast<std::size_t>(rows.dims.front().extent);
    const double elements = static_cast<double>(rows.elements()) / static_cast<double>(experts);
    for (const double each : bytes) list.insert(list.end(), experts, RowKernel{each * elements});
  }
  void of_all(double bytes) { list.push_back({bytes * static_cast<double>(rows.elements())}); }
};

}  // namespace

std::vector<RowKernel> expert_bias_kernels(const Plan& plan, const Instruction& product) {
  const Buffer& rows = plan.buffers[product.outputs.at(0)];
  if (product.inputs.size() < 3 || !is_of_experts(plan, rows) || !is_added_behind(plan, rows)) return {};
  const auto b = static_cast<double>(bytes_of(rows.dtype));
  Kernels kernels{rows, {}};
  if (!is_second_product(plan, rows)) {
    kernels.of_each({2 * b});  // sum
    kernels.of_all(2 * b);     // joined
    return kernels.list;
  }
  const double wide = is_exchanged_by_deepep(plan) ? std::max(b, 4.0) : b;
  kernels.of_each({wide, b + 2 * wide});  // bias x probability, sum
  kernels.of_all(2 * wide);               // joined
  if (wide > b) kernels.of_all(wide + b);
  return kernels.list;
}

std::vector<RowKernel> expert_bias_gradient_kernels(const Plan& plan, const Instruction& sum) {
  if (sum.opcode != Opcode::reduce || sum.function != Function::sum || sum.inputs.empty()) return {};
  const Buffer& rows = plan.buffers[sum.inputs[0]];
  if (!is_of_experts(plan, rows) || !is_added_behind(plan, rows)) return {};
  const auto b = static_cast<double>(bytes_of(rows.dtype));
  Kernels kernels{rows, {}};
  if (!is_second_product(plan, rows)) {
    kernels.of_each({b});   // summed over rows
    kernels.of_all(2 * b);  // rows' gradients, joined
    return kernels.list;
  }
  const double wide = is_exchanged_by_deepep(plan) ? std::max(b, 4.0) : b;
  if (wide > b) {
    kernels.of_all(b + wide);
    kernels.of_each({wide + b});  // the rows' part, narrowed again
  }
  // Gradient x probability, summed over rows; gradient x bias, summed over each row.
  kernels.of_each({2 * wide, wide, 2 * wide, wide});
  kernels.of_all(2 * b);
  return kernels.list;
}

}  // namespace simrun
