#include "backend/cpu/kernels.h"

#include "backend/parameter_values.h"

namespace simrun::cpu {
namespace {

std::vector<std::uint16_t> names_of(const Argument& argument) {
  std::vector<std::uint16_t> names;
  for (const BufferDim& dim : argument.buffer->dims) names.push_back(dim.name);
  return names;
}

}  // namespace

BroadcastIndex::BroadcastIndex(const Argument& argument, const Argument& of) {
  const std::vector<std::uint16_t> names = names_of(argument), wanted = names_of(of);
  size_ = elements(of.part);
  rest_ = std::max<std::int64_t>(elements(argument.part) / std::max<std::int64_t>(size_, 1), 1);
  is_suffix_ = wanted.size() <= names.size() && std::equal(wanted.rbegin(), wanted.rend(), names.rbegin());
  is_prefix_ =
      !is_suffix_ && wanted.size() <= names.size() && std::equal(wanted.begin(), wanted.end(), names.begin());
  for (std::size_t d = 0; d < names.size(); ++d) {
    extents_.push_back(argument.part[d].extent);
    std::int64_t stride = 0;
    for (std::size_t w = wanted.size(), next = 1; w-- > 0;) {
      if (wanted[w] == names[d]) stride = static_cast<std::int64_t>(next);
      next *= static_cast<std::size_t>(of.part[w].extent);
    }
    strides_.push_back(stride);
  }
}

WholeRows::WholeRows(const KernelCall& call, const Argument& argument)
    : part_(argument.part),
      extents_(whole_extents(call.plan, *argument.buffer, argument.part)),
      of_expert_(argument.of_expert) {
  if (of_expert_ != nullptr) {
    std::int64_t tokens = 1;
    for (std::size_t d = 0; d < call.plan.dimension_names.size(); ++d)
      if (call.plan.dimension_names[d] == "batch" || call.plan.dimension_names[d] == "sequence")
        tokens *= call.plan.dimension_sizes.at(d);
    first_token_ = call.microbatch * tokens;
  }
  const int batch = position_of(call, argument, "batch");
  if (batch < 0) return;
  DimPart& part = part_[static_cast<std::size_t>(batch)];
  part.first += call.microbatch * part.whole;
  // The step's samples, however many: no bound of the first dimension is asked for.
  extents_[static_cast<std::size_t>(batch)] = INT64_MAX;
}

std::int64_t WholeRows::begin(std::int64_t row) const {
  if (of_expert_ != nullptr) {
    const ExpertRow& of = of_expert_[row];
    const std::int64_t token = of.token == no_token ? 0 : first_token_ + of.token;
    return (token * part_[0].whole + of.expert) * extents_.back() + part_.back().first;
  }
  std::int64_t local = row, index = part_.back().first, stride = extents_.back();
  for (std::size_t d = part_.size() - 1; d-- > 0;) {
    index += part_[d].at(local % part_[d].extent) * stride;
    local /= part_[d].extent;
    if (d > 0) stride *= extents_[d];
  }
  return index;
}

}  // namespace simrun::cpu
