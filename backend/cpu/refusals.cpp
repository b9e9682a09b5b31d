#include "backend/cpu/refusals.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/packed_parts.h"
#include "backend/expert_rows.h"
#include "schedules/adafactor_parameters.h"

namespace simrun {
namespace {

std::string no_kernel(const char* key) { return fmt::format("has no CPU kernel yet: {}", key); }

// In Plan files of before.
std::string made_by_earlier(const char* what) {
  return fmt::format(
      "is of {} in a plan of an earlier simrun, which lacks what its kernels need: compile "
      "the job again",
      what);
}

bool has_dim(const Plan& plan, const Buffer& buffer, const char* name) {
  return std::any_of(buffer.dims.begin(), buffer.dims.end(),
                     [&](const BufferDim& dim) { return plan.dimension_names[dim.name] == name; });
}

// Element by element, whatever the dimensions are called.
bool same_extents(const Buffer& a, const Buffer& b) {
  return std::equal(a.dims.begin(), a.dims.end(), b.dims.begin(), b.dims.end(),
                    [](const BufferDim& x, const BufferDim& y) { return x.extent == y.extent; });
}

// A gradient that is not wanted leaves its output out: which of two alike the other is, nothing says.
std::string missing_gradient_refusal(const Plan& plan, const Instruction& what) {
  const auto elements_of = [&](const std::vector<Index>& buffers) {
    std::int64_t sum = 0;
    for (const Index buffer : buffers) sum += plan.buffers[buffer].elements();
    return sum;
  };
  const bool is_missing = what.function == Function::mla_rope_backward
                              ? what.outputs.size() < 2
                              : elements_of(what.inputs) != elements_of(what.outputs);
  return is_missing ? no_kernel("model.frozen: not some of an operator's inputs") : "";
}

// What is added has no dimension that the sum has not.
std::string add_refusal(const Plan& plan, const Instruction& what) {
  const Buffer& out = plan.buffers[what.outputs.at(0)];
  for (const Index input : what.inputs) {
    const Buffer& in = plan.buffers[input];
    if (same_extents(in, out) || cpu::PackedPart::is_part(plan, in, out)) continue;
    for (const BufferDim& dim : in.dims)
      if (std::none_of(out.dims.begin(), out.dims.end(),
                       [&](const BufferDim& of) { return of.name == dim.name; }))
        return no_kernel("model.model_type");
  }
  return "";
}

bool is_mask(const Plan& plan, const Buffer& buffer) { return has_dim(plan, buffer, "mask_places"); }

// Parts, zigzag ranks, and of masks tokens and rows: whole numbers that divide the sequence of the indices.
bool counts_rows(const Plan& plan, const Instruction& what) {
  const std::vector<double>& constants = what.constants;
  if ((constants.size() != 2 && constants.size() != 4) || what.inputs.size() < 2) return false;
  if (std::ranges::any_of(constants, [](double x) { return !(x >= 1 && x <= 1e15 && x == std::floor(x)); }))
    return false;
  const auto parts = static_cast<std::int64_t>(constants[0]),
             zigzag = static_cast<std::int64_t>(constants[1]);
  const Buffer& indices = plan.buffers[what.inputs.at(1)];
  const std::int64_t sequence = indices.dims.size() == 3 ? indices.dims[1].extent : 0;
  return parts % zigzag == 0 && (zigzag == 1 || (sequence > 0 && sequence % (2 * zigzag) == 0));
}

// How ranks divide the tokens of [batch, sequence, ..].
std::pair<std::string, std::string> token_split(const Buffer& buffer) {
  const auto at = [&](std::size_t d) { return buffer.split.size() > d ? buffer.split[d] : ""; };
  return {at(0), at(1)};
}

// Of a mask, rank by rank as its tokens lie, by which rows are told: its groups are a rank's, and tokens are
// divided alike where masks are made and wherever they are read.
std::string mask_refusal(const Plan& plan, const Instruction& what, const Buffer& mask) {
  constexpr const char* dispatcher = "moe.token_dispatcher: einsum";
  const auto whole = [&](const char* name) {
    const auto at = static_cast<std::size_t>(std::ranges::find(plan.dimension_names, name) -
                                             plan.dimension_names.begin());
    return at < plan.dimension_sizes.size() ? static_cast<double>(plan.dimension_sizes[at]) : 0;
  };
  if (what.constants.size() < 4 || mask.dims.size() != 3 || whole("experts") < 1 ||
      what.constants[3] * whole("experts") != static_cast<double>(plan.dimension_sizes[mask.dims[2].name]))
    return made_by_earlier(dispatcher);
  const double places = what.constants[3] * whole("experts");
  if (places != static_cast<double>(mask.dims[2].extent)) return no_kernel("layout: a split of mask_places");
  if (static_cast<double>(mask.dims[0].extent * mask.dims[1].extent) < what.constants[2])
    return no_kernel("layout: ranks with fewer tokens than share a mask of moe.token_dispatcher: einsum");
  const auto is_divided_otherwise = [&](const Buffer& other) {
    return other.dims.size() == 3 && other.dims[0].name == mask.dims[0].name &&
           other.dims[1].name == mask.dims[1].name && token_split(other) != token_split(mask);
  };
  const auto is_other = [&](Index operand) { return is_divided_otherwise(plan.buffers[operand]); };
  const bool differs = std::ranges::any_of(what.inputs, is_other) ||
                       std::ranges::any_of(what.outputs, is_other) ||
                       std::ranges::any_of(plan.buffers, [&](const Buffer& other) {
                         return is_mask(plan, other) && token_split(other) != token_split(mask);
                       });
  return differs
             ? no_kernel(
                   "layout: tokens that are not divided alike from moe.token_dispatcher: einsum's masks on")
             : "";
}

// What gives experts rows, and tokens their sums.
std::string routing_refusal(const Plan& plan, const Instruction& what) {
  const bool makes_masks = what.opcode == Opcode::map,
             routes = what.function == Function::dispatch || what.function == Function::combine;
  if (!makes_masks && !routes) return "";
  const Buffer* mask = nullptr;
  for (const std::vector<Index>* operands : {&what.inputs, &what.outputs})
    for (const Index operand : *operands)
      if (is_mask(plan, plan.buffers[operand])) mask = &plan.buffers[operand];
  if (mask != nullptr || makes_masks) {
    const std::string refusal = mask != nullptr ? mask_refusal(plan, what, *mask) : made_by_earlier("masks");
    if (!refusal.empty()) return refusal;
  }
  return what.constants.empty() || what.function == Function::combine || counts_rows(plan, what)
             ? ""
             : made_by_earlier("moe.capacity_factor");
}

std::string map_refusal(const Plan& plan, const Instruction& what) {
  switch (what.function) {
    case Function::dispatch_masks:
    case Function::dispatch_masks_backward: return routing_refusal(plan, what);
    case Function::add: return add_refusal(plan, what);
    case Function::rope:
    case Function::rope_backward:
    case Function::mla_rope:
    case Function::tanh:
    case Function::tanh_backward:
    case Function::add_backward:
    case Function::sum_gradients:
    case Function::gelu:
    case Function::gelu_backward:
    case Function::swiglu:
    case Function::swiglu_backward:
    case Function::geglu:
    case Function::geglu_backward:
    case Function::gated_silu:
    case Function::gated_silu_backward:
    case Function::gated_gelu:
    case Function::gated_gelu_backward:
    case Function::gated_sigmoid:
    case Function::gated_sigmoid_backward:
    case Function::relu:
    case Function::relu_backward:
    case Function::squared_relu:
    case Function::squared_relu_backward:
    case Function::soft_cap:
    case Function::soft_cap_backward:
    case Function::concatenate:
    case Function::concatenate_backward:
    case Function::select:
    case Function::select_backward:
    case Function::cast:
    case Function::sigmoid_gate:
    case Function::sigmoid_gate_backward:
    case Function::clip:
    case Function::clip_backward:
    case Function::scale_queries:
    case Function::scale_rows:
    case Function::scale_rows_backward:
    case Function::weigh_rows:
    case Function::weigh_rows_backward:
    case Function::log_loss:
    case Function::flash: return "";
    case Function::split:
      if (!what.constants.empty()) return "";
      [[fallthrough]];
    case Function::mla_rope_backward:
    case Function::concat: return missing_gradient_refusal(plan, what);
    case Function::scale:
      // A matrix that ranks gather must say which dimension they divide.
      return what.phase == Phase::optimizer && plan.buffers[what.inputs.at(0)].parent == no_index &&
                     plan.buffers[what.inputs.at(0)].dims.size() != 3
                 ? made_by_earlier("muon over tensor-parallel ranks")
                 : "";
    default: return no_kernel("model.model_type: models of text have");
  }
}

// Of one head, over values that are no heads'.
bool is_content_attention(const Plan& plan, const Instruction& what) {
  const std::size_t queries = what.opcode == Opcode::attention ? 0 : 1;
  return what.inputs.size() > queries + 2 && plan.buffers[what.inputs[queries]].dims.size() == 5 &&
         plan.buffers[what.inputs[queries + 2]].dims.size() == 3;
}

std::string attention_refusal(const Plan& plan, const Instruction& what) {
  const bool forward = what.opcode == Opcode::attention;
  const Buffer& first = plan.buffers[what.inputs.at(forward ? 0 : 1)];
  const Buffer& context = plan.buffers[forward ? what.outputs.at(0) : what.inputs.at(0)];
  if (!what.part.axes.empty()) {
    const bool is_pair = has_dim(plan, plan.buffers[what.inputs.at(forward ? 1 : 2)], "key_value");
    return forward || what.outputs.size() == (is_pair ? 2 : 3)
               ? ""
               : no_kernel("model.frozen: not some of an attention's queries, keys and values");
  }
  const bool of_two_stacks = !has_dim(plan, first, "qkv") && first.dims.size() == 5;
  if (of_two_stacks && plan.job.documents)  // which document of one sequence is which of the other?
    return no_kernel("training.documents with cross attention");
  if (is_content_attention(plan, what)) return "";
  if (context.dims.size() < 4) return no_kernel("model.model_type");
  // Which of q, k and v a gradient is of is told by their order.
  const std::size_t operands = has_dim(plan, first, "qkv") ? 1 : 3;
  if (!forward && (what.outputs.size() < operands || !std::equal(first.dims.begin(), first.dims.end(),
                                                                 plan.buffers[what.outputs[0]].dims.begin(),
                                                                 plan.buffers[what.outputs[0]].dims.end())))
    return no_kernel("model.frozen: not some of an attention's queries, keys and values");
  return "";
}

// A product of two dimensions of one name, or with a sum over a dimension that only one operand has.
std::string gemm_refusal(const Plan& plan, const Instruction& what) {
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
  return distinct && !alone(of_a, of_b) && !alone(of_b, of_a) ? "" : no_kernel("model.model_type");
}

bool same_names(const Buffer& a, const Buffer& b) {
  return std::equal(a.dims.begin(), a.dims.end(), b.dims.begin(), b.dims.end(),
                    [](const BufferDim& x, const BufferDim& y) { return x.name == y.name; });
}

// Local parts or whole copies, parts of a packed tensor, or rows of all heads.
std::string copy_refusal(const Plan& plan, const Instruction& what) {
  bool is_part = what.inputs.size() == what.outputs.size();
  for (std::size_t i = 0; is_part && i < what.inputs.size(); ++i) {
    const Buffer &from = plan.buffers[what.inputs[i]], &to = plan.buffers[what.outputs[i]];
    const bool selects = (has_dim(plan, from, "qkv_rows") && has_dim(plan, to, "qkv")) ||
                         (has_dim(plan, to, "qkv_rows") && has_dim(plan, from, "qkv"));
    is_part =
        selects || same_names(from, to) || same_extents(from, to) || cpu::PackedPart::is_part(plan, to, from);
  }
  return is_part ? "" : no_kernel("model.model_type");
}

bool is_summed_over_ranks(const Plan& plan, Index buffer) {
  return std::ranges::any_of(plan.segments, [&](const Segment& segment) {
    return std::ranges::any_of(segment.instructions, [&](const Instruction& what) {
      return what.opcode == Opcode::all_reduce && what.inputs.at(0) == buffer;
    });
  });
}

bool is_shard(const Buffer& gradients) {
  return gradients.parent != no_index || gradients.shard_of != no_index;
}

// Its update, or the sums in front of it.
std::string adafactor_refusal(const Plan& plan, const Instruction& what) {
  if (!tells_parts(what)) {
    const auto is_partial = [&](Index buffer) {
      return plan.buffers[buffer].category == Category::workspace && is_summed_over_ranks(plan, buffer);
    };
    const bool has_parts = is_shard(plan.buffers[what.inputs.at(0)]) ||
                           std::ranges::any_of(what.inputs, is_partial) ||
                           std::ranges::any_of(what.outputs, is_partial);
    return has_parts ? made_by_earlier("adafactor over ranks that have parts of matrices") : "";
  }
  const auto has_blocks = [](const FactoredParameter& of) { return of.divides_rows && of.row_copies > 1; };
  return std::ranges::any_of(factored_parameters(what), has_blocks)
             ? no_kernel("optimizer.name: adafactor of a matrix whose rows and columns both are divided")
             : "";
}

// Muon's updates of a shard must say whose they are.
std::string optimizer_refusal(const Plan& plan, const Instruction& what) {
  if (what.function == Function::adafactor) return adafactor_refusal(plan, what);
  const bool is_known = what.function != Function::muon || !is_shard(plan.buffers[what.inputs.at(0)]) ||
                        !plan.buffers[what.outputs.at(0)].split.empty() ||
                        plan.buffers[what.outputs[0]].category == Category::weights;
  return is_known ? "" : made_by_earlier("muon with optimizer.zero_stage");
}

// Muon's matrices of which only less busy ranks have a part: all ranks make them.
bool is_of_other_shards(const Plan& plan, const Instruction& what) {
  if (what.phase != Phase::optimizer || what.work_table < 0) return false;
  const ExtentTable& work = plan.extent_tables[static_cast<std::size_t>(what.work_table)];
  return work.axes.empty() && work.values == std::vector<std::int64_t>{0};
}

std::string reduce_refusal(const Plan& plan, const Instruction& what) {
  if (what.function == Function::sum_squares && !what.constants.empty()) return adafactor_refusal(plan, what);
  const bool is_known = what.function == Function::sum || what.function == Function::max ||
                        what.function == Function::sum_squares;
  return is_known ? "" : no_kernel("model.model_type");
}

}  // namespace

std::string cpu_refusal(const Plan& plan, const Instruction& what) {
  const bool is_attention = what.opcode == Opcode::attention || what.opcode == Opcode::attention_backward;
  const bool joins_blocks = what.function == Function::flash || what.function == Function::sum_gradients;
  if (what.work_table >= 0 && !is_attention && !joins_blocks && !is_of_other_shards(plan, what))
    return no_kernel("moe.load_imbalance");
  switch (what.opcode) {
    case Opcode::input:
      return what.constants.size() > 1 || what.label.ends_with("images") || what.label.ends_with("tokens") ||
                     what.label.ends_with("labels")
                 ? ""
                 : no_kernel("model.model_type: models of text have");
    case Opcode::map: return map_refusal(plan, what);
    case Opcode::attention:
    case Opcode::attention_backward: return attention_refusal(plan, what);
    case Opcode::gemm: return gemm_refusal(plan, what);
    case Opcode::copy: return copy_refusal(plan, what);
    case Opcode::optimizer: return optimizer_refusal(plan, what);
    case Opcode::reduce: return reduce_refusal(plan, what);
    case Opcode::route:
      return what.constants.empty()
                 ? no_kernel("model.moe_router_load_balancing_type: aux_loss, seq_aux_loss and none have")
                 : "";
    case Opcode::gather:
    case Opcode::scatter: return routing_refusal(plan, what);
    case Opcode::norm:
    case Opcode::norm_backward:
    case Opcode::conv:
    case Opcode::pool:
    case Opcode::pool_backward:
    case Opcode::lstm:
    case Opcode::lstm_backward:
    case Opcode::scan:
    case Opcode::scan_backward:
    case Opcode::free:
    case Opcode::route_backward:
    case Opcode::cross_entropy:
    case Opcode::cross_entropy_backward:
    case Opcode::send:
    case Opcode::recv:
    case Opcode::all_reduce:
    case Opcode::all_gather:
    case Opcode::reduce_scatter:
    case Opcode::push:
    case Opcode::pull:
    case Opcode::all_to_all:
    case Opcode::broadcast: return "";
    default: return no_kernel("model.model_type: models of text have");
  }
}

}  // namespace simrun
