#include "schedules/send_recv.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

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

// All passes of a schedule, by (result, direction, stage, microbatch), and their replay.
class Replay {
 public:
  Replay(const Schedule& schedule, const std::vector<PassCosts>& costs);
  void run();
  // Of the pass that makes `result` for the same direction, stage and microbatch as `op`.
  const PassState& at(Result result, const Op& op) const {
    return passes_[index(result, op.direction, op.stage, op.microbatch)];
  }
  const PassState& at(const Op& op) const { return at(result_of(op.kind), op); }
  // The pass on another rank or chunk that waits for what `op` makes; nullptr if nothing does.
  const PassState* reader(const Op& op) const;

 private:
  std::size_t index(Result result, Direction direction, std::int32_t stage, std::int32_t microbatch) const {
    const std::size_t copy = result * directions_ + static_cast<std::size_t>(direction);
    return (copy * stages_ + static_cast<std::size_t>(stage)) * microbatches_ +
           static_cast<std::size_t>(microbatch);
  }
  std::int32_t stages() const { return static_cast<std::int32_t>(stages_); }
  std::int64_t cost(const Op& op) const {
    return costs_[static_cast<std::size_t>(op.stage)][static_cast<std::size_t>(op.kind)];
  }
  bool ready(const Op& op, std::int64_t& start) const;
  bool step(std::size_t rank, std::vector<std::size_t>& awake);
  void measure();
  void place_passes();
  void require_complete() const;
  [[noreturn]] void refuse_stuck() const;

  const Schedule& schedule_;
  const std::vector<PassCosts>& costs_;
  std::size_t stages_;
  std::size_t directions_ = 1;
  std::size_t microbatches_ = 0;  // of each direction
  std::vector<PassState> passes_;
  std::vector<std::size_t> next_;      // by rank: first op that has not run
  std::vector<std::int64_t> free_at_;  // by rank
};

Replay::Replay(const Schedule& schedule, const std::vector<PassCosts>& costs)
    : schedule_(schedule),
      costs_(costs),
      stages_(costs.size()),
      next_(schedule.size(), 0),
      free_at_(schedule.size(), 0) {
  for (const PassCosts& cost : costs)
    if (*std::min_element(cost.begin(), cost.begin() + pass_cost_kinds) <= 0)
      throw std::logic_error("a stated pass cost is not positive");
  measure();
  passes_.resize(result_count * directions_ * stages_ * microbatches_);
  place_passes();
  require_complete();
}

void Replay::measure() {
  std::int32_t most = -1;
  for (const RankOps& ops : schedule_)
    for (const Op& op : ops) {
      if (op.stage < 0 || op.microbatch < 0 || op.stage >= stages())
        throw std::logic_error("the schedule runs " + to_string(op) + ", which has no stated cost");
      most = std::max(most, op.microbatch);
      if (op.direction == Direction::up) directions_ = 2;
    }
  microbatches_ = static_cast<std::size_t>(most) + 1;
}

void Replay::place_passes() {
  for (std::size_t rank = 0; rank < schedule_.size(); ++rank)
    for (const Op& op : schedule_[rank]) {
      PassState& pass = passes_[index(result_of(op.kind), op.direction, op.stage, op.microbatch)];
      if (pass.rank != nowhere) throw std::logic_error("the schedule runs " + to_string(op) + " twice");
      pass.rank = static_cast<std::int32_t>(rank);
    }
}

void Replay::require_complete() const {
  const auto require = [&](const Op& op) {
    if (at(op).rank == nowhere) throw std::logic_error("the schedule lacks " + to_string(op));
  };
  for (std::size_t d = 0; d < directions_; ++d)
    for (std::int32_t stage = 0; stage < stages(); ++stage)
      for (std::int32_t m = 0; std::cmp_less(m, microbatches_); ++m) {
        Op op{OpKind::forward, stage, m};
        op.direction = static_cast<Direction>(d);
        require(op);
        op.kind = OpKind::backward;
        require(op);
      }
}

