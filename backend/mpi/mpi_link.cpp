#include "backend/mpi/mpi_link.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "backend/transport.h"

namespace simrun {
namespace {

constexpr int head_tag = 1, payload_tag = 2;
constexpr std::int64_t piece_bytes = std::int64_t{1} << 30;

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw TransportError(std::string(call) + ": " + std::string(text.data(), static_cast<std::size_t>(length)));
}

// Calls `transfer(begin, count)` for every piece of a payload.
template <class Transfer>
void in_pieces(std::vector<std::byte>& payload, Transfer transfer) {
  const auto bytes = static_cast<std::int64_t>(payload.size());
  for (std::int64_t begin = 0; begin < bytes; begin += piece_bytes)
    transfer(payload.data() + begin, static_cast<int>(std::min(piece_bytes, bytes - begin)));
}

bool complete(std::vector<MPI_Request>& requests) {
  int done = 0;
  check(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE),
        "MPI_Testall");
  return done != 0;
}

}  // namespace

MpiLink::MpiLink() {
  int level = 0;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread");
  if (level < MPI_THREAD_SERIALIZED)
    throw TransportError("this MPI cannot be called by more than one thread (MPI_THREAD_SERIALIZED)");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  check(MPI_Comm_dup(MPI_COMM_WORLD, &world_), "MPI_Comm_dup");
  MPI_Comm_set_errhandler(world_, MPI_ERRORS_RETURN);
  int processes = 0;
  check(MPI_Comm_rank(world_, &process_), "MPI_Comm_rank");
  check(MPI_Comm_size(world_, &processes), "MPI_Comm_size");
  incoming_.resize(static_cast<std::size_t>(processes));
  for (int from = 0; from < processes; ++from)
    if (from != process_) expect_head(from);
}

// A run that failed does not leave: MPI_Finalize would wait for processes that are no more.
MpiLink::~MpiLink() = default;

// The requests live on in a frame and are tested by poll() and forget_sent().
// NOLINTBEGIN(clang-analyzer-optin.mpi.MPI-Checker)
void MpiLink::send(int to, Frame frame) {
  forget_sent();
  Outgoing& outgoing = outgoing_.emplace_back(Outgoing{std::move(frame), {}});
  outgoing.frame.head.bytes = static_cast<std::int64_t>(outgoing.frame.payload.size());
  check(MPI_Isend(&outgoing.frame.head, sizeof(Frame::Head), MPI_BYTE, to, head_tag, world_,
                  &outgoing.requests.emplace_back()),
        "MPI_Isend");
  in_pieces(outgoing.frame.payload, [&](std::byte* begin, int count) {
    check(MPI_Isend(begin, count, MPI_BYTE, to, payload_tag, world_, &outgoing.requests.emplace_back()),
          "MPI_Isend");
  });
}

void MpiLink::expect_head(int from) {
  Incoming& incoming = incoming_[static_cast<std::size_t>(from)];
  check(MPI_Irecv(&incoming.head, sizeof(Frame::Head), MPI_BYTE, from, head_tag, world_, &incoming.next_head),
        "MPI_Irecv");
}

// The head has come.
void MpiLink::start_payload(int from) {
  Incoming& incoming = incoming_[static_cast<std::size_t>(from)];
  Outgoing& frame = incoming.frames.emplace_back();
  frame.frame.head = incoming.head;
  frame.frame.payload.resize(static_cast<std::size_t>(incoming.head.bytes));
  in_pieces(frame.frame.payload, [&](std::byte* begin, int count) {
    check(MPI_Irecv(begin, count, MPI_BYTE, from, payload_tag, world_, &frame.requests.emplace_back()),
          "MPI_Irecv");
  });
}

// NOLINTEND(clang-analyzer-optin.mpi.MPI-Checker)

std::optional<ProcessLink::Arrived> MpiLink::poll() {
  for (std::size_t turn = 0; turn < incoming_.size(); ++turn) {
    const std::size_t from = (next_ + turn) % incoming_.size();
    Incoming& incoming = incoming_[from];
    if (incoming.next_head != MPI_REQUEST_NULL) {
      int arrived = 0;
      check(MPI_Test(&incoming.next_head, &arrived, MPI_STATUS_IGNORE), "MPI_Test");
      if (arrived != 0) {
        start_payload(static_cast<int>(from));
        expect_head(static_cast<int>(from));
      }
    }
    if (incoming.frames.empty() || !complete(incoming.frames.front().requests)) continue;
    Arrived result{static_cast<int>(from), std::move(incoming.frames.front().frame)};
    incoming.frames.pop_front();
    next_ = from + 1;
    return result;
  }
  return {};
}

void MpiLink::forget_sent() {
  for (auto at = outgoing_.begin(); at != outgoing_.end();)
    at = complete(at->requests) ? outgoing_.erase(at) : std::next(at);
}

bool MpiLink::sent_all() {
  forget_sent();
  return outgoing_.empty();
}

void MpiLink::leave() {
  check(MPI_Barrier(world_), "MPI_Barrier");
  for (Incoming& incoming : incoming_)
    if (incoming.next_head != MPI_REQUEST_NULL) {
      MPI_Cancel(&incoming.next_head);
      MPI_Request_free(&incoming.next_head);
    }
  check(MPI_Finalize(), "MPI_Finalize");
}

}  // namespace simrun
