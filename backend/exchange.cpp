#include "backend/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backend/message_pieces.h"

namespace simrun {
namespace {

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

void RankExchange::run(const Call& call) {
  if (own_ != nullptr) return own_->run(call);
  const Communication& communication = plan_.communications[call.what.communication];
  switch (call.what.opcode) {
    case Opcode::send: {
      if (!has_peer(communication, place_)) return;
      const RankPlace to = peer_of(plan_, communication, place_);
      announce_rows(call, to.rank);
      for (const Argument& input : call.inputs) send(call, to.rank, input, input.part);
      return;
    }
    case Opcode::recv: {
      if (!has_peer(communication, place_)) return;
      const RankPlace from = peer_of(plan_, communication, place_);
      for (const Argument& output : call.outputs)
        device_.unpack(receive(call, from, elements(output.part)).payload, output, output.part,
                       Combine::assign);
      return;
    }
    case Opcode::push: return push(call);
    case Opcode::pull: return pull(call);
    case Opcode::all_reduce:
      for (std::size_t i = 0; i < call.inputs.size(); ++i) all_reduce(call, i);
      return;
    case Opcode::broadcast:
      for (std::size_t i = 0; i < call.inputs.size(); ++i) broadcast(call, i);
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

// The first of the group sends what it has to the others, who all hold the same part.
void RankExchange::broadcast(const Call& call, std::size_t operand) {
  const std::vector<RankPlace> members =
      members_of(plan_, plan_.communications[call.what.communication].group, place_);
  const Argument &input = call.inputs[operand], &output = call.outputs[operand];
  if (members.front().rank != place_.rank)
    return device_.unpack(receive(call, members.front(), elements(output.part)).payload, output, output.part,
                          Combine::assign);
  for (const RankPlace& member : members)
    if (member.rank != place_.rank) send(call, member.rank, input, input.part);
}

namespace {

// What one member's input and another's output have in common, message by message.
struct Meeting {
  RankPlace member;
  std::vector<TensorPart> sent, arriving;
};

std::vector<TensorPart> pieces_in_common(const TensorPart& a, const TensorPart& b) {
  const std::optional<TensorPart> common = common_part(a, b);
  return common ? message_pieces(*common) : std::vector<TensorPart>{};
}

}  // namespace

// all_gather, all_to_all, reduce_scatter, in rounds of a message to and from each member: none sends a second
// before all that it waits for have come. Where an output is part of its input's memory, or the other way
// round, a rank writes where only it has read.
void RankExchange::collect(const Call& call, std::size_t operand) {
  const Communication& communication = plan_.communications[call.what.communication];
  const Argument& input = call.inputs[operand];
  const Argument& output = call.outputs[operand];
  std::vector<Meeting> meetings;
  std::size_t rounds = 0;
  for (const RankPlace& member : members_of(plan_, communication.group, place_)) {
    const auto theirs = [&](const Argument& of) {
      return part_of(plan_, *of.buffer, member, call.microbatch);
    };
    meetings.push_back(
        {member, pieces_in_common(input.part, theirs(output)), pieces_in_common(theirs(input), output.part)});
    rounds = std::max({rounds, meetings.back().sent.size(), meetings.back().arriving.size()});
  }
  const bool adds = call.what.opcode == Opcode::reduce_scatter;
  const Combine combine = communication.reduction == Reduction::max ? Combine::maximum
                          : adds                                    ? Combine::add
                                                                    : Combine::assign;
  for (std::size_t round = 0; round < rounds; ++round) {
    std::vector<std::byte> own;
    for (const Meeting& with : meetings) {
      if (round >= with.sent.size()) continue;
      if (with.member.rank == place_.rank)
        own = device_.pack(input, with.sent[round]);
      else
        send(call, with.member.rank, input, with.sent[round]);
    }
    bool first = true;
    for (const Meeting& with : meetings) {
      if (round >= with.arriving.size()) continue;
      const TensorPart& part = with.arriving[round];
      const bool is_own = with.member.rank == place_.rank;
      const std::vector<std::byte> payload =
          is_own ? std::exchange(own, {}) : receive(call, with.member, elements(part)).payload;
      device_.unpack(payload, output, part, first || !adds ? Combine::assign : combine);
      first = false;
    }
  }
}

// all_reduce, some elements of each member's after another: every member reduces one piece of them, in the
// group's order, and sends it to all.
void RankExchange::all_reduce(const Call& call, std::size_t operand) {
  const Communication& communication = plan_.communications[call.what.communication];
  const std::vector<RankPlace> members = members_of(plan_, communication.group, place_);
  const Argument input = flat(call.inputs[operand]), output = flat(call.outputs[operand]);
  const std::int64_t count = input.part.front().whole;
  const std::int64_t step = message_elements * static_cast<std::int64_t>(members.size());
  for (std::int64_t begin = 0; begin < count; begin += step)
    sum_in_pieces({call, members, input, output, {begin, std::min(step, count - begin), count}});
}

void RankExchange::sum_in_pieces(const Sum& sum) {
  const std::vector<RankPlace>& members = sum.members;
  const auto piece_of = [&](std::size_t member) {
    TensorPart part = piece(sum.range.extent, member, members.size());
    part.front().first += sum.range.first;
    part.front().whole = sum.range.whole;
    return part;
  };
  std::size_t self = 0;
  std::vector<std::byte> own;
  for (std::size_t m = 0; m < members.size(); ++m) {
    if (members[m].rank != place_.rank) {
      send(sum.call, members[m].rank, sum.input, piece_of(m));
    } else {
      self = m;
      own = device_.pack(sum.input, piece_of(m));
    }
  }
  const TensorPart mine = piece_of(self);
  const bool is_max = plan_.communications[sum.call.what.communication].reduction == Reduction::max;
  for (std::size_t m = 0; m < members.size(); ++m) {
    const std::vector<std::byte> payload =
        m == self ? std::exchange(own, {}) : receive(sum.call, members[m], mine.front().extent).payload;
    device_.unpack(payload, sum.output, mine,
                   m == 0   ? Combine::assign
                   : is_max ? Combine::maximum
                            : Combine::add);
  }
  for (const RankPlace& member : members)
    if (member.rank != place_.rank) send(sum.call, member.rank, sum.output, mine);
  for (std::size_t m = 0; m < members.size(); ++m)
    if (m != self)
      device_.unpack(receive(sum.call, members[m], piece_of(m).front().extent).payload, sum.output,
                     piece_of(m), Combine::assign);
}

}  // namespace simrun
