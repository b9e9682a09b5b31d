#include "backend/thread_fabric.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

namespace simrun {

class ThreadRank final : public Transport {
 public:
  ThreadRank(ThreadFabric& fabric, std::int64_t rank) : fabric_(fabric), rank_(rank) {}
  void send(std::int64_t to, const MessageTag& tag, Message message) override {
    fabric_.send(rank_, to, tag, std::move(message));
  }
  Message receive(std::int64_t from, const MessageTag& tag, const std::string& waiting_for) override {
    return fabric_.receive(rank_, {from, tag, waiting_for});
  }

 private:
  ThreadFabric& fabric_;
  const std::int64_t rank_;
};

namespace {

// Told to ranks that end because of another; the first failure is the one to report.
class OtherRankFailed : public TransportError {
 public:
  using TransportError::TransportError;
};

}  // namespace

ThreadFabric::ThreadFabric(std::int64_t ranks, std::chrono::milliseconds limit)
    : mailboxes_(static_cast<std::size_t>(ranks)), limit_(limit) {}

std::string ThreadFabric::run(const std::function<void(std::int64_t, Transport&)>& body) {
  std::vector<std::thread> threads;
  for (std::int64_t rank = 0; rank < static_cast<std::int64_t>(mailboxes_.size()); ++rank)
    threads.emplace_back([this, rank, &body] {
      ThreadRank transport(*this, rank);
      std::string failure;
      try {
        body(rank, transport);
      } catch (const OtherRankFailed&) {  // which said why
      } catch (const std::exception& error) {
        failure = fmt::format("rank {}: {}", rank, error.what());
      }
      end(rank, failure);
    });
  for (std::thread& thread : threads) thread.join();
  return failure_;
}

void ThreadFabric::send(std::int64_t from, std::int64_t to, const MessageTag& tag, Message message) {
  const std::lock_guard lock(mutex_);
  Mailbox& mailbox = mailboxes_[static_cast<std::size_t>(to)];
  mailbox.messages[{from, tag}].push_back(std::move(message));
  if (!mailbox.waiting || mailbox.waiting->from != from || mailbox.waiting->tag != tag) return;
  mailbox.waiting.reset();
  mailbox.arrived.notify_one();
}

Message ThreadFabric::receive(std::int64_t rank, Waiting waiting) {
  std::unique_lock lock(mutex_);
  Mailbox& mailbox = mailboxes_[static_cast<std::size_t>(rank)];
  const std::pair<std::int64_t, MessageTag> key{waiting.from, waiting.tag};
  if (mailbox.messages.find(key) == mailbox.messages.end()) {
    mailbox.waiting = std::make_unique<Waiting>(std::move(waiting));
    fail_if_stuck();
    const bool in_time = mailbox.arrived.wait_for(
        lock, limit_, [&] { return mailbox.waiting == nullptr || !failure_.empty(); });
    if (!in_time)
      fail(fmt::format("after {} s, {}", std::chrono::duration<double>(limit_).count(), who_waits()));
  }
  if (!failure_.empty()) throw OtherRankFailed(failure_);
  const auto at = mailbox.messages.find(key);
  Message message = std::move(at->second.front());
  at->second.pop_front();
  if (at->second.empty()) mailbox.messages.erase(at);
  return message;
}

void ThreadFabric::end(std::int64_t rank, const std::string& failure) {
  const std::lock_guard lock(mutex_);
  mailboxes_[static_cast<std::size_t>(rank)].ended = true;
  if (!failure.empty()) fail(failure);
  fail_if_stuck();
}

void ThreadFabric::fail(std::string failure) {
  if (!failure_.empty()) return;
  failure_ = std::move(failure);
  for (Mailbox& mailbox : mailboxes_) mailbox.arrived.notify_all();
}

// Every rank waits or has ended, and some wait.
void ThreadFabric::fail_if_stuck() {
  bool any_waits = false;
  for (const Mailbox& mailbox : mailboxes_) {
    if (!mailbox.ended && !mailbox.waiting) return;
    any_waits |= !mailbox.ended;
  }
  if (any_waits) fail("no rank can go on: " + who_waits());
}

std::string ThreadFabric::who_waits() const {
  constexpr int most = 8;
  std::vector<std::string> lines;
  int others = 0;
  for (std::size_t rank = 0; rank < mailboxes_.size(); ++rank) {
    const Mailbox& mailbox = mailboxes_[rank];
    if (!mailbox.waiting) continue;
    const Waiting& waiting = *mailbox.waiting;
    const bool ended = mailboxes_[static_cast<std::size_t>(waiting.from)].ended;
    if (static_cast<int>(lines.size()) < most)
      lines.push_back(fmt::format("rank {} waits for rank {}{} in {}", rank, waiting.from,
                                  ended ? ", which has ended," : "", waiting.what));
    else
      ++others;
  }
  return fmt::format("{}{}", fmt::join(lines, "; "), others == 0 ? "" : fmt::format("; and {} more", others));
}

}  // namespace simrun
