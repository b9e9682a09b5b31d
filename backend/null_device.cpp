#include "backend/null_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "backend/rank_memory.h"

namespace simrun {
namespace {

// Whose operands meet index by index along every dimension that they share.
bool aligns(const Instruction& what) {
  switch (what.opcode) {
    case Opcode::gemm:
    case Opcode::norm:
    case Opcode::norm_backward:
    case Opcode::reduce:
    case Opcode::cross_entropy:
    case Opcode::cross_entropy_backward: return what.function != Function::sum_squares;
    case Opcode::map:
      switch (what.function) {
        case Function::add:
        case Function::add_backward:
        case Function::sum_gradients:
        case Function::gelu:
        case Function::gelu_backward:
        case Function::swiglu:
        case Function::swiglu_backward:
        case Function::gated_silu:
        case Function::gated_silu_backward:
        case Function::gated_gelu:
        case Function::gated_gelu_backward:
        case Function::gated_sigmoid:
        case Function::gated_sigmoid_backward:
        case Function::log_loss: return true;
        default: return false;
      }
    default: return false;
  }
}

void require_aligned(const KernelCall& call) {
  std::map<std::uint16_t, const DimPart*> known;
  const auto check = [&](const Argument& argument) {
    for (std::size_t d = 0; d < argument.part.size(); ++d) {
      const BufferDim& dim = argument.buffer->dims[d];
      if (dim.table >= 0) continue;
      const auto [at, is_new] = known.emplace(dim.name, &argument.part[d]);
      if (is_new || *at->second == argument.part[d]) continue;
      throw ExecutionError(fmt::format(
          "meets '{}' [{}, {}) of {} in one operand and [{}, {}) of {} in '{}'",
          call.plan.dimension_names[dim.name], at->second->first, at->second->first + at->second->extent,
          at->second->whole, argument.part[d].first, argument.part[d].first + argument.part[d].extent,
          argument.part[d].whole, argument.buffer->name));
    }
  };
  for (const Argument& input : call.inputs) check(input);
  for (const Argument& output : call.outputs) check(output);
}

}  // namespace

std::string NullDevice::refusal(const Plan&, const Instruction&) const { return ""; }

void* NullDevice::allocate(std::int64_t bytes, bool) {
  bytes_ += bytes;
  peak_ = std::max(peak_, bytes_);
  return nullptr;
}

void NullDevice::release(void*, std::int64_t bytes) { bytes_ -= bytes; }

void NullDevice::run(const KernelCall& call) {
  if (aligns(call.what)) require_aligned(call);
}

std::vector<std::byte> NullDevice::pack(const Argument& from, const TensorPart& part) {
  if (!is_within(part, from.part))
    throw ExecutionError(fmt::format("takes more of '{}' than the rank has", from.buffer->name));
  return {};
}

void NullDevice::unpack(const std::vector<std::byte>&, const Argument& to, const TensorPart& part, Combine) {
  pack(to, part);
}

std::vector<double> NullDevice::values(const Argument&, const TensorPart&) { return {}; }

void NullDevice::set_values(const std::vector<double>&, const Argument&, const TensorPart&) {}

}  // namespace simrun
