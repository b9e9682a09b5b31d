#include "schedules/run_lists.h"

#include <algorithm>

namespace simrun {

OpInputs inputs_of(const Op& op, int last_stage, int last_slice) {
  OpInputs inputs;
  const auto add = [&](OpInput input) { inputs.of[inputs.count++] = input; };
  switch (op.kind) {
    case OpKind::forward:
      if (op.slice > 0) add({true, op.stage, op.slice - 1});
      if (op.stage > 0) add({true, op.stage - 1, op.slice});
      break;
    case OpKind::backward:
    case OpKind::backward_input:
      add({true, op.stage, op.slice});
      if (op.slice < last_slice) add({false, op.stage, op.slice + 1});
      if (op.stage < last_stage) add({false, op.stage + 1, op.slice});
      break;
    case OpKind::backward_weight: add({false, op.stage, op.slice}); break;
  }
  return inputs;
}

namespace {

class ListRunner {
 public:
  ListRunner(const Schedule& schedule, const PipelineShape& shape) : schedule_(schedule), shape_(shape) {
    measure();
    run_.start.resize(schedule.size());
    run_.end.resize(schedule.size());
    run_.stuck_at.resize(schedule.size());
    for (std::size_t rank = 0; rank < schedule.size(); ++rank) {
      run_.start[rank].reserve(schedule[rank].size());
      run_.end[rank].reserve(schedule[rank].size());
      awake_.push_back(static_cast<int>(rank));
    }
    free_at_.resize(schedule.size());
    next_sleeper_.resize(schedule.size());
  }

  ListRun run() {
    while (!awake_.empty()) {
      const int rank = awake_.back();
      awake_.pop_back();
      run_rank(rank);
    }
    for (std::size_t rank = 0; rank < schedule_.size(); ++rank)
      if (run_.stuck_at[rank] < schedule_[rank].size()) run_.finished = false;
    return std::move(run_);
  }

 private:
  // Sizes the table of results by the largest numbers in the lists and notes which rank holds which stage.
  void measure() {
    for (const RankOps& ops : schedule_)
      for (const Op& op : ops) {
        stages_ = std::max(stages_, std::size_t(op.stage) + 1);
        microbatches_ = std::max(microbatches_, std::size_t(op.microbatch) + 1);
        slices_ = std::max(slices_, std::size_t(op.slice) + 1);
        directions_ = std::max(directions_, std::size_t(op.direction) + 1);
      }
    rank_of_.assign(directions_ * stages_, 0);
    for (std::size_t rank = 0; rank < schedule_.size(); ++rank)
      for (const Op& op : schedule_[rank])
        rank_of_[stage_slot(op.direction, op.stage)] = static_cast<int>(rank);
    results_.assign(2 * directions_ * stages_ * microbatches_ * slices_, nothing);
  }

  std::size_t stage_slot(Direction direction, std::int32_t stage) const {
    return std::size_t(direction) * stages_ + std::size_t(stage);
  }

  std::size_t result_slot(const Op& op, const OpInput& of) const {
    const std::size_t kind = of.forward ? 0 : directions_ * stages_;
    return ((kind + stage_slot(op.direction, of.stage)) * microbatches_ + std::size_t(op.microbatch)) *
               slices_ +
           std::size_t(of.slice);
  }

  void run_rank(int rank) {
    const RankOps& ops = schedule_[std::size_t(rank)];
    std::size_t& next = run_.stuck_at[std::size_t(rank)];
    while (next < ops.size()) {
      const bool pair = ops[next].overlaps_next && next + 1 < ops.size();
      const std::int64_t arrival = inputs_there(rank, ops[next]);
      const std::int64_t partner_arrival = pair && arrival >= 0 ? inputs_there(rank, ops[next + 1]) : arrival;
      if (partner_arrival < 0) return;
      const std::int64_t start = std::max({free_at_[std::size_t(rank)], arrival, partner_arrival});
      const PassTimes& times = shape_.times_of(ops[next].stage);
      const std::int64_t end = start + (pair ? times.overlapped : times.of(ops[next].kind));
      free_at_[std::size_t(rank)] = end;
      for (const std::size_t behind = next + (pair ? 2 : 1); next < behind; ++next) {
        run_.start[std::size_t(rank)].push_back(start);
        run_.end[std::size_t(rank)].push_back(end);
        publish(ops[next], end);
      }
    }
  }

  // When the last input of the op arrives, or `nothing`: one is missing and the rank sleeps on it.
  std::int64_t inputs_there(int rank, const Op& op) {
    const OpInputs inputs = inputs_of(op, int(stages_) - 1, int(slices_) - 1);
    std::int64_t arrival = 0;
    for (std::size_t i = 0; i < inputs.count; ++i) {
      const OpInput& input = inputs.of[i];
      std::int64_t& result = results_[result_slot(op, input)];
      if (result < 0) {
        next_sleeper_[std::size_t(rank)] = result;
        result = first_sleeper - rank;
        return nothing;
      }
      const bool local = rank_of_[stage_slot(op.direction, input.stage)] == rank;
      arrival = std::max(arrival, local ? result : result + shape_.times_of(input.stage).communication);
    }
    return arrival;
  }

  void publish(const Op& op, std::int64_t end) {
    if (op.kind == OpKind::backward_weight) return;
    const OpInput own = {op.kind == OpKind::forward, op.stage, op.slice};
    std::int64_t& result = results_[result_slot(op, own)];
    for (std::int64_t sleeper = result; sleeper <= first_sleeper;) {
      const int rank = static_cast<int>(first_sleeper - sleeper);
      awake_.push_back(rank);
      sleeper = next_sleeper_[std::size_t(rank)];
    }
    result = end;
  }

  // A result: its end, or `nothing` yet, or the rank r that sleeps on it as first_sleeper - r, the next
  // sleeper (or nothing) in next_sleeper_[r].
  static constexpr std::int64_t nothing = -1;
  static constexpr std::int64_t first_sleeper = -2;

  const Schedule& schedule_;
  const PipelineShape& shape_;
  std::size_t stages_ = 1;
  std::size_t microbatches_ = 1;
  std::size_t slices_ = 1;
  std::size_t directions_ = 1;
  std::vector<int> rank_of_;  // by direction and stage
  std::vector<std::int64_t> results_;
  std::vector<std::int64_t> next_sleeper_;
  std::vector<std::int64_t> free_at_;
  std::vector<int> awake_;
  ListRun run_;
};

}  // namespace

ListRun run_lists(const Schedule& schedule, const PipelineShape& shape) {
  return ListRunner(schedule, shape).run();
}

}  // namespace simrun
