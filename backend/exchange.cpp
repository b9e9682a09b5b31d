#include "backend/exchange.h"

#include <fmt/format.h>

#include <utility>

namespace simrun {
namespace {

constexpr std::uint32_t without_channel = 0x80000000;

Argument flat(const Argument& argument) {
  const std::int64_t count = elements(argument.part);
  return {argument.buffer, {{0, count, count}}, argument.data};
}

// Members of a group divide a flat operand in pieces that are as equal as can be.
TensorPart piece(std::int64_t count, std::size_t member, std::size_t members) {
  const auto at = [&](std::size_t i) {
    return count * static_cast<std::int64_t>(i) / static_cast<std::int64_t>(members);
  };
  return {{at(member), at(member + 1) - at(member), count}};
}

}  // namespace

MessageTag tag_of(const Plan& plan, const Instruction& what, std::int32_t microbatch) {
  const Index channel = plan.communications[what.communication].channel;
  if (channel != no_index) return {channel, microbatch};
  // Within a mesh SENDs and RECVs meet in the order of issue, whatever their communications.
  const bool p2p = what.opcode == Opcode::send || what.opcode == Opcode::recv;
  return {without_channel | (p2p ? 0x7fffffffu : what.communication), 0};
}

void RankExchange::run(const Call& call) {
  if (own_ != nullptr) return own_->run(call);
  const Communication& communication = plan_.communications[call.what.communication];
  switch (call.what.opcode) {
    case Opcode::send: {
      const RankPlace to = peer_of(plan_, communication, place_);
      for (const Argument& input : call.inputs) send(call, to.rank, input, input.part);
      return;
    }
    case Opcode::recv: {
      const RankPlace from = peer_of(plan_, communication, place_);
      for (const Argument& output : call.outputs)
        device_.unpack(receive(call, from, elements(output.part)).payload, output, output.part,
                       Combine::assign);
      return;
    }
    case Opcode::push: return push(call);
    case Opcode::pull: return pull(call);
    case Opcode::all_reduce:
      for (std::size_t i = 0; i < call.inputs.size(); ++i) sum_in_pieces(call, i);
      return;
    default:
      for (std::size_t i = 0; i < call.inputs.size(); ++i)
        call.inputs[i].rows != nullptr ? collect_rows(call, i) : collect(call, i);
  }
}

void RankExchange::send(const Call& call, std::int64_t to, const Argument& from, const TensorPart& part) {
  transport_.send(to, tag_of(plan_, call.what, call.microbatch), {elements(part), device_.pack(from, part)});
}

Message RankExchange::receive(const Call& call, const RankPlace& from, std::int64_t count) {
  Message message = transport_.receive(from.rank, tag_of(plan_, call.what, call.microbatch), call.of);
  if (message.elements != count)
    throw ExecutionError(
        fmt::format("expects {} elements from rank {}, which sent {}", count, from.rank, message.elements));
  return message;
}

// all_gather, all_to_all, reduce_scatter: what one member's input and another's output have in common.
void RankExchange::collect(const Call& call, std::size_t operand) {
  const Communication& communication = plan_.communications[call.what.communication];
  const std::vector<RankPlace> members = members_of(plan_, communication.group, place_);
  const Argument& input = call.inputs[operand];
  const Argument& output = call.outputs[operand];
  const auto part = [&](const Argument& of, const RankPlace& member) {
    return part_of(plan_, *of.buffer, member, call.microbatch);
  };
  // The output may be a part of the input's memory, or the other way round: all is packed before any is
  // written.
  std::vector<std::byte> own;
  for (const RankPlace& member : members) {
    const std::optional<TensorPart> wanted = common_part(input.part, part(output, member));
    if (!wanted) continue;
    if (member.rank == place_.rank)
      own = device_.pack(input, *wanted);
    else
      send(call, member.rank, input, *wanted);
  }
  const bool adds = call.what.opcode == Opcode::reduce_scatter;
  const Combine combine = communication.reduction == Reduction::max ? Combine::maximum
                          : adds                                    ? Combine::add
                                                                    : Combine::assign;
  bool first = true;
  for (const RankPlace& member : members) {
    const std::optional<TensorPart> arriving = common_part(part(input, member), output.part);
    if (!arriving) continue;
    const bool is_own = member.rank == place_.rank;
    const std::vector<std::byte> payload =
        is_own ? std::exchange(own, {}) : receive(call, member, elements(*arriving)).payload;
    device_.unpack(payload, output, *arriving, first || !adds ? Combine::assign : combine);
    first = false;
  }
}

// all_reduce: every member reduces one piece, in the group's order, and sends it to all.
void RankExchange::sum_in_pieces(const Call& call, std::size_t operand) {
  const Communication& communication = plan_.communications[call.what.communication];
  const std::vector<RankPlace> members = members_of(plan_, communication.group, place_);
  const Argument input = flat(call.inputs[operand]), output = flat(call.outputs[operand]);
  const std::int64_t count = input.part.front().whole;
  const auto piece_of = [&](std::size_t member) { return piece(count, member, members.size()); };
  std::size_t self = 0;
  std::vector<std::byte> own;
  for (std::size_t m = 0; m < members.size(); ++m) {
    if (members[m].rank != place_.rank) {
      send(call, members[m].rank, input, piece_of(m));
    } else {
      self = m;
      own = device_.pack(input, piece_of(m));
    }
  }
  const TensorPart mine = piece_of(self);
  const Combine combine = communication.reduction == Reduction::max ? Combine::maximum : Combine::add;
  for (std::size_t m = 0; m < members.size(); ++m) {
    const std::vector<std::byte> payload =
        m == self ? std::exchange(own, {}) : receive(call, members[m], mine.front().extent).payload;
    device_.unpack(payload, output, mine, m == 0 ? Combine::assign : combine);
  }
  for (const RankPlace& member : members)
    if (member.rank != place_.rank) send(call, member.rank, output, mine);
  for (std::size_t m = 0; m < members.size(); ++m)
    if (m != self)
      device_.unpack(receive(call, members[m], piece_of(m).front().extent).payload, output, piece_of(m),
                     Combine::assign);
}

}  // namespace simrun
