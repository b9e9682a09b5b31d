#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "backend/cuda/rows/lanes.h"
#include "tests/backend/cuda/cuda_host_device.h"

namespace simrun {
namespace {

using cuda::NcclId;
using Bytes = std::vector<std::byte>;

constexpr int system_error = 2, invalid_usage = 5;
constexpr auto patience = std::chrono::seconds(20);

enum class Kind : std::uint8_t { all_reduce, all_gather, reduce_scatter, send, recv };

struct Call {
  Kind kind;
  const void* from;
  void* to;
  std::size_t count;
  int type, operation, peer;
  bool alike(const Call& other) const {
    return kind == other.kind && count == other.count && type == other.type && operation == other.operation;
  }
};

std::size_t bytes_of_type(int type) {
  switch (type) {
    case cuda::nccl_float64:
    case cuda::nccl_int64: return 8;
    case cuda::nccl_uint8: return 1;
    case cuda::nccl_bfloat16: return 2;
    default: return 4;
  }
}

// What the members of a communicator share.
struct Shared {
  struct Collective {
    std::map<int, std::pair<Call, Bytes>> members;
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::size_t, Collective> collectives;  // by number
  std::map<std::pair<int, int>, std::deque<std::pair<Call, Bytes>>> sent;
};

struct Communicator {
  std::shared_ptr<Shared> shared;
  int ranks = 0, rank = 0;
  std::size_t collectives = 0;
  bool asked = false;
};

std::shared_ptr<Shared> shared_of(const NcclId& id) {
  static std::mutex mutex;
  static std::map<std::array<char, 128>, std::shared_ptr<Shared>> known;
  std::array<char, 128> key{};
  std::memcpy(key.data(), id.bytes, sizeof id.bytes);
  const std::lock_guard lock(mutex);
  auto& shared = known[key];
  if (!shared) shared = std::make_shared<Shared>();
  return shared;
}

template <class Math>
void join(Bytes& to, const std::byte* from, bool is_bf16, bool takes_maximum) {
  const std::size_t size = is_bf16 ? 2 : sizeof(Math);
  const cuda::Reals<Math> sum{to.data(), is_bf16}, x{const_cast<std::byte*>(from), is_bf16};
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(to.size() / size); ++i)
    sum.set(i, takes_maximum ? std::max(sum[i], x[i]) : sum[i] + x[i]);
}

void join(Bytes& to, const std::byte* from, const Call& call) {
  const bool takes_maximum = call.operation == cuda::nccl_max;
  if (call.type == cuda::nccl_float64) return join<double>(to, from, false, takes_maximum);
  join<float>(to, from, call.type == cuda::nccl_bfloat16, takes_maximum);
}

// Number `first` of the members' pieces of `bytes`, joined in the order of ranks.
Bytes joined(const Shared::Collective& of, const Call& call, std::size_t first, std::size_t bytes) {
  Bytes sum;
  for (const auto& [rank, member] : of.members) {
    const std::byte* const piece = member.second.data() + first * bytes;
    if (rank == 0)
      sum.assign(piece, piece + bytes);
    else
      join(sum, piece, call);
  }
  return sum;
}

int run_collective(Communicator& communicator, const Call& call) {
  Shared& shared = *communicator.shared;
  const std::size_t bytes = call.count * bytes_of_type(call.type);
  const std::size_t sent =
      bytes * (call.kind == Kind::reduce_scatter ? static_cast<std::size_t>(communicator.ranks) : 1);
  Bytes own(sent);
  std::memcpy(own.data(), call.from, sent);
  std::unique_lock lock(shared.mutex);
  Shared::Collective& all = shared.collectives[communicator.collectives++];
  all.members[communicator.rank] = {call, std::move(own)};
  shared.changed.notify_all();
  const auto all_here = [&] { return static_cast<int>(all.members.size()) == communicator.ranks; };
  if (!shared.changed.wait_for(lock, patience, all_here)) return system_error;
  for (const auto& [rank, member] : all.members)
    if (!member.first.alike(call)) return invalid_usage;
  if (call.kind == Kind::all_gather) {
    auto* to = static_cast<std::byte*>(call.to);
    for (const auto& [rank, member] : all.members)
      std::memcpy(to + static_cast<std::size_t>(rank) * bytes, member.second.data(), bytes);
    return cuda::nccl_success;
  }
  const std::size_t piece =
      call.kind == Kind::reduce_scatter ? static_cast<std::size_t>(communicator.rank) : 0;
  std::memcpy(call.to, joined(all, call, piece, bytes).data(), bytes);
  return cuda::nccl_success;
}

int run_send(Communicator& communicator, const Call& call) {
  const auto* from = static_cast<const std::byte*>(call.from);
  const std::lock_guard lock(communicator.shared->mutex);
  communicator.shared->sent[{communicator.rank, call.peer}].push_back(
      {call, Bytes(from, from + call.count * bytes_of_type(call.type))});
  communicator.shared->changed.notify_all();
  return cuda::nccl_success;
}

int run_recv(Communicator& communicator, const Call& call) {
  Shared& shared = *communicator.shared;
  std::unique_lock lock(shared.mutex);
  auto& queue = shared.sent[{call.peer, communicator.rank}];
  if (!shared.changed.wait_for(lock, patience, [&] { return !queue.empty(); })) return system_error;
  const auto [sent, bytes] = std::move(queue.front());
  queue.pop_front();
  if (sent.count != call.count || sent.type != call.type) return invalid_usage;
  if (!bytes.empty()) std::memcpy(call.to, bytes.data(), bytes.size());
  return cuda::nccl_success;
}

int run_call(Communicator& communicator, const Call& call) {
  switch (call.kind) {
    case Kind::send: return run_send(communicator, call);
    case Kind::recv: return run_recv(communicator, call);
    default: return run_collective(communicator, call);
  }
}

// Calls of this thread's open group: sends go first.
struct OpenGroup {
  bool is_open = false;
  std::vector<std::pair<Communicator*, Call>> calls;
};
OpenGroup& open_group() {
  static thread_local OpenGroup group;
  return group;
}

int submit(void* communicator, const Call& call) {
  OpenGroup& group = open_group();
  if (!group.is_open) return run_call(*static_cast<Communicator*>(communicator), call);
  group.calls.emplace_back(static_cast<Communicator*>(communicator), call);
  return cuda::nccl_success;
}

int group_start() {
  open_group() = {true, {}};
  return cuda::nccl_success;
}
int group_end() {
  OpenGroup group = std::exchange(open_group(), {});
  std::stable_partition(group.calls.begin(), group.calls.end(),
                        [](const auto& call) { return call.second.kind == Kind::send; });
  for (const auto& [communicator, call] : group.calls)
    if (const int result = run_call(*communicator, call); result != cuda::nccl_success) return result;
  return cuda::nccl_success;
}

int get_unique_id(NcclId* id) {
  static std::mutex mutex;
  static std::int64_t number = 0;
  const std::lock_guard lock(mutex);
  *id = {};
  ++number;
  std::memcpy(id->bytes, &number, sizeof number);
  return cuda::nccl_success;
}
int init_rank(void** communicator, int ranks, NcclId id, int rank, const char*) {
  *communicator = new Communicator{shared_of(id), ranks, rank};
  return cuda::nccl_in_progress;
}
int get_async_error(void* communicator, int* state) {
  auto& of = *static_cast<Communicator*>(communicator);
  *state = of.asked ? cuda::nccl_success : cuda::nccl_in_progress;
  of.asked = true;
  return cuda::nccl_success;
}
int destroy(void* communicator) {
  delete static_cast<Communicator*>(communicator);
  return cuda::nccl_success;
}
int get_version(int* version) {
  *version = 22809;
  return cuda::nccl_success;
}
const char* error_text(int result) {
  return result == invalid_usage ? "invalid usage" : "unhandled system error";
}
const char* last_error(void*) { return "members call unlike collectives"; }

int all_reduce(const void* from, void* to, std::size_t count, int type, int operation, void* communicator,
               void*) {
  return submit(communicator, {Kind::all_reduce, from, to, count, type, operation, -1});
}
int all_gather(const void* from, void* to, std::size_t count, int type, void* communicator, void*) {
  return submit(communicator, {Kind::all_gather, from, to, count, type, 0, -1});
}
int reduce_scatter(const void* from, void* to, std::size_t count, int type, int operation, void* communicator,
                   void*) {
  return submit(communicator, {Kind::reduce_scatter, from, to, count, type, operation, -1});
}
int send(const void* from, std::size_t count, int type, int peer, void* communicator, void*) {
  return submit(communicator, {Kind::send, from, nullptr, count, type, 0, peer});
}
int recv(void* to, std::size_t count, int type, int peer, void* communicator, void*) {
  return submit(communicator, {Kind::recv, nullptr, to, count, type, 0, peer});
}

}  // namespace

const cuda::NcclTable& threads_nccl() {
  static const cuda::NcclTable table{get_version,     get_unique_id, init_rank,      destroy,     destroy,
                                     get_async_error, error_text,    last_error,     group_start, group_end,
                                     all_reduce,      all_gather,    reduce_scatter, send,        recv};
  return table;
}

}  // namespace simrun
