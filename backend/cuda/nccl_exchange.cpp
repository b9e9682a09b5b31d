#include "backend/cuda/nccl_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>

namespace simrun::cuda {
namespace {

// Of the messages that carry communicators' ids: no channel of a plan.
constexpr std::uint32_t id_channel = 0x40000000;

int operation_of(Reduction reduction) { return reduction == Reduction::max ? nccl_max : nccl_sum; }

}  // namespace

NcclExchange::NcclExchange(const Rank& rank, const NcclTable& table, NcclDevice device)
    : plan_(rank.plan), place_(rank.place), table_(table), device_(std::move(device)) {
  const std::vector<NcclCommunicator> all = nccl_communicators(plan_);
  try {
    for (std::size_t i = 0; i < all.size(); ++i)
      if (std::find(all[i].ranks.begin(), all[i].ranks.end(), place_.rank) != all[i].ranks.end())
        make(all[i], static_cast<std::int64_t>(i), rank.transport);
  } catch (...) {
    for (const auto& [of, communicator] : communicators_) table_.abort(communicator);
    throw;
  }
}

NcclExchange::~NcclExchange() {
  const bool fails = std::uncaught_exceptions() > exceptions_;
  const bool aborts = !device_.first_pending(fails ? std::chrono::milliseconds(0) : device_.limit).empty();
  for (const auto& [of, communicator] : communicators_)
    aborts ? table_.abort(communicator) : table_.destroy(communicator);
}

std::string NcclExchange::ranks_text(const NcclCommunicator& communicator) const {
  return fmt::format(
      "rank{} {}", communicator.ranks.size() == 1 ? "" : "s",
      fmt::join(communicator.ranks, communicator.use == NcclCommunicator::Use::edge ? " to " : ", "));
}

// The first of its ranks draws the id. All ranks make their communicators in one order, so that none waits
// for another in a circle.
void NcclExchange::make(const NcclCommunicator& communicator, std::int64_t number, Transport& transport) {
  const std::string of = "a communicator of " + ranks_text(communicator);
  const MessageTag tag{id_channel, number};
  NcclId id{};
  if (communicator.ranks.front() == place_.rank) {
    check(table_.get_unique_id(&id), nullptr, of);
    std::vector<std::byte> bytes(sizeof id);
    std::memcpy(bytes.data(), &id, sizeof id);
    for (const std::int64_t member : communicator.ranks)
      if (member != place_.rank) transport.send(member, tag, {1, bytes});
  } else {
    const Message message = transport.receive(communicator.ranks.front(), tag, of);
    if (message.payload.size() != sizeof id) throw TransportError("an id of NCCL has another length: " + of);
    std::memcpy(&id, message.payload.data(), sizeof id);
  }
  const auto self = std::find(communicator.ranks.begin(), communicator.ranks.end(), place_.rank);
  const std::string name = fmt::format("simrun {}", number);
  void* made = nullptr;
  const int result = table_.init_rank(&made, static_cast<int>(communicator.ranks.size()), id,
                                      static_cast<int>(self - communicator.ranks.begin()), name.c_str());
  if (made != nullptr) communicators_[communicator] = made;
  check(result, made, of);
}

void NcclExchange::check(int result, void* communicator, const std::string& of) const {
  const auto end = std::chrono::steady_clock::now() + device_.limit;
  while (result == nccl_in_progress && communicator != nullptr) {
    if (const int asked = table_.get_async_error(communicator, &result); asked != nccl_success)
      result = asked;
    if (result != nccl_in_progress) break;
    if (std::chrono::steady_clock::now() > end)
      throw TransportError(fmt::format("after {} s, rank {} waits for NCCL in {}",
                                       std::chrono::duration<double>(device_.limit).count(), place_.rank,
                                       of));
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  if (result == nccl_success) return;
  const char* const details = table_.last_error(communicator);
  throw std::runtime_error(fmt::format("NCCL: {} ({}){}{} in {}", table_.error_text(result), result,
                                       details == nullptr || *details == '\0' ? "" : ": ",
                                       details == nullptr ? "" : details, of));
}

void* NcclExchange::stage(Group& group, Dtype dtype, std::int64_t count) {
  group.staging.push_back(device_.allocate(std::max<std::int64_t>(count, 1) * device_.element_bytes(dtype)));
  return group.staging.back();
}

void NcclExchange::run(const ExchangeCall& call) {
  Group group;
  for (const NcclMove& move : nccl_moves(plan_, call.what, place_, call.microbatch)) {
    group.communicator = move.communicator;
    bind(call, move, group);
  }
  if (waits_for_receive(plan_, call.what)) {
    held_.push_back(std::move(group));
    return;
  }
  const auto sent = std::find_if(held_.begin(), held_.end(), [&](const Group& held) {
    return call.what.opcode == Opcode::recv && held.communicator == group.communicator;
  });
  if (sent != held_.end()) {
    group.calls.insert(group.calls.begin(), sent->calls.begin(), sent->calls.end());
    group.staging.insert(group.staging.end(), sent->staging.begin(), sent->staging.end());
    held_.erase(sent);
  }
  issue(group, call.of);
  finish(group);
}

void NcclExchange::bind(const ExchangeCall& call, const NcclMove& move, Group& group) {
  if (call.what.opcode == Opcode::send || call.what.opcode == Opcode::recv)
    return bind_transfer(call, move, group);
  move.whole.empty() ? bind_pieces(call, move, group) : bind_whole(call, move, group);
}

// Whole operands, as they lie. What is held back is copied: its memory may be gone by then.
void NcclExchange::bind_transfer(const ExchangeCall& call, const NcclMove& move, Group& group) {
  const NcclCall nccl = move.calls().front();
  if (nccl.kind == NcclKind::recv) {
    group.calls.push_back({nccl, nullptr, call.outputs[move.operand].data});
    return;
  }
  const Argument& input = call.inputs[move.operand];
  const void* from = input.data;
  if (waits_for_receive(plan_, call.what)) {
    void* const copy = stage(group, move.dtype, nccl.count);
    device_.pack(input, input.part, copy);
    from = copy;
  }
  group.calls.push_back({nccl, from, nullptr});
}

// A collective of NCCL's own: members' pieces one behind the other.
void NcclExchange::bind_whole(const ExchangeCall& call, const NcclMove& move, Group& group) {
  const Argument &input = call.inputs[move.operand], &output = call.outputs[move.operand];
  const NcclCall nccl = move.whole.front();
  const std::int64_t bytes = nccl.count * device_.element_bytes(move.dtype);
  const auto members = static_cast<std::int64_t>(move.communicator.ranks.size());
  switch (nccl.kind) {
    case NcclKind::all_gather: {
      auto* const to = static_cast<std::byte*>(stage(group, move.dtype, nccl.count * members));
      group.calls.push_back({nccl, input.data, to});
      for (const NcclMove::Piece& piece : move.receives)
        group.arriving.push_back({to + piece.member * bytes, &output, piece.part, Combine::assign});
      return;
    }
    case NcclKind::reduce_scatter: {
      auto* const from = static_cast<std::byte*>(stage(group, move.dtype, nccl.count * members));
      for (const NcclMove::Piece& piece : move.sends)
        device_.pack(input, piece.part, from + piece.member * bytes);
      group.calls.push_back({nccl, from, output.data});
      return;
    }
    default: group.calls.push_back({nccl, input.data, output.data});
  }
}

// Sums add in the communicator's order, as messages do.
void NcclExchange::bind_pieces(const ExchangeCall& call, const NcclMove& move, Group& group) {
  const Argument &input = call.inputs[move.operand], &output = call.outputs[move.operand];
  const Combine joins = move.reduction == Reduction::max ? Combine::maximum : Combine::add;
  std::map<int, void*> own;
  for (const NcclMove::Piece& piece : move.sends) {
    const std::int64_t count = elements(piece.part);
    void* const from = stage(group, move.dtype, count);
    device_.pack(input, piece.part, from);
    if (piece.member == move.self)
      own[piece.member] = from;
    else
      group.calls.push_back(
          {{NcclKind::send, move.dtype, count, piece.member, Reduction::sum}, from, nullptr});
  }
  bool first = true;
  for (const NcclMove::Piece& piece : move.receives) {
    const std::int64_t count = elements(piece.part);
    void* const to = piece.member == move.self ? own.at(piece.member) : stage(group, move.dtype, count);
    if (piece.member != move.self)
      group.calls.push_back({{NcclKind::recv, move.dtype, count, piece.member, Reduction::sum}, nullptr, to});
    group.arriving.push_back({to, &output, piece.part, first || !move.adds ? Combine::assign : joins});
    first = false;
  }
}

int NcclExchange::call_table(const Bound& bound, void* communicator) const {
  const NcclCall& call = bound.call;
  const auto count = static_cast<std::size_t>(call.count);
  const int type = device_.type_of(call.dtype), operation = operation_of(call.reduction);
  switch (call.kind) {
    case NcclKind::all_reduce:
      return table_.all_reduce(bound.from, bound.to, count, type, operation, communicator, device_.stream);
    case NcclKind::all_gather:
      return table_.all_gather(bound.from, bound.to, count, type, communicator, device_.stream);
    case NcclKind::reduce_scatter:
      return table_.reduce_scatter(bound.from, bound.to, count, type, operation, communicator,
                                   device_.stream);
    case NcclKind::send: return table_.send(bound.from, count, type, call.peer, communicator, device_.stream);
    case NcclKind::recv: return table_.recv(bound.to, count, type, call.peer, communicator, device_.stream);
  }
  return nccl_success;
}

void NcclExchange::issue(const Group& group, const std::string& of) {
  if (group.calls.empty()) return;
  const std::string named = fmt::format("{} with {}", of, ranks_text(group.communicator));
  void* const communicator = communicators_.at(group.communicator);
  check(table_.group_start(), nullptr, named);
  for (const Bound& bound : group.calls) {
    const int result = call_table(bound, communicator);
    if (result != nccl_in_progress) check(result, communicator, named);
  }
  check(table_.group_end(), communicator, named);
  device_.mark(named);
}

void NcclExchange::finish(const Group& group) {
  for (const Arriving& arriving : group.arriving)
    device_.unpack(arriving.memory, *arriving.to, arriving.part, arriving.combine);
  for (void* const memory : group.staging) device_.free(memory);
}

}  // namespace simrun::cuda
