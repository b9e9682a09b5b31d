#include "backend/parameter_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace simrun {
namespace {

std::string name_of(const ModelParameter& parameter) {
  return parameter.layer < 0 ? parameter.name : fmt::format("layer {} {}", parameter.layer, parameter.name);
}

}  // namespace

ParameterValues::ParameterValues(const Plan& plan) {
  std::map<Index, const ModelParameter*> by_id;
  for (const ModelParameter& parameter : plan.parameters) by_id[parameter.id] = &parameter;
  for (const Buffer& buffer : plan.buffers) {
    const auto at = by_id.find(buffer.parameter);
    if (at == by_id.end() || tensors_.count(buffer.parameter) > 0) continue;
    Tensor tensor;
    tensor.name = name_of(*at->second);
    for (const BufferDim& dim : buffer.dims) tensor.extents.push_back(plan.dimension_sizes[dim.name]);
    tensors_.emplace(buffer.parameter, std::move(tensor));
  }
}

std::int64_t whole_index(const TensorPart& part, const std::vector<std::int64_t>& extents,
                         std::int64_t local_index) {
  std::int64_t index = 0, stride = 1;
  for (std::size_t d = part.size(); d-- > 0;) {
    const std::int64_t at = part[d].first + local_index % part[d].extent;
    local_index /= part[d].extent;
    if (at >= extents[d]) return -1;
    index += at * stride;
    stride *= extents[d];
  }
  return index;
}

std::vector<std::int64_t> whole_extents(const Plan& plan, const Buffer& buffer, const TensorPart& part) {
  std::vector<std::int64_t> extents;
  for (std::size_t d = 0; d < part.size(); ++d) {
    const std::size_t name = buffer.dims[d].name;
    extents.push_back(name < plan.dimension_sizes.size() ? std::min(plan.dimension_sizes[name], part[d].whole)
                                                         : part[d].whole);
  }
  return extents;
}

void ParameterValues::record(const Buffer& view, const TensorPart& part, std::int64_t first,
                             const std::vector<double>& values) {
  if (values.empty()) return;
  Tensor& tensor = tensors_.at(view.parameter);
  const auto count = static_cast<std::size_t>(
      std::accumulate(tensor.extents.begin(), tensor.extents.end(), std::int64_t{1}, std::multiplies<>()));
  tensor.values.resize(count);
  tensor.known.resize(count);
  double largest = 0, difference = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int64_t at = whole_index(part, tensor.extents, first + static_cast<std::int64_t>(i));
    if (at < 0) continue;
    const auto place = static_cast<std::size_t>(at);
    largest = std::max(largest, std::abs(values[i]));
    if (tensor.known[place]) {
      const double apart = std::abs(values[i] - tensor.values[place]);
      difference = std::isnan(apart) ? apart : std::max(difference, apart);
    }
    tensor.values[place] = values[i];
    tensor.known[place] = true;
  }
  if (std::isnan(difference) || difference > largest * replica_difference_)
    replica_difference_ = largest > 0 ? difference / largest : difference;
}

InitialValues::InitialValues(const ModelParameter& parameter, std::uint64_t seed)
    : stream_(seed, parameter.name, parameter.layer) {
  if (parameter.name.find("norm") != std::string::npos && parameter.name.ends_with("weight")) mean_ = 1;
}

double InitialValues::operator()(std::int64_t whole_index) const {
  return mean_ + 0.02 * stream_.normal(whole_index);
}

namespace {

using NumberedName =
    std::pair<std::string, int>;  // the how many-th of this name, in order of the forward pass

// A layout may give its graph tensors of its own, and so other ids to parameters; their names stay.
std::map<NumberedName, const ParameterValues::Tensor*> by_name(const ParameterValues& values) {
  std::map<NumberedName, const ParameterValues::Tensor*> tensors;
  std::map<std::string, int> seen;
  for (const auto& [id, tensor] : values.tensors()) tensors[{tensor.name, seen[tensor.name]++}] = &tensor;
  return tensors;
}

std::vector<NumberedName> names_of(const ParameterValues& values) {
  std::vector<NumberedName> names;
  std::map<std::string, int> seen;
  for (const auto& [id, tensor] : values.tensors()) names.emplace_back(tensor.name, seen[tensor.name]++);
  return names;
}

}  // namespace

ValueDifference compare(const ParameterValues& values, const ParameterValues& reference, double tolerance) {
  double squares = 0, count = 0;
  for (const auto& [id, tensor] : reference.tensors()) {
    for (const double value : tensor.values) squares += value * value;
    count += static_cast<double>(tensor.values.size());
  }
  const double rms = count > 0 ? std::sqrt(squares / count) : 0;
  ValueDifference result;
  const auto ours = by_name(values), theirs = by_name(reference);
  const std::vector<NumberedName> names = names_of(reference);
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    const ParameterValues::Tensor& b = *theirs.at(*name);
    const auto found = ours.find(*name);
    if (found == ours.end() || found->second->values.size() != b.values.size()) {
      result.missing += static_cast<std::int64_t>(b.values.size());
      continue;
    }
    const ParameterValues::Tensor& a = *found->second;
    double apart = 0, size = 0;
    for (std::size_t i = 0; i < b.values.size(); ++i) {
      if (!a.known[i] || !b.known[i]) ++result.missing;
      apart += (a.values[i] - b.values[i]) * (a.values[i] - b.values[i]);
      size += b.values[i] * b.values[i];
    }
    const double floor = 1e-3 * rms * std::sqrt(static_cast<double>(b.values.size()));
    const double error = std::sqrt(apart) / std::max({std::sqrt(size), floor, 1e-300});
    if (!(error <= tolerance) && result.first.empty()) result.first = b.name;
    if (!(error <= result.error)) {
      result.error = error;
      result.worst = b.name;
      if (std::isnan(error)) return result;
    }
  }
  return result;
}

}  // namespace simrun
