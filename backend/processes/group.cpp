#include "backend/processes/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

namespace simrun {
namespace {

constexpr std::chrono::microseconds longest_nap{200};
constexpr int turns_before_nap = 50;

// "1, 2, 4 or 8".
std::string divisors(std::int64_t number) {
  std::vector<std::int64_t> all;
  for (std::int64_t divisor = 1; divisor <= number; ++divisor)
    if (number % divisor == 0) all.push_back(divisor);
  if (all.size() == 1) return "1";
  return fmt::format("{} or {}", fmt::join(all.begin(), all.end() - 1, ", "), all.back());
}

}  // namespace

ProcessGroup::ProcessGroup(const std::function<std::unique_ptr<ProcessLink>()>& join, GiveUp give_up,
                           Limits limits)
    : link_(join()),
      process_(link_->process()),
      processes_(link_->processes()),
      give_up_(std::move(give_up)),
      limits_(limits),
      speaks_(process_ == 0),
      roll_(processes_, this_process(), limits.silence),
      waves_(processes_),
      agreements_(static_cast<std::size_t>(processes_)),
      collected_(static_cast<std::size_t>(processes_)) {
  for (int to = 0; to < processes_; ++to)
    if (to != process_) post(to, FrameKind::hello, to_bytes(this_process()));
  carrier_ = std::thread([this] { carry(); });
}

ProcessGroup::~ProcessGroup() {
  {
    std::unique_lock lock(mutex_);
    const bool others_speak = end_ && end_->kind != FailureKind::none && !speaks_;
    if (others_speak) news_.wait_for(lock, limits_.farewell, [&] { return told_to_end_; });
  }
  dissolve();
}

bool ProcessGroup::speaks() const {
  const std::lock_guard lock(mutex_);
  return speaks_;
}

bool ProcessGroup::has_ended() const {
  const std::lock_guard lock(mutex_);
  return end_.has_value();
}

// ---- running ----

std::string uneven_shares(std::int64_t ranks, int processes) {
  if (ranks % processes == 0) return "";
  return fmt::format("the plan has {} ranks, which {} processes cannot have equal numbers of; {} can", ranks,
                     processes, divisors(ranks));
}

ProcessGroup::Outcome ProcessGroup::run(const Work& work) {
  if (const std::string why = uneven_shares(work.ranks, processes_); !why.empty())
    return {fail({FailureKind::disagreement, why}), {}};
  const std::int64_t each = work.ranks / processes_;
  ThreadFabric fabric({process_ * each, each,
                       [&](std::int64_t from, std::int64_t to, const MessageTag& tag, Message message) {
                         const Frame::Head head{0, tag.channel, from, to, tag.instance, message.elements, 0};
                         const std::lock_guard lock(mutex_);
                         post(static_cast<int>(to / each), FrameKind::data, std::move(message.payload), head);
                       }},
                      work.limit);
  std::unique_lock lock(mutex_);
  fabric_ = &fabric;
  ranks_ = work.ranks;
  note_agreement(process_, work.agreement);
  news_.wait(lock, [&] { return may_start_ || end_; });
  if (!end_) {
    computes_ = true;
    lock.unlock();
    fabric.run(work.body);
    RunFailure failure = fabric.state().failure;
    std::vector<std::byte> collected;
    try {
      if (failure.kind == FailureKind::none) collected = work.collect();
    } catch (const std::exception& error) {
      failure = {FailureKind::crash, fmt::format("process {}: {}", process_, error.what())};
    }
    lock.lock();
    computes_ = false;
    if (failure.kind != FailureKind::none)
      report(failure);
    else
      note_done(process_, std::move(collected));
  }
  news_.wait(lock, [&] { return has_finished_ || end_; });
  fabric_ = nullptr;
  may_start_ = has_finished_ = false;
  Outcome outcome;
  if (end_) outcome.failure = *end_;
  for (std::optional<std::vector<std::byte>>& part : collected_)
    if (part) outcome.collected.push_back(std::move(*part));
  collected_.assign(collected_.size(), std::nullopt);
  return outcome;
}

std::string ProcessGroup::share(std::string bytes) {
  std::unique_lock lock(mutex_);
  if (process_ == 0) {
    for (int to = 1; to < processes_; ++to) post(to, FrameKind::shared, bytes_from(bytes));
    return bytes;
  }
  news_.wait(lock, [&] { return !shared_.empty() || end_; });
  if (shared_.empty()) throw TransportError(end_->text);
  bytes = std::move(shared_.front());
  shared_.pop_front();
  return bytes;
}

RunFailure ProcessGroup::leave() {
  {
    std::unique_lock lock(mutex_);
    if (process_ == 0) conclude({});
    news_.wait(lock, [&] { return end_.has_value(); });
    if (end_->kind != FailureKind::none) return *end_;
  }
  dissolve();
  return {};
}

RunFailure ProcessGroup::fail(const RunFailure& failure) {
  std::unique_lock lock(mutex_);
  report(failure);
  news_.wait(lock, [&] { return end_.has_value(); });
  return *end_;
}

// Sends what is left to send, and leaves together with the others if all went well.
void ProcessGroup::dissolve() {
  {
    const std::lock_guard lock(mutex_);
    if (leaving_) return;
    leaving_ = true;
    leave_by_ = Clock::now() + limits_.farewell;
    work_.notify_one();
  }
  carrier_.join();
  if (end_ && end_->kind == FailureKind::none) link_->leave();
}

// ---- the thread that carries and watches ----

void ProcessGroup::carry() {
  int idle_turns = 0;
  Time next_look{}, last = Clock::now();
  for (;;) {
    const Time now = Clock::now();
    bool moved = false;
    std::string failure;
    try {
      if (!is_deaf(now, last)) moved = move_frames();
    } catch (const std::exception& error) {
      failure = error.what();
    }
    std::unique_lock lock(mutex_);
    if (!failure.empty()) {
      speaks_ = true;  // nobody else would know
      accept_end({FailureKind::crash, with_waits(fmt::format("{}: {}", name(process_), failure))});
    }
    last = now;
    if (now >= next_look) {
      watch(now);
      next_look = now + limits_.beat;
    }
    conclude_if_due(now);
    give_up_if_late(lock, now);
    if (leaving_ && may_leave(now)) return;
    idle_turns = moved ? 0 : idle_turns + 1;
    if (idle_turns > turns_before_nap) work_.wait_for(lock, longest_nap, [&] { return !outgoing_.empty(); });
  }
}

// One that stood still has perhaps been given up by the others, and is told to end as soon as it wakes. It
// waits for that before it takes what libraries would fetch from the memory of a process that is no more, and
// then says nothing.
bool ProcessGroup::is_deaf(Time now, Time last) {
  const std::lock_guard lock(mutex_);
  if (now - last > limits_.silence / 2) {
    roll_.forgive(now - last);
    awake_since_ = now;
    suspicion_.reset();  // it may have been stopped while it looked, and missed those who missed it
  }
  look_for_signals(now);
  if (!has_just_woken(now)) return false;
  if (!told_to_end_) return now < awake_since_ + limits_.farewell;
  outgoing_.clear();
  if (!end_) speaks_ = false;
  accept_end({FailureKind::crash, "ended while it stood still"});
  return true;
}

// Whether any frame moved.
bool ProcessGroup::move_frames() {
  std::deque<std::pair<int, Frame>> outgoing;
  {
    const std::lock_guard lock(mutex_);
    outgoing.swap(outgoing_);
  }
  bool moved = !outgoing.empty();
  for (auto& [to, frame] : outgoing) link_->send(to, std::move(frame));
  while (std::optional<ProcessLink::Arrived> arrived = link_->poll()) {
    moved = true;
    const std::lock_guard lock(mutex_);
    handle(arrived->from, std::move(arrived->frame));
  }
  return moved;
}

void ProcessGroup::watch(Time now) {
  for (int to = 0; to < processes_; ++to)
    if (to != process_) post(to, FrameKind::beat, {});
  if (end_) return;
  if (fabric_ != nullptr) {
    const RunFailure failure = fabric_->state().failure;
    if (failure.kind != FailureKind::none) report(failure);  // while others of its ranks still compute
    tell_state(0);
    if (process_ == 0) ask_all();
  }
  look_after_others(now);
}

bool ProcessGroup::may_leave(Time now) {
  if (now > leave_by_) return true;
  try {
    return outgoing_.empty() && link_->sent_all();
  } catch (const std::exception&) {  // nobody is left to be told
    return true;
  }
}

void ProcessGroup::give_up_if_late(std::unique_lock<std::mutex>& lock, Time now) {
  if (!computes_ || !end_ || !give_up_ || now < ended_at_ + limits_.farewell) return;
  const RunFailure failure = *end_;
  const bool aloud = speaks_;
  lock.unlock();
  give_up_(failure, aloud);
  lock.lock();
}

// ---- what is said ----

void ProcessGroup::post(int to, FrameKind kind, std::vector<std::byte> payload, Frame::Head head) {
  head.kind = static_cast<std::uint32_t>(kind);
  head.bytes = static_cast<std::int64_t>(payload.size());
  outgoing_.emplace_back(to, Frame{head, std::move(payload)});
  work_.notify_one();
}

void ProcessGroup::handle(int from, Frame frame) {
  const Time now = Clock::now();
  roll_.heard(from, now);
  const Frame::Head& head = frame.head;
  switch (static_cast<FrameKind>(head.kind)) {
    case FrameKind::hello: roll_.introduce(from, identity_from(frame.payload), now); return;
    case FrameKind::beat: return;
    case FrameKind::data:
      if (fabric_ != nullptr)
        fabric_->deliver(head.from, head.to, {head.channel, head.instance},
                         {head.elements, std::move(frame.payload)});
      return;
    case FrameKind::state: take_state(from, head.instance, state_from(frame.payload)); return;
    case FrameKind::ask: tell_state(head.instance); return;
    case FrameKind::agreement: note_agreement(from, text_from(frame.payload)); return;
    case FrameKind::start:
      may_start_ = true;
      news_.notify_all();
      return;
    case FrameKind::done: note_done(from, std::move(frame.payload)); return;
    case FrameKind::finished: finish_run(); return;
    case FrameKind::shared:
      shared_.push_back(text_from(frame.payload));
      news_.notify_all();
      return;
    case FrameKind::failure: conclude(failure_from(frame.payload)); return;
    case FrameKind::end:
      if (!end_) speaks_ = false;  // who ends the run for all says so
      accept_end(failure_from(frame.payload));
      return;
  }
}

void ProcessGroup::tell_state(std::int64_t wave) {
  ThreadFabric::State state;  // between runs: not idle
  if (fabric_ != nullptr) state = fabric_->state();
  if (process_ == 0) {
    take_state(0, wave, std::move(state));
    return;
  }
  Frame::Head head;
  head.instance = wave;
  post(0, FrameKind::state, to_bytes(state), head);
}

void ProcessGroup::take_state(int from, std::int64_t wave, ThreadFabric::State state) {
  if (wave == 0) {
    waves_.tell(from, std::move(state));
    return;
  }
  waves_.answer(wave, from, std::move(state));
  if (waves_.stalled())
    conclude({FailureKind::disagreement, "no rank can go on: " + who_waits(waves_.waits())});
}

void ProcessGroup::ask_all() {
  const std::optional<std::int64_t> wave = waves_.begin();
  if (!wave) return;
  Frame::Head head;
  head.instance = *wave;
  for (int to = 1; to < processes_; ++to) post(to, FrameKind::ask, {}, head);
  tell_state(*wave);
}

void ProcessGroup::note_agreement(int from, const std::string& agreement) {
  if (process_ != 0) {
    post(0, FrameKind::agreement, bytes_from(agreement));
    return;
  }
  agreements_[static_cast<std::size_t>(from)] = agreement;
  const std::optional<std::string>& ours = agreements_.front();
  if (!ours) return;
  for (int process = 1; process < processes_; ++process) {
    const std::optional<std::string>& theirs = agreements_[static_cast<std::size_t>(process)];
    if (!theirs) return;
    if (*theirs != *ours)
      conclude({FailureKind::disagreement,
                fmt::format("{} runs {}, process 0 {}", name(process), *theirs, *ours)});
  }
  if (end_) return;
  may_start_ = true;
  for (int to = 1; to < processes_; ++to) post(to, FrameKind::start, {});
  news_.notify_all();
}

void ProcessGroup::note_done(int from, std::vector<std::byte> collected) {
  if (process_ != 0) {
    post(0, FrameKind::done, std::move(collected));
    return;
  }
  collected_[static_cast<std::size_t>(from)] = std::move(collected);
  const bool all =
      std::all_of(collected_.begin(), collected_.end(), [](const auto& part) { return part.has_value(); });
  if (!all) return;
  for (int to = 1; to < processes_; ++to) post(to, FrameKind::finished, {});
  agreements_.assign(agreements_.size(), std::nullopt);
  waves_.forget();
  finish_run();
}

void ProcessGroup::finish_run() {
  has_finished_ = true;
  news_.notify_all();
}

}  // namespace simrun
