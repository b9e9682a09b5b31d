#include "backend/cuda/lower.h"

#include "backend/parameter_values.h"
#include "models/philox.h"

namespace simrun::cuda {
namespace {

std::vector<std::int64_t> extents_of(const TensorPart& part) {
  std::vector<std::int64_t> extents;
  for (const DimPart& dim : part) extents.push_back(dim.extent);
  return extents;
}

// Where a part of an argument's part is in its memory.
Places part_places(const Argument& argument, const TensorPart& part) {
  std::vector<std::int64_t> strides(part.size());
  std::int64_t first = 0, stride = 1;
  for (std::size_t d = part.size(); d-- > 0;) {
    strides[d] = stride;
    first += (part[d].first - argument.part[d].first) * stride;
    stride *= argument.part[d].extent;
  }
  return joined_places(first, extents_of(part), strides);
}

Joining joining_of(Combine combine) {
  return combine == Combine::assign ? Joining::assign
         : combine == Combine::add  ? Joining::add
                                    : Joining::maximum;
}

}  // namespace

Places joined_places(std::int64_t first, const std::vector<std::int64_t>& extents,
                     const std::vector<std::int64_t>& strides) {
  Places places;
  places.first = first;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    const int last = places.dimensions - 1;
    if (extents[d] == 1) continue;
    if (last >= 0 && places.strides[last] == strides[d] * extents[d]) {
      places.extents[last] *= extents[d];
      places.strides[last] = strides[d];
    } else {
      places.extents[places.dimensions] = extents[d];
      places.strides[places.dimensions++] = strides[d];
    }
  }
  return places;
}

Places broadcast_places(const Argument& argument, const Argument& of) {
  std::vector<std::int64_t> strides;
  for (const BufferDim& dim : argument.buffer->dims) {
    std::int64_t stride = 0, next = 1;
    for (std::size_t w = of.part.size(); w-- > 0; next *= of.part[w].extent)
      if (of.buffer->dims[w].name == dim.name) stride = next;
    strides.push_back(stride);
  }
  return joined_places(0, extents_of(argument.part), strides);
}

Places whole_row_places(const KernelCall& call, const Argument& argument) {
  const std::vector<std::int64_t> whole = whole_extents(call.plan, *argument.buffer, argument.part);
  const int batch = cpu::position_of(call, argument, "batch");
  std::int64_t first = argument.part.back().first, stride = whole.back();
  std::vector<std::int64_t> extents, strides;
  for (std::size_t d = argument.part.size() - 1; d-- > 0;) {
    const DimPart& part = argument.part[d];
    const bool is_batch = static_cast<int>(d) == batch;
    first += (part.first + (is_batch ? call.microbatch * part.whole : 0)) * stride;
    extents.insert(extents.begin(), part.extent);
    strides.insert(strides.begin(), stride);
    stride *= whole[d];
  }
  return joined_places(first, extents, strides);
}

template <class Math>
RandomKey LaunchList<Math>::random(std::string_view name, std::int64_t number) const {
  return {RandomStream(call.training.seed, name, number).key(), call.step};
}

template <class Math>
CopyElement<Math> packing(const Argument& from, const TensorPart& part, void* payload, std::int64_t bytes) {
  Places in_order = joined_places(0, {elements(part)}, {1});
  return {elements(part),          from.data, payload, static_cast<int>(bytes), Joining::assign,
          part_places(from, part), in_order};
}

template <class Math>
CopyElement<Math> unpacking(const void* payload, const Argument& to, const TensorPart& part, Combine combine,
                            std::int64_t bytes) {
  Places in_order = joined_places(0, {elements(part)}, {1});
  return {elements(part),       payload, to.data, static_cast<int>(bytes), joining_of(combine), in_order,
          part_places(to, part)};
}

template <class Math>
std::vector<KernelLaunch<Math>> lower(const KernelCall& call, NumberStorage storage,
                                      const ScratchMemory& scratch) {
  LaunchList<Math> list(call, storage, scratch);
  switch (call.what.opcode) {
    case Opcode::input: lower_input(list); break;
    case Opcode::gemm: lower_gemm(list); break;
    case Opcode::attention: lower_attention(list); break;
    case Opcode::attention_backward: lower_attention_backward(list); break;
    case Opcode::norm: lower_norm(list); break;
    case Opcode::norm_backward: lower_norm_backward(list); break;
    case Opcode::map: lower_map(list); break;
    case Opcode::reduce: lower_reduce(list); break;
    case Opcode::gather: lower_gather(list); break;
    case Opcode::scatter: lower_scatter(list); break;
    case Opcode::cross_entropy: lower_cross_entropy(list); break;
    case Opcode::cross_entropy_backward: lower_cross_entropy_backward(list); break;
    case Opcode::optimizer: lower_optimizer(list); break;
    default: break;  // refused before anything runs
  }
  return list.take();
}

template class LaunchList<float>;
template class LaunchList<double>;
template std::vector<KernelLaunch<float>> lower(const KernelCall&, NumberStorage, const ScratchMemory&);
template std::vector<KernelLaunch<double>> lower(const KernelCall&, NumberStorage, const ScratchMemory&);
template CopyElement<float> packing(const Argument&, const TensorPart&, void*, std::int64_t);
template CopyElement<double> packing(const Argument&, const TensorPart&, void*, std::int64_t);
template CopyElement<float> unpacking(const void*, const Argument&, const TensorPart&, Combine, std::int64_t);
template CopyElement<double> unpacking(const void*, const Argument&, const TensorPart&, Combine,
                                       std::int64_t);

}  // namespace simrun::cuda
