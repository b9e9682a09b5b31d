#include "backend/rank_clock.h"

#include <time.h>

#include <limits>
#include <utility>

namespace simrun {
namespace {

std::int64_t read_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}
std::int64_t now_ns() { return read_ns(CLOCK_MONOTONIC); }
std::int64_t busy_ns() { return read_ns(CLOCK_THREAD_CPUTIME_ID); }

// Of no communication of a plan: those count from 0, or have the highest bit set.
constexpr MessageTag before_step{0x7fffffff, 0};

// Gives the core back for as long as it lives.
class Away {
 public:
  explicit Away(CoreGate& gate) : gate_(gate) { gate_.leave(); }
  ~Away() { gate_.enter(); }
  Away(const Away&) = delete;
  Away& operator=(const Away&) = delete;

 private:
  CoreGate& gate_;
};

}  // namespace

// Rank 0 hears of all others and tells them.
void RankClock::meet() {
  const std::string what = "the other ranks before a step";
  if (rank_ != 0) {
    send(0, before_step, {});
    receive(0, before_step, what);
    return;
  }
  for (std::int64_t other = 1; other < ranks_; ++other) receive(other, before_step, what);
  for (std::int64_t other = 1; other < ranks_; ++other) send(other, before_step, {});
}

void RankClock::begin_step() {
  if (!permit_) permit_.emplace(gate_);
  meet();
  steps_.push_back({now_ns(), 0, {}});
}

void RankClock::end_step() { steps_.back().end_ns = now_ns(); }

void RankClock::begin() {
  waited_ns_ = 0;
  begin_ns_ = now_ns();
  begin_busy_ns_ = busy_ns();
}

void RankClock::end(Index entry, Index instruction, std::int64_t worked_ns) {
  const std::int64_t busy = worked_ns < 0 ? busy_ns() - begin_busy_ns_ : worked_ns;
  steps_.back().instructions.push_back({entry, instruction, begin_ns_, now_ns(), busy, waited_ns_});
}

void RankClock::send(std::int64_t to, const MessageTag& tag, Message message) {
  transport_.send(to, tag, std::move(message));
}

Message RankClock::receive(std::int64_t from, const MessageTag& tag, const std::string& waiting_for) {
  const std::int64_t begin = now_ns();
  Message message;
  {
    const Away away(gate_);
    message = transport_.receive(from, tag, waiting_for);
  }
  waited_ns_ += now_ns() - begin;
  return message;
}

}  // namespace simrun
