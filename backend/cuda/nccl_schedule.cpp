#include "backend/cuda/nccl_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>
#include <tuple>

#include "backend/exchange.h"

namespace simrun::cuda {
namespace {

using Use = NcclCommunicator::Use;

bool is_transfer(const Instruction& what) {
  return what.opcode == Opcode::send || what.opcode == Opcode::recv;
}

bool runs_in_step(Steps steps, std::int64_t step) {
  return steps == Steps::every || (step == 0) == (steps == Steps::first_only);
}

NcclCommunicator communicator_of(const std::vector<RankPlace>& members, Use use) {
  NcclCommunicator communicator{use, {}};
  for (const RankPlace& member : members) communicator.ranks.push_back(member.rank);
  return communicator;
}

int number_in(const NcclCommunicator& communicator, std::int64_t rank) {
  const auto at = std::find(communicator.ranks.begin(), communicator.ranks.end(), rank);
  return static_cast<int>(at - communicator.ranks.begin());
}

// ---- SEND and RECV ----

NcclCommunicator communicator_of_transfer(const Plan& plan, const Instruction& what, const RankPlace& place) {
  const Communication& communication = plan.communications[what.communication];
  const RankPlace peer = peer_of(plan, communication, place);
  if (communication.peer.pipeline_rank >= 0)
    return what.opcode == Opcode::send ? NcclCommunicator{Use::edge, {place.rank, peer.rank}}
                                       : NcclCommunicator{Use::edge, {peer.rank, place.rank}};
  Group ring = communication.group;
  ring.axes = communication.peer.axes;
  ring.pipeline_ranks = {};
  return communicator_of(members_of(plan, ring, place), Use::ring);
}

std::vector<NcclMove> transfers(const Plan& plan, const Instruction& what, const RankPlace& place,
                                std::int32_t microbatch) {
  const RankPlace peer = peer_of(plan, plan.communications[what.communication], place);
  const bool sends = what.opcode == Opcode::send;
  const std::vector<Index>& operands = sends ? what.inputs : what.outputs;
  std::vector<NcclMove> moves;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Buffer& buffer = plan.buffers[operands[i]];
    NcclMove move;
    move.communicator = communicator_of_transfer(plan, what, place);
    move.self = number_in(move.communicator, place.rank);
    move.dtype = buffer.dtype;
    move.operand = i;
    (sends ? move.sends : move.receives)
        .push_back({number_in(move.communicator, peer.rank), part_of(plan, buffer, place, microbatch)});
    moves.push_back(std::move(move));
  }
  return moves;
}

// ---- collectives ----

// One operand of a collective: what each member has of the input and wants of the output.
class Operand {
 public:
  Operand(const Plan& plan, const Instruction& what, std::size_t i, const std::vector<RankPlace>& members,
          std::int32_t microbatch) {
    for (const RankPlace& member : members) {
      inputs_.push_back(part_of(plan, plan.buffers[what.inputs[i]], member, microbatch));
      outputs_.push_back(part_of(plan, plan.buffers[what.outputs[i]], member, microbatch));
    }
  }
  std::optional<TensorPart> piece(std::size_t from, std::size_t to) const {
    return common_part(inputs_[from], outputs_[to]);
  }
  // Every member wants all that any has, and all have as much.
  bool is_all_gather() const {
    return all_pairs([&](std::size_t from, std::size_t to) {
      return piece(from, to) == inputs_[from] && elements(inputs_[from]) == elements(inputs_[0]);
    });
  }
  // Every member has all that any wants, and all want as much.
  bool is_reduce_scatter() const {
    return all_pairs([&](std::size_t from, std::size_t to) {
      return piece(from, to) == outputs_[to] && elements(outputs_[to]) == elements(outputs_[0]);
    });
  }
  std::int64_t input_count() const { return elements(inputs_[0]); }
  std::int64_t output_count() const { return elements(outputs_[0]); }

 private:
  template <class Holds>
  bool all_pairs(Holds holds) const {
    for (std::size_t from = 0; from < inputs_.size(); ++from)
      for (std::size_t to = 0; to < outputs_.size(); ++to)
        if (!holds(from, to)) return false;
    return true;
  }
  std::vector<TensorPart> inputs_, outputs_;
};

// How an operand of a collective goes, other than an all_reduce.
void describe(NcclMove& move, const Operand& operand, Opcode opcode) {
  const auto self = static_cast<std::size_t>(move.self);
  const std::size_t members = move.communicator.ranks.size();
  for (std::size_t member = 0; member < members; ++member) {
    if (auto part = operand.piece(self, member)) move.sends.push_back({static_cast<int>(member), *part});
    if (auto part = operand.piece(member, self)) move.receives.push_back({static_cast<int>(member), *part});
  }
  move.adds = opcode == Opcode::reduce_scatter;
  if (opcode == Opcode::all_gather && operand.is_all_gather())
    move.whole = {{NcclKind::all_gather, move.dtype, operand.input_count(), -1, Reduction::sum}};
  if (opcode == Opcode::reduce_scatter && operand.is_reduce_scatter())
    move.whole = {{NcclKind::reduce_scatter, move.dtype, operand.output_count(), -1, move.reduction}};
}

std::vector<NcclMove> collectives(const Plan& plan, const Instruction& what, const RankPlace& place,
                                  std::int32_t microbatch) {
  const Communication& communication = plan.communications[what.communication];
  const std::vector<RankPlace> members = members_of(plan, communication.group, place);
  std::vector<NcclMove> moves;
  for (std::size_t i = 0; i < what.inputs.size(); ++i) {
    const Buffer& buffer = plan.buffers[what.inputs[i]];
    NcclMove move;
    move.communicator = communicator_of(members, Use::collectives);
    move.self = number_in(move.communicator, place.rank);
    move.dtype = buffer.dtype;
    move.operand = i;
    move.reduction = communication.reduction;
    if (what.opcode == Opcode::all_reduce)
      move.whole = {{NcclKind::all_reduce, buffer.dtype, elements(part_of(plan, buffer, place, microbatch)),
                     -1, communication.reduction}};
    else
      describe(move, Operand(plan, what, i, members, microbatch), what.opcode);
    moves.push_back(std::move(move));
  }
  return moves;
}

}  // namespace