const PassState* Replay::reader(const Op& op) const {
  const Result result = result_of(op.kind);
  Op consumer = op;
  consumer.stage += result == forward_result ? 1 : -1;
  if (result == weight_result || consumer.stage < 0 || consumer.stage == stages()) return nullptr;
  return &at(result, consumer);
}

bool Replay::ready(const Op& op, std::int64_t& start) const {
  const auto after = [&](Result result, const Op& producer) {
    const PassState& pass = at(result, producer);
    const bool crosses = pass.rank != at(op).rank;
    start = std::max(start, pass.end + (crosses ? costs_[std::size_t(producer.stage)].back() : 0));
    return pass.end >= 0;
  };
  Op producer = op;
  if (op.kind == OpKind::forward) {
    --producer.stage;
    return op.stage == 0 || after(forward_result, producer);
  }
  if (op.kind == OpKind::backward_weight) return after(backward_result, op);
  if (!after(forward_result, op)) return false;
  ++producer.stage;
  return producer.stage == stages() || after(backward_result, producer);
}

// Runs the rank's next pass, or pair of passes, if its inputs are there, and wakes who reads the result.
bool Replay::step(std::size_t rank, std::vector<std::size_t>& awake) {
  const RankOps& ops = schedule_[rank];
  const std::size_t first = next_[rank];
  if (first == ops.size()) return false;
  const std::size_t last = ops[first].overlaps_next && first + 1 < ops.size() ? first + 1 : first;
  std::int64_t start = free_at_[rank];
  std::int64_t duration = 0;
  for (std::size_t i = first; i <= last; ++i) {
    if (!ready(ops[i], start)) return false;
    duration += cost(ops[i]);
  }
  free_at_[rank] = start + duration;
  next_[rank] = last + 1;
  for (std::size_t i = first; i <= last; ++i) {
    passes_[index(result_of(ops[i].kind), ops[i].direction, ops[i].stage, ops[i].microbatch)].end =
        free_at_[rank];
    const PassState* const waiting = reader(ops[i]);
    if (waiting != nullptr && std::cmp_not_equal(waiting->rank, rank))
      awake.push_back(static_cast<std::size_t>(waiting->rank));
  }
  return true;
}

// A pass's end depends on its inputs and its rank's order only, so ranks may be advanced in any order. A rank
// that is blocked is tried again when the rank that runs its input has moved: every pass wakes at most one
// other rank.
void Replay::run() {
  std::vector<std::size_t> awake;
  for (std::size_t rank = schedule_.size(); rank-- > 0;) awake.push_back(rank);
  while (!awake.empty()) {
    const std::size_t rank = awake.back();
    awake.pop_back();
    while (step(rank, awake)) {
    }
  }
  for (std::size_t rank = 0; rank < schedule_.size(); ++rank)
    if (next_[rank] < schedule_[rank].size()) refuse_stuck();
}

void Replay::refuse_stuck() const {
  std::string message = "the schedule cannot finish:";
  for (std::size_t rank = 0; rank < schedule_.size(); ++rank)
    if (next_[rank] < schedule_[rank].size())
      message +=
          " rank " + std::to_string(rank) + " is stuck at " + to_string(schedule_[rank][next_[rank]]) + ";";
  message.pop_back();
  throw std::logic_error(message);
}

// Two ranks come together for it, each with a step of its own.
struct Exchange {
  std::int64_t time = 0;
  Op producer;
  std::int32_t from = 0, to = 0;
  StepKind send = StepKind::send_forward, recv = StepKind::recv_forward;
};

void add_transfers(const Schedule& schedule, const Replay& replay, std::vector<Exchange>& all) {
  for (const RankOps& ops : schedule)
    for (const Op& op : ops) {
      const PassState* const reader = replay.reader(op);
      const PassState& producer = replay.at(op);
      if (reader == nullptr || reader->rank == producer.rank) continue;
      Exchange transfer{producer.end, op, producer.rank, reader->rank};
      if (op.kind != OpKind::forward) {
        transfer.send = StepKind::send_backward;
        transfer.recv = StepKind::recv_backward;
      }
      all.push_back(transfer);
    }
}

