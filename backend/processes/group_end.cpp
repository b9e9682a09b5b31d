#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "backend/processes/group.h"

// How a run over several processes ends: who is missed, who says so, and who believes it.
namespace simrun {
namespace {

// From noticing that a process is lost to saying so: what the others wait for then is known by then.
constexpr std::chrono::milliseconds to_gather{300};

}  // namespace

void ProcessGroup::look_after_others(Time now) {
  if (has_just_woken(now)) return;  // those whom it misses may have ended because they missed it
  if (process_ == 0) {
    for (int other = 1; other < processes_ && !suspicion_; ++other) {
      const std::string why = roll_.loss(other, now);
      if (!why.empty())
        suspect({FailureKind::crash, fmt::format("{} {}", name(other), why)}, now + to_gather);
    }
    return;
  }
  // Others look after process 0 only. The first that is left says so; the next ones if it does not.
  const std::string why = roll_.loss(0, now);
  if (why.empty() || suspicion_) return;
  int before = 0;
  for (int other = 1; other < process_; ++other) before += roll_.loss(other, now).empty() ? 1 : 0;
  suspect({FailureKind::crash, fmt::format("{} {}", name(0), why)},
          now + (1 + std::min(before, 5)) * to_gather);
}

void ProcessGroup::look_for_signals(Time now) {
  const char* const signal = signals_.take();
  if (signal == nullptr) return;
  told_to_end_ = true;
  news_.notify_all();
  if (end_ || leaving_) return;
  look_after_others(now);
  if (suspicion_) return;
  const int before = process_ == 0 ? 0 : 2;  // process 0 speaks first
  suspect({FailureKind::crash, fmt::format("ended by {}", signal)}, now + (1 + before) * to_gather);
}

void ProcessGroup::suspect(RunFailure failure, Time due) { suspicion_ = Suspicion{std::move(failure), due}; }

void ProcessGroup::conclude_if_due(Time now) {
  if (!suspicion_ || now < suspicion_->due || end_) return;
  speaks_ = true;
  conclude({suspicion_->failure.kind, with_waits(suspicion_->failure.text)});
}

// A failure of this process's ranks.
void ProcessGroup::report(const RunFailure& failure) {
  if (process_ == 0) {
    conclude(failure);
    return;
  }
  if (end_ || suspicion_) return;
  post(0, FrameKind::failure, to_bytes(failure));
  suspect(failure, Clock::now() + limits_.farewell);  // should process 0 not answer
}

// What this process decides for all.
void ProcessGroup::conclude(const RunFailure& failure) {
  if (end_) return;
  for (int to = 0; to < processes_; ++to)
    if (to != process_) post(to, FrameKind::end, to_bytes(failure));
  accept_end(failure);
}

void ProcessGroup::accept_end(RunFailure failure) {
  if (end_) return;
  if (fabric_ != nullptr && failure.kind != FailureKind::none) fabric_->stop(failure);
  end_ = std::move(failure);
  ended_at_ = Clock::now();
  news_.notify_all();
}

std::string ProcessGroup::with_waits(const std::string& text) const {
  RankWaits ranks;
  std::vector<int> lost;
  for (int other = 0; other < processes_; ++other)
    if (other != process_ && !roll_.loss(other, Clock::now()).empty()) lost.push_back(other);
  if (process_ == 0)
    ranks = waves_.waits(lost);
  else if (fabric_ != nullptr)
    ranks = fabric_->state().ranks;
  if (fabric_ != nullptr && !may_start_) return fmt::format("{}; no rank had started", text);
  const std::string waits = who_waits(ranks);
  return waits.empty() ? text : fmt::format("{}; {}", text, waits);
}

}  // namespace simrun