std::vector<NcclCall> NcclMove::calls() const {
  if (!whole.empty()) return whole;
  std::vector<NcclCall> calls;
  for (const Piece& piece : sends)
    if (piece.member != self)
      calls.push_back({NcclKind::send, dtype, elements(piece.part), piece.member, Reduction::sum});
  for (const Piece& piece : receives)
    if (piece.member != self)
      calls.push_back({NcclKind::recv, dtype, elements(piece.part), piece.member, Reduction::sum});
  return calls;
}

bool waits_for_receive(const Plan& plan, const Instruction& what) {
  return what.opcode == Opcode::send && plan.communications[what.communication].peer.pipeline_rank < 0;
}

std::vector<NcclMove> nccl_moves(const Plan& plan, const Instruction& what, const RankPlace& place,
                                 std::int32_t microbatch) {
  if (is_transfer(what)) return transfers(plan, what, place, microbatch);
  switch (what.opcode) {
    case Opcode::all_reduce:
    case Opcode::all_gather:
    case Opcode::reduce_scatter:
    case Opcode::all_to_all: return collectives(plan, what, place, microbatch);
    default: throw std::invalid_argument(fmt::format("NCCL does no {}: parallelism", to_string(what.opcode)));
  }
}

std::vector<NcclCommunicator> nccl_communicators(const Plan& plan) {
  std::vector<NcclCommunicator> communicators;
  std::set<NcclCommunicator> known;
  std::set<std::tuple<Index, bool, std::int32_t>> seen;  // communication, whether it is a SEND, pipeline rank
  const std::vector<RankPlace> places = ranks_of(plan);
  for (const Program& program : plan.programs)
    for (const Entry& entry : program.entries)
      for (const Instruction& what : plan.segments[entry.segment].instructions) {
        if (!is_communication(what.opcode) || has_servers(what.opcode)) continue;
        if (!seen.insert({what.communication, what.opcode == Opcode::send, program.pipeline_rank}).second)
          continue;
        const Group& group = plan.communications[what.communication].group;
        for (const RankPlace& place : places) {
          if (place.pipeline_rank != program.pipeline_rank) continue;
          NcclCommunicator of = is_transfer(what)
                                    ? communicator_of_transfer(plan, what, place)
                                    : communicator_of(members_of(plan, group, place), Use::collectives);
          if (known.insert(of).second) communicators.push_back(std::move(of));
        }
      }
  return communicators;
}

std::vector<NcclGroupOfCalls> nccl_calls(const Plan& plan, const RankPlace& place, std::int64_t step) {
  const Program& program = plan.programs[static_cast<std::size_t>(place.pipeline_rank)];
  std::vector<NcclGroupOfCalls> result;
  std::vector<NcclGroupOfCalls> held;  // SENDs along rings
  for (Index e = 0; e < program.entries.size(); ++e) {
    const Entry& entry = program.entries[e];
    if (!runs_in_step(entry.steps, step)) continue;
    const std::vector<Instruction>& instructions = plan.segments[entry.segment].instructions;
    for (Index i = 0; i < instructions.size(); ++i) {
      const Instruction& what = instructions[i];
      if (!is_communication(what.opcode)) continue;
      const std::int32_t microbatch = what.binding < entry.binding_count
                                          ? program.bindings[entry.first_binding + what.binding].microbatch
                                          : 0;
      NcclGroupOfCalls group{{}, {}, e, i, tag_of(plan, what, microbatch)};
      for (const NcclMove& move : nccl_moves(plan, what, place, microbatch)) {
        group.communicator = move.communicator;
        for (const NcclCall& call : move.calls()) group.calls.push_back(call);
      }
      if (waits_for_receive(plan, what)) {
        held.push_back(std::move(group));
        continue;
      }
      const auto sent = std::find_if(held.begin(), held.end(), [&](const NcclGroupOfCalls& of) {
        return what.opcode == Opcode::recv && of.communicator == group.communicator;
      });
      if (sent != held.end()) {
        group.calls.insert(group.calls.begin(), sent->calls.begin(), sent->calls.end());
        held.erase(sent);
      }
      if (!group.calls.empty()) result.push_back(std::move(group));
    }
  }
  if (!held.empty()) throw std::invalid_argument("a SEND along a ring has no RECV behind it");
  return result;
}

}  // namespace simrun::cuda
