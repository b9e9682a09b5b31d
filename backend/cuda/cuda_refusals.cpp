#include "backend/cuda/cuda_refusals.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "backend/cuda/nccl_table.h"

namespace simrun::cuda {
namespace {

constexpr std::int64_t longest_head = 1024;  // elements that fit into a block's fast memory

std::string no_kernel(const std::string& key) { return fmt::format("has no CUDA kernel yet: {}", key); }

bool has_dim(const Plan& plan, const Buffer& buffer, const char* name) {
  return std::any_of(buffer.dims.begin(), buffer.dims.end(),
                     [&](const BufferDim& dim) { return plan.dimension_names[dim.name] == name; });
}

bool is_number(Dtype dtype) {
  return dtype != Dtype::int64 && dtype != Dtype::int32 && dtype != Dtype::uint8;
}

// Types that a kernel cannot read or write.
std::string type_refusal(const Plan& plan, const Instruction& what, NumberStorage storage) {
  const auto refuse = [&](Index index) -> std::string {
    const Buffer& buffer = plan.buffers[index];
    if (buffer.dtype == Dtype::fp4)
      return no_kernel(buffer.scale_block == nf4_block ? "training.lora.base_dtype: nf4"
                                                       : "training.precision: nvfp4");
    if (buffer.dtype == Dtype::fp8) return no_kernel("training.precision: fp8");
    if (buffer.space != MemorySpace::device) return no_kernel("offload");
    if (!storage.by_dtype || !is_number(buffer.dtype)) return "";
    if (buffer.dtype == Dtype::bf16 || buffer.dtype == Dtype::fp32 || buffer.dtype == Dtype::tf32) return "";
    return no_kernel(fmt::format("training.precision: {} beside bf16 and fp32", to_string(buffer.dtype)));
  };
  for (const std::vector<Index>* operands : {&what.inputs, &what.outputs})
    for (const Index index : *operands) {
      if (plan.buffers[index].dims.size() > most_dimensions) return no_kernel("model.model_type");
      std::string why = refuse(index);
      if (!why.empty()) return why;
    }
  return "";
}

std::string add_refusal(const Plan& plan, const Instruction& what) {
  const Buffer& out = plan.buffers[what.outputs.at(0)];
  for (const Index input : what.inputs)
    for (const BufferDim& dim : plan.buffers[input].dims)
      if (std::none_of(out.dims.begin(), out.dims.end(),
                       [&](const BufferDim& of) { return of.name == dim.name; }))
        return no_kernel("training.lora");
  return what.inputs.size() <= most_operands ? "" : no_kernel("model.model_type: sums of so many");
}

std::string map_refusal(const Plan& plan, const Instruction& what) {
  switch (what.function) {
    case Function::add: return add_refusal(plan, what);
    case Function::rope:
    case Function::rope_backward:
      return has_dim(plan, plan.buffers[what.outputs.at(0)], "qkv") && what.inputs.size() == 1 &&
                     what.constants.size() == 2
                 ? ""
                 : no_kernel("model.kv_lora_rank or model.rope_scaling");
    case Function::gated_silu_backward:
    case Function::gated_gelu_backward:
      return what.constants.empty() ? "" : no_kernel("model.frozen: not one of a gate's two products");
    case Function::add_backward:
    case Function::sum_gradients:
    case Function::gelu:
    case Function::gelu_backward:
    case Function::swiglu:
    case Function::swiglu_backward:
    case Function::geglu:
    case Function::geglu_backward:
    case Function::gated_silu:
    case Function::gated_gelu:
    case Function::relu:
    case Function::relu_backward:
    case Function::squared_relu:
    case Function::squared_relu_backward:
    case Function::soft_cap:
    case Function::soft_cap_backward:
    case Function::scale:
    case Function::cast:
    case Function::log_loss: return "";
    default: return no_kernel("model.model_type: gpt and llama have");
  }
}

std::string attention_refusal(const Plan& plan, const Instruction& what) {
  const bool forward = what.opcode == Opcode::attention;
  if (what.function != Function::flash && what.function != Function::unfused)
    return no_kernel("training.attention");
  const Buffer& packed = plan.buffers[what.inputs.at(forward ? 0 : 1)];
  if (!has_dim(plan, packed, "qkv") || (what.outputs.size() > 1 && !forward))
    return no_kernel("model.model_type: gpt and llama have");
  if (plan.job.documents) return no_kernel("training.documents");
  if (forward && what.inputs.size() > 1) return no_kernel("model.attention_sinks or position biases");
  if (what.causal.chunked) return no_kernel("model.attention_chunk_size");
  if (what.alibi) return no_kernel("model.model_type: ALiBi's biases");
  const std::size_t constants = what.soft_cap ? 2 : 1;
  if (what.constants.size() < constants) return no_kernel("model.model_type");
  return packed.dims.back().extent <= longest_head ? "" : no_kernel("model.head_dim above 1024");
}

// A product of two dimensions of one name, or with a sum over a dimension that only one operand has.
std::string gemm_refusal(const Plan& plan, const Instruction& what, NumberStorage storage) {
  if (!what.constants.empty()) return no_kernel("model.model_type: gnmt, or optimizer.name: muon");
  std::set<std::uint16_t> of_a, of_b, of_d;
  const auto collect = [&](Index buffer, std::set<std::uint16_t>& names) {
    for (const BufferDim& dim : plan.buffers[buffer].dims)
      if (!names.insert(dim.name).second) return false;
    return true;
  };
  const bool distinct = collect(what.inputs.at(0), of_a) && collect(what.inputs.at(1), of_b) &&
                        collect(what.outputs.at(0), of_d);
  const auto alone = [&](const std::set<std::uint16_t>& names, const std::set<std::uint16_t>& other) {
    return std::any_of(names.begin(), names.end(),
                       [&](std::uint16_t name) { return other.count(name) == 0 && of_d.count(name) == 0; });
  };
  if (!distinct || alone(of_a, of_b) || alone(of_b, of_a) || what.inputs.size() > 3 ||
      what.outputs.size() > 1)
    return no_kernel("model.model_type or model.num_experts");
  const bool mixes = plan.buffers[what.inputs[0]].dtype != plan.buffers[what.inputs[1]].dtype;
  return storage.by_dtype && mixes ? no_kernel("training.precision: products of unlike types") : "";
}

std::string copy_refusal(const Plan& plan, const Instruction& what) {
  const auto name = [](const BufferDim& x, const BufferDim& y) { return x.name == y.name; };
  if (what.inputs.size() == 1 && what.outputs.size() == 1) {
    const Buffer &in = plan.buffers[what.inputs[0]], &out = plan.buffers[what.outputs[0]];
    if (in.dtype == out.dtype &&
        std::equal(in.dims.begin(), in.dims.end(), out.dims.begin(), out.dims.end(), name))
      return "";
  }
  return no_kernel(
      "parallelism.tensor_model_parallel_size, or cp_comm_type: a2a, beyond the key-value heads");
}

std::string optimizer_refusal(const Plan& plan, const Instruction& what) {
  if (what.function != Function::adam && what.function != Function::sgd)
    return no_kernel("optimizer.name: adam, adamw and sgd have");
  for (const Index output : what.outputs)
    if (!is_number(plan.buffers[output].dtype)) return no_kernel("optimizer.exp_avg_dtype");
  return "";
}

// Tokens of one text and their labels.
std::string input_refusal(const Plan& plan, const Instruction& what) {
  const bool is_text = what.label == "tokens" || what.label == "labels";
  const Buffer& out = plan.buffers[what.outputs.at(0)];
  return is_text && what.constants.size() < 2 && has_dim(plan, out, "sequence") && out.dims.size() == 2
             ? ""
             : no_kernel("model.model_type: gpt and llama have");
}

// Sums of what is no number.
std::string reduction_refusal(const Plan& plan, const Instruction& what) {
  for (const Index input : what.inputs)
    if (!is_number(plan.buffers[input].dtype)) return no_kernel("model.num_experts");
  return "";
}

std::string norm_refusal(const Plan& plan, const Instruction& what) {
  const bool forward = what.opcode == Opcode::norm;
  if (what.inputs.size() <= (forward ? 1 : 3)) return no_kernel("model.model_type: norms without weights");
  if (what.function == Function::qk_norm && plan.buffers[what.inputs[forward ? 1 : 2]].dims.size() > 2)
    return no_kernel("model.model_type: norms of queries and keys over all heads");
  return what.function == Function::layer_norm || what.function == Function::rms_norm ||
                 what.function == Function::qk_norm
             ? ""
             : no_kernel("model.model_type");
}

std::string refusal_by_opcode(const Plan& plan, const Instruction& what, NumberStorage storage) {
  switch (what.opcode) {
    case Opcode::free:
    case Opcode::send:
    case Opcode::recv:
    case Opcode::all_gather:
    case Opcode::all_to_all:
    case Opcode::cross_entropy:
    case Opcode::cross_entropy_backward: return "";
    case Opcode::all_reduce:
    case Opcode::reduce_scatter: return reduction_refusal(plan, what);
    case Opcode::input: return input_refusal(plan, what);
    case Opcode::map: return map_refusal(plan, what);
    case Opcode::attention:
    case Opcode::attention_backward: return attention_refusal(plan, what);
    case Opcode::gemm: return gemm_refusal(plan, what, storage);
    case Opcode::copy: return copy_refusal(plan, what);
    case Opcode::optimizer: return optimizer_refusal(plan, what);
    case Opcode::norm:
    case Opcode::norm_backward: return norm_refusal(plan, what);
    case Opcode::gather:
    case Opcode::scatter: return what.function == Function::none ? "" : no_kernel("model.num_experts");
    case Opcode::reduce:
      return what.function == Function::sum || what.function == Function::max ||
                     what.function == Function::sum_squares
                 ? ""
                 : no_kernel("model.model_type");
    default: return no_kernel("model.model_type: gpt and llama have");
  }
}

}  // namespace

std::string cuda_refusal(const Plan& plan, const Instruction& what, NumberStorage storage) {
  if (plan.job.frozen_parameters > 0) return no_kernel("training.lora or model.frozen");
  if (!what.part.axes.empty()) return no_kernel("parallelism.context_parallel_size");
  if (what.work_table >= 0) return no_kernel("training.documents or moe");
  std::string why = type_refusal(plan, what, storage);
  return why.empty() ? refusal_by_opcode(plan, what, storage) : why;
}

std::int64_t stored_bytes(Dtype dtype, std::size_t real, NumberStorage storage) {
  if (!is_number(dtype) || storage.by_dtype) return bytes_of(dtype);
  return static_cast<std::int64_t>(real);
}

int nccl_type(Dtype dtype, std::size_t real, NumberStorage storage) {
  if (dtype == Dtype::int64) return nccl_int64;
  if (dtype == Dtype::int32) return nccl_int32;
  if (dtype == Dtype::uint8) return nccl_uint8;
  if (storage.by_dtype && dtype == Dtype::bf16) return nccl_bfloat16;
  return real == sizeof(double) ? nccl_float64 : nccl_float32;
}

}  // namespace simrun::cuda
