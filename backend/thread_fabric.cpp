#include "backend/thread_fabric.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
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
    : ThreadFabric(Part{0, ranks, nullptr}, limit) {}

ThreadFabric::ThreadFabric(Part part, std::chrono::milliseconds limit)
    : part_(std::move(part)), mailboxes_(static_cast<std::size_t>(part_.count)), limit_(limit) {}

std::string ThreadFabric::run(const std::function<void(std::int64_t, Transport&)>& body) {
  std::vector<std::thread> threads;
  std::int64_t rank = part_.first;
  try {
    for (; rank < part_.first + part_.count; ++rank)
      threads.emplace_back([this, rank, &body] { run_rank(rank, body); });
  } catch (const std::system_error& error) {
    const std::int64_t started = rank - part_.first;
    for (; rank < part_.first + part_.count; ++rank)
      end(rank,
          {FailureKind::crash, fmt::format("rank {}: no thread can be started for it beside {} others: {}",
                                           rank, started, error.code().message())});
  }
  for (std::thread& thread : threads) thread.join();
  return failure_.text;
}

void ThreadFabric::run_rank(std::int64_t rank, const std::function<void(std::int64_t, Transport&)>& body) {
  ThreadRank transport(*this, rank);
  const auto failure = [&](FailureKind kind, const std::exception& error) {
    return RunFailure{kind, fmt::format("rank {}: {}", rank, error.what())};
  };
  try {
    body(rank, transport);
    end(rank, {});
  } catch (const OtherRankFailed&) {  // which said why
    end(rank, {});
  } catch (const Disagreement& error) {
    end(rank, failure(FailureKind::disagreement, error));
  } catch (const std::exception& error) {
    end(rank, failure(FailureKind::crash, error));
  }
}

bool ThreadFabric::is_here(std::int64_t rank) const {
  return rank >= part_.first && rank < part_.first + part_.count;
}

ThreadFabric::Mailbox& ThreadFabric::mailbox_of(std::int64_t rank) {
  return mailboxes_.at(static_cast<std::size_t>(rank - part_.first));
}

void ThreadFabric::send(std::int64_t from, std::int64_t to, const MessageTag& tag, Message message) {
  if (!is_here(to) && part_.send_away) {
    part_.send_away(from, to, tag, std::move(message));
    const std::lock_guard lock(mutex_);
    ++sent_;
    return;
  }
  put(std::unique_lock(mutex_), {from, to, tag}, std::move(message));
}

void ThreadFabric::deliver(std::int64_t from, std::int64_t to, const MessageTag& tag, Message message) {
  std::unique_lock lock(mutex_);
  ++delivered_;
  put(std::move(lock), {from, to, tag}, std::move(message));
}

// The rank is woken without the lock that it would wait for next.
void ThreadFabric::put(std::unique_lock<std::mutex> lock, const Envelope& of, Message message) {
  Mailbox& mailbox = mailbox_of(of.to);
  mailbox.messages[{of.from, of.tag}].push_back(std::move(message));
  if (!mailbox.waiting || mailbox.waiting->from != of.from || mailbox.waiting->tag != of.tag) return;
  mailbox.waiting.reset();
  lock.unlock();
  mailbox.arrived.notify_one();
}

Message ThreadFabric::receive(std::int64_t rank, Waiting waiting) {
  std::unique_lock lock(mutex_);
  Mailbox& mailbox = mailbox_of(rank);
  const std::pair<std::int64_t, MessageTag> key{waiting.from, waiting.tag};
  if (mailbox.messages.find(key) == mailbox.messages.end()) {
    mailbox.waiting = std::make_unique<Waiting>(std::move(waiting));
    fail_if_stuck();
    const bool in_time = mailbox.arrived.wait_for(
        lock, limit_, [&] { return mailbox.waiting == nullptr || !failure_.text.empty(); });
    if (!in_time)
      fail(
          {FailureKind::disagreement,
           fmt::format("after {} s, {}", std::chrono::duration<double>(limit_).count(), who_waits(ranks()))});
  }
  if (!failure_.text.empty()) throw OtherRankFailed(failure_.text);
  const auto at = mailbox.messages.find(key);
  Message message = std::move(at->second.front());
  at->second.pop_front();
  if (at->second.empty()) mailbox.messages.erase(at);
  return message;
}

void ThreadFabric::end(std::int64_t rank, RunFailure failure) {
  const std::lock_guard lock(mutex_);
  mailbox_of(rank).ended = true;
  if (!failure.text.empty()) fail(std::move(failure));
  fail_if_stuck();
}

void ThreadFabric::stop(const RunFailure& failure) {
  const std::lock_guard lock(mutex_);
  fail(failure);
}

void ThreadFabric::fail(RunFailure failure) {
  if (!failure_.text.empty()) return;
  failure_ = std::move(failure);
  for (Mailbox& mailbox : mailboxes_) mailbox.arrived.notify_all();
}

bool ThreadFabric::is_idle() const {
  return std::all_of(mailboxes_.begin(), mailboxes_.end(),
                     [](const Mailbox& mailbox) { return mailbox.ended || mailbox.waiting; });
}

void ThreadFabric::fail_if_stuck() {
  if (part_.send_away || !is_idle()) return;
  const RankWaits all = ranks();
  if (!all.waits.empty()) fail({FailureKind::disagreement, "no rank can go on: " + who_waits(all)});
}

RankWaits ThreadFabric::ranks() const {
  RankWaits all;
  std::int64_t rank = part_.first;
  for (const Mailbox& mailbox : mailboxes_) {
    if (mailbox.ended)
      all.ended.push_back(rank);
    else if (mailbox.waiting)
      all.waits.push_back({rank, mailbox.waiting->from, mailbox.waiting->what});
    ++rank;
  }
  return all;
}

ThreadFabric::State ThreadFabric::state() const {
  const std::lock_guard lock(mutex_);
  return {failure_, is_idle(), sent_, delivered_, ranks()};
}

}  // namespace simrun
