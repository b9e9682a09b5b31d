#include "backend/cpu/packed_parts.h"

#include "backend/cpu/kernels.h"

namespace simrun::cpu {
namespace {

constexpr std::size_t from_end = 2;  // the dimension of slots: [.., slots, width]

}  // namespace

bool PackedPart::is_part(const Plan& plan, const Buffer& part, const Buffer& packed) {
  if (part.dims.size() != packed.dims.size() || part.dims.size() < from_end) return false;
  const std::size_t slots = part.dims.size() - from_end;
  if (plan.dimension_names[packed.dims[slots].name] != "qkv") return false;
  for (std::size_t d = 0; d < part.dims.size(); ++d)
    if (d != slots && part.dims[d].name != packed.dims[d].name) return false;
  return part.dims[slots].name != packed.dims[slots].name;
}

PackedPart::PackedPart(const Argument& part, const Argument& packed)
    : width_(packed.part.back().extent), slots_(packed.part[packed.part.size() - from_end].extent) {
  const bool is_query = part.buffer->name.starts_with("q"), is_key = part.buffer->name.starts_with("k");
  count_ = is_query ? slots_ - 2 : 1;
  first_ = is_query ? 0 : is_key ? slots_ - 2 : slots_ - 1;
}

template <class Real>
void run_copy_of_part(const KernelCall& call) {
  const Argument &packed = call.inputs[0], &part = call.outputs[0];
  const PackedPart place(part, packed);
  const std::int64_t count = elements(packed.part);
  for (std::int64_t i = 0; i < count; ++i)
    if (const std::int64_t at = place(i); at >= 0) reals<Real>(part)[at] = reals<Real>(packed)[i];
}

template void run_copy_of_part<float>(const KernelCall&);
template void run_copy_of_part<double>(const KernelCall&);

}  // namespace simrun::cpu
