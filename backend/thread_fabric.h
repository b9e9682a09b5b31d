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

#include "backend/transport.h"

namespace simrun {

// Ranks as threads of one process: a mailbox per rank, messages that change hands without being copied.
//
// Nobody waits for what cannot come. A wait ends when the message is there, when a rank has failed, when
// every rank that still runs waits (a deadlock, noticed at once and told with who waits for whom), or at the
// limit.
class ThreadFabric {
 public:
  ThreadFabric(std::int64_t ranks, std::chrono::milliseconds limit);

  // Runs `body(rank, transport)` on a thread per rank and returns when all have ended. An exception ends all
  // ranks; the first one's text comes back, prefixed with its rank ("rank 3: ..."); empty: all went well.
  std::string run(const std::function<void(std::int64_t, Transport&)>& body);

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
  void end(std::int64_t rank, const std::string& failure);
  // These need mutex_.
  void fail(std::string failure);
  void fail_if_stuck();
  std::string who_waits() const;

  std::mutex mutex_;
  std::vector<Mailbox> mailboxes_;
  const std::chrono::milliseconds limit_;
  std::string failure_;
};

}  // namespace simrun
