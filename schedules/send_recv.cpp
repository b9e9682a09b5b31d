#include "schedules/send_recv.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <tuple>

namespace simrun {
namespace {

constexpr std::int32_t nowhere = -1;

// The three things that other passes wait for; a full backward and a backward-input are both `backward`.
enum Result : std::size_t { forward_result, backward_result, weight_result, result_count };

Result result_of(OpKind kind) {
  if (kind == OpKind::forward) return forward_result;
  return kind == OpKind::backward_weight ? weight_result : backward_result;
}

struct PassState {
  std::int32_t rank = nowhere;  // that runs it
  std::int64_t end = -1;        // -1: has not run
};

// All passes of a schedule, by (result, stage, microbatch), and their replay.
class Replay {
 public:
  Replay(const Schedule& schedule, const std::vector<PassCosts>& costs);
  void run();
  const PassState& at(Result result, std::int32_t stage, std::int32_t microbatch) const {
    return passes_[index(result, stage, microbatch)];
  }
  std::int32_t stages() const { return static_cast<std::int32_t>(stages_); }
  std::int32_t microbatches() const { return static_cast<std::int32_t>(microbatches_); }

 private:
  std::size_t index(Result result, std::int32_t stage, std::int32_t microbatch) const {
    return (result * stages_ + static_cast<std::size_t>(stage)) * microbatches_ +
           static_cast<std::size_t>(microbatch);
  }
  bool ready(const Op& op, std::int64_t& start) const;
  void place_passes();
  void require_complete() const;
  [[noreturn]] void refuse_stuck(const std::vector<std::size_t>& next) const;

