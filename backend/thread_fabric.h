#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backend/rank_waits.h"
#include "backend/run_failure.h"
#include "backend/transport.h"

namespace simrun {

// Ranks as threads of one process: a mailbox per rank, messages that change hands without being copied.
//
// Nobody waits for what cannot come. A wait ends when the message is there, when a rank has failed, when
// every rank that still runs waits (a deadlock, noticed at once and told with who waits for whom), or at the
// limit.
//
// The ranks may be a part of a run over several processes (backend/processes/group.h): then the others' state
// is not known here, and whoever knows it notices deadlocks.
class ThreadFabric {
 public:
  ThreadFabric(std::int64_t ranks, std::chrono::milliseconds limit);

  // Ranks [first, first + count) of a run. `send_away` takes messages to the others and must not wait; it may
  // be called by several threads at once.
  struct Part {
    std::int64_t first = 0, count = 0;
    std::function<void(std::int64_t from, std::int64_t to, const MessageTag& tag, Message message)> send_away;
  };
  ThreadFabric(Part part, std::chrono::milliseconds limit);

  // Runs `body(rank, transport)` on a thread per rank and returns when all have ended. An exception ends all
  // ranks; the first one's text comes back, prefixed with its rank ("rank 3: ..."); empty: all went well. So
  // does a thread that cannot be started.
  std::string run(const std::function<void(std::int64_t, Transport&)>& body);

  // For whoever carries messages between processes. A message from a rank elsewhere:
  void deliver(std::int64_t from, std::int64_t to, const MessageTag& tag, Message message);
  // Ends all ranks, as a failure of one would; the first failure counts.
  void stop(const RunFailure& failure);
  struct State {
    RunFailure failure;
    bool idle = false;                     // every rank waits or has ended
    std::int64_t sent = 0, delivered = 0;  // messages to and from ranks elsewhere
    RankWaits ranks;
  };
  State state() const;

 private:
  friend class ThreadRank;
  struct Waiting {
    std::int64_t from = 0;
    MessageTag tag;
    std::string what;
  };
  struct Mailbox {
    std::map<std::pair<std::int64_t, MessageTag>, std::deque<Message>> messages;
    std::unique_ptr<Waiting> waiting;  // of its rank; taken away by whoever sends what it waits for
    std::condition_variable arrived;
    bool ended = false;
  };

  void send(std::int64_t from, std::int64_t to, const MessageTag& tag, Message message);
  Message receive(std::int64_t rank, Waiting waiting);
  void run_rank(std::int64_t rank, const std::function<void(std::int64_t, Transport&)>& body);
  void end(std::int64_t rank, RunFailure failure);
  bool is_here(std::int64_t rank) const;
  Mailbox& mailbox_of(std::int64_t rank);
  struct Envelope {
    std::int64_t from = 0, to = 0;
    MessageTag tag;
  };
  // These need mutex_, which put() releases.
  void put(std::unique_lock<std::mutex> lock, const Envelope& of, Message message);
  void fail(RunFailure failure);
  void fail_if_stuck();
  bool is_idle() const;
  RankWaits ranks() const;

  const Part part_;
  mutable std::mutex mutex_;
  std::vector<Mailbox> mailboxes_;  // by rank, the part's first first
  std::int64_t sent_ = 0, delivered_ = 0;
  const std::chrono::milliseconds limit_;
  RunFailure failure_;
};

}  // namespace simrun