void add_gradient_sums(const Schedule& schedule, const Replay& replay, std::vector<Exchange>& all) {
  std::map<std::int32_t, Exchange> of_stage;
  for (const RankOps& ops : schedule)
    for (const Op& op : ops) {
      if (op.kind != OpKind::backward && op.kind != OpKind::backward_weight) continue;
      const PassState& pass = replay.at(op);
      const Exchange none{-1, op, 0, 0, StepKind::sum_gradients, StepKind::sum_gradients};
      Exchange& sum = of_stage.try_emplace(op.stage, none).first->second;
      (op.direction == Direction::down ? sum.from : sum.to) = pass.rank;
      sum.time = std::max(sum.time, pass.end);
    }
  for (const auto& [stage, sum] : of_stage) all.push_back(sum);
}

void add_move(const Schedule& schedule, const Replay& replay, const ActivationMove& move,
              std::vector<Exchange>& all) {
  const Op& last = schedule[static_cast<std::size_t>(move.rank)][move.after];
  const Op producer{OpKind::forward, last.stage, move.microbatch};
  if (move.returns)
    all.push_back({replay.at(last).end, producer, move.keeper, move.rank, StepKind::send_back,
                   StepKind::recv_returned});
  else
    all.push_back(
        {replay.at(last).end, producer, move.rank, move.keeper, StepKind::send_lent, StepKind::recv_lent});
}

// Every exchange between ranks in plan-wide order; its place in it, from 1, is its sequence. At one time,
// transfers come first: what they send may be lent right behind.
std::vector<Exchange> exchanges(const Schedule& schedule, const Replay& replay,
                                const OtherExchanges& others) {
  std::vector<Exchange> all;
  add_transfers(schedule, replay, all);
  if (others.sum_pairs) add_gradient_sums(schedule, replay, all);
  for (const ActivationMove& move : others.moves) add_move(schedule, replay, move, all);
  const auto key = [](const Exchange& of) {
    const bool is_transfer = of.send == StepKind::send_forward || of.send == StepKind::send_backward;
    return std::tuple(of.time, !is_transfer, of.producer.stage, of.producer.microbatch, of.producer.kind,
                      of.producer.direction, of.send);
  };
  std::sort(all.begin(), all.end(), [&](const Exchange& a, const Exchange& b) { return key(a) < key(b); });
  return all;
}

}  // namespace

std::vector<std::vector<IssueStep>> add_send_recv(const Schedule& schedule,
                                                  const std::vector<PassCosts>& costs,
                                                  const OtherExchanges& others) {
  Replay replay(schedule, costs);
  replay.run();
  std::vector<std::vector<IssueStep>> steps(schedule.size());
  std::vector<std::size_t> next(schedule.size(), 0);
  for (std::size_t rank = 0; rank < schedule.size(); ++rank) steps[rank].reserve(schedule[rank].size() * 3);

  const auto issue_compute = [&](std::size_t rank) {
    const std::uint32_t last = steps[rank].empty() ? 0 : steps[rank].back().sequence;
    steps[rank].push_back({StepKind::compute, schedule[rank][next[rank]++], last});
  };
  // Passes that end at or before the exchange go first on both of its ranks.
  const auto issue = [&](std::int32_t at, std::int64_t time, const IssueStep& step) {
    const auto rank = static_cast<std::size_t>(at);
    while (next[rank] < schedule[rank].size() && replay.at(schedule[rank][next[rank]]).end <= time)
      issue_compute(rank);
    steps[rank].push_back(step);
  };
  std::uint32_t sequence = 0;
  for (const Exchange& exchange : exchanges(schedule, replay, others)) {
    ++sequence;
    issue(exchange.from, exchange.time, {exchange.send, exchange.producer, sequence});
    issue(exchange.to, exchange.time, {exchange.recv, exchange.producer, sequence});
  }
  for (std::size_t rank = 0; rank < schedule.size(); ++rank)
    while (next[rank] < schedule[rank].size()) issue_compute(rank);
  return steps;
}

}  // namespace simrun