  const Schedule& schedule_;
  const std::vector<PassCosts>& costs_;
  std::size_t stages_;
  std::size_t microbatches_ = 0;
  std::vector<PassState> passes_;
};

Replay::Replay(const Schedule& schedule, const std::vector<PassCosts>& costs)
    : schedule_(schedule), costs_(costs), stages_(costs.size()) {
  for (const PassCosts& cost : costs)
    if (*std::min_element(cost.begin(), cost.end()) <= 0)
      throw std::logic_error("a stated pass cost is not positive");
  std::int32_t most = -1;
  for (const RankOps& ops : schedule)
    for (const Op& op : ops) {
      if (op.stage < 0 || op.microbatch < 0 || static_cast<std::size_t>(op.stage) >= stages_)
        throw std::logic_error("the schedule runs " + to_string(op) + ", which has no stated cost");
      most = std::max(most, op.microbatch);
    }
  microbatches_ = static_cast<std::size_t>(most) + 1;
  passes_.resize(result_count * stages_ * microbatches_);
  place_passes();
  require_complete();
}

void Replay::place_passes() {
  for (std::size_t rank = 0; rank < schedule_.size(); ++rank)
    for (const Op& op : schedule_[rank]) {
      PassState& pass = passes_[index(result_of(op.kind), op.stage, op.microbatch)];
      if (pass.rank != nowhere) throw std::logic_error("the schedule runs " + to_string(op) + " twice");
      pass.rank = static_cast<std::int32_t>(rank);
    }
}

void Replay::require_complete() const {
  for (std::int32_t stage = 0; stage < stages(); ++stage)
    for (std::int32_t m = 0; m < microbatches(); ++m) {
      if (at(forward_result, stage, m).rank == nowhere)
        throw std::logic_error("the schedule lacks " + to_string(Op{OpKind::forward, stage, m}));
      if (at(backward_result, stage, m).rank == nowhere)
        throw std::logic_error("the schedule lacks " + to_string(Op{OpKind::backward, stage, m}));
    }
}

bool Replay::ready(const Op& op, std::int64_t& start) const {
  const auto after = [&](const PassState& pass) {
    start = std::max(start, pass.end);
    return pass.end >= 0;
  };
  if (op.kind == OpKind::forward)
    return op.stage == 0 || after(at(forward_result, op.stage - 1, op.microbatch));
  if (op.kind == OpKind::backward_weight) return after(at(backward_result, op.stage, op.microbatch));
  if (!after(at(forward_result, op.stage, op.microbatch))) return false;
  return op.stage + 1 == stages() || after(at(backward_result, op.stage + 1, op.microbatch));
}

// A pass's end depends on its inputs and its rank's order only, so ranks may be advanced in any order. A rank
// that is blocked is tried again when the rank that runs its input has moved: every pass wakes at most one
// other rank.
void Replay::run() {
  std::vector<std::size_t> next(schedule_.size(), 0);
  std::vector<std::int64_t> free_at(schedule_.size(), 0);
  std::vector<std::size_t> awake;
  for (std::size_t rank = schedule_.size(); rank-- > 0;) awake.push_back(rank);
  while (!awake.empty()) {
    const std::size_t rank = awake.back();
    awake.pop_back();
    while (next[rank] < schedule_[rank].size()) {
      const Op& op = schedule_[rank][next[rank]];
      std::int64_t start = free_at[rank];
      if (!ready(op, start)) break;
      const std::int64_t end =
          start + costs_[static_cast<std::size_t>(op.stage)][static_cast<std::size_t>(op.kind)];
      const Result result = result_of(op.kind);
      passes_[index(result, op.stage, op.microbatch)].end = free_at[rank] = end;
      ++next[rank];
      const std::int32_t consumer = result == forward_result ? op.stage + 1 : op.stage - 1;
      if (result == weight_result || consumer < 0 || consumer == stages()) continue;
      const auto reader = static_cast<std::size_t>(at(result, consumer, op.microbatch).rank);
      if (reader != rank) awake.push_back(reader);
    }
  }
  for (std::size_t rank = 0; rank < schedule_.size(); ++rank)
    if (next[rank] < schedule_[rank].size()) refuse_stuck(next);
}

void Replay::refuse_stuck(const std::vector<std::size_t>& next) const {
  std::string message = "the schedule cannot finish:";
  for (std::size_t rank = 0; rank < schedule_.size(); ++rank)
    if (next[rank] < schedule_[rank].size())
      message +=
          " rank " + std::to_string(rank) + " is stuck at " + to_string(schedule_[rank][next[rank]]) + ";";
  message.pop_back();
  throw std::logic_error(message);
}

struct Transfer {
  std::int64_t time = 0;
  Op producer;
  std::int32_t from = 0;
  std::int32_t to = 0;
};

// Every result that crosses ranks, in plan-wide order; a transfer's place in it, from 1, is its sequence.
std::vector<Transfer> transfers(const Schedule& schedule, const Replay& replay) {
  std::vector<Transfer> all;
  for (const RankOps& ops : schedule)
    for (const Op& op : ops) {
      const Result result = result_of(op.kind);
      const std::int32_t consumer = result == forward_result ? op.stage + 1 : op.stage - 1;
      if (result == weight_result || consumer < 0 || consumer == replay.stages()) continue;
      const PassState& producer = replay.at(result, op.stage, op.microbatch);
      const std::int32_t to = replay.at(result, consumer, op.microbatch).rank;
      if (to != producer.rank) all.push_back({producer.end, op, producer.rank, to});
    }
  std::sort(all.begin(), all.end(), [](const Transfer& a, const Transfer& b) {
    return std::tie(a.time, a.producer.stage, a.producer.microbatch, a.producer.kind) <
           std::tie(b.time, b.producer.stage, b.producer.microbatch, b.producer.kind);
  });
  return all;
}

}  // namespace

std::vector<std::vector<IssueStep>> add_send_recv(const Schedule& schedule,
                                                  const std::vector<PassCosts>& costs) {
  Replay replay(schedule, costs);
  replay.run();
  std::vector<std::vector<IssueStep>> steps(schedule.size());
  std::vector<std::size_t> next(schedule.size(), 0);
  for (std::size_t rank = 0; rank < schedule.size(); ++rank) steps[rank].reserve(schedule[rank].size() * 3);

  const auto issue_compute = [&](std::size_t rank) {
    const std::uint32_t last = steps[rank].empty() ? 0 : steps[rank].back().sequence;
    steps[rank].push_back({StepKind::compute, schedule[rank][next[rank]++], last});
  };
  // Passes that end at or before the transfer go first on both of its ranks.
  const auto issue = [&](std::int32_t at, std::int64_t time, const IssueStep& step) {
    const auto rank = static_cast<std::size_t>(at);
    while (next[rank] < schedule[rank].size()) {
      const Op& op = schedule[rank][next[rank]];
      if (replay.at(result_of(op.kind), op.stage, op.microbatch).end > time) break;
      issue_compute(rank);
    }
    steps[rank].push_back(step);
  };
  std::uint32_t sequence = 0;
  for (const Transfer& transfer : transfers(schedule, replay)) {
    ++sequence;
    const bool forward = transfer.producer.kind == OpKind::forward;
    issue(transfer.from, transfer.time,
          {forward ? StepKind::send_forward : StepKind::send_backward, transfer.producer, sequence});
    issue(transfer.to, transfer.time,
          {forward ? StepKind::recv_forward : StepKind::recv_backward, transfer.producer, sequence});
  }
  for (std::size_t rank = 0; rank < schedule.size(); ++rank)
    while (next[rank] < schedule[rank].size()) issue_compute(rank);
  return steps;
}

}  // namespace simrun
