#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "schedules/evaluate_schedule.h"
#include "schedules/run_lists.h"

namespace simrun {

Placement likeliest_placement(const Schedule& schedule) {
  const int ranks = static_cast<int>(schedule.size());
  std::int64_t ops_in_all = 0;
  std::int64_t loop = 0;  // ops on the rank that the placement wants
  std::int64_t wave = 0;
  for (int rank = 0; rank < ranks; ++rank)
    for (const Op& op : schedule[static_cast<std::size_t>(rank)]) {
      if (op.direction == Direction::up) return Placement::bidirectional;
      ++ops_in_all;
      if (op.stage < 0) continue;
      if (rank_of(Placement::loop, ranks, op.stage) == rank) ++loop;
      if (rank_of(Placement::wave, ranks, op.stage) == rank) ++wave;
    }
  // Of two directions one fits, half of the ops.
  if (4 * std::max(loop, wave) < 3 * ops_in_all) {
    const auto fits_either = [&](int rank, const Op& op) {
      return op.stage == rank || op.stage == ranks - 1 - rank;
    };
    std::int64_t either = 0;
    for (int rank = 0; rank < ranks; ++rank)
      for (const Op& op : schedule[static_cast<std::size_t>(rank)])
        if (fits_either(rank, op)) ++either;
    if (either > std::max(loop, wave)) return Placement::bidirectional;
  }
  return wave > loop ? Placement::wave : Placement::loop;
}

namespace {

constexpr std::size_t most_faults = 20;

// Which passes of one (direction, stage, microbatch, slice) were met: a bit per OpKind.
using Passes = std::uint8_t;
constexpr Passes bit(OpKind kind) { return static_cast<Passes>(1U << static_cast<unsigned>(kind)); }

class ScheduleCheck {
 public:
  ScheduleCheck(const Schedule& schedule, const PipelineShape& shape)
      : schedule_(schedule), shape_(shape), placement_(likeliest_placement(schedule)) {
    const bool bidirectional = placement_ == Placement::bidirectional;
    stages_ = stage_count(placement_, shape.ranks, shape.virtual_stages);
    directions_ = bidirectional ? 2 : 1;
    microbatches_ = shape.microbatches / directions_;
  }

  std::vector<ScheduleFault> faults() {
    if (refuse_size()) return std::move(faults_);
    met_.assign(cells(), 0);
    for (int rank = 0; rank < shape_.ranks; ++rank) check_list(rank);
    report_missing();
    if (faults_.empty()) report_stuck();
    return std::move(faults_);
  }

 private:
  std::size_t cells() const {
    return std::size_t(directions_) * std::size_t(stages_) * std::size_t(microbatches_) *
           std::size_t(shape_.slices);
  }

  void add(int rank, std::size_t op, std::string message) {
    if (faults_.size() < most_faults) faults_.push_back({rank, op, std::move(message)});
  }

  // Sizes that leave nothing to check op by op, or far more (stage, microbatch) cells than there are ops.
  bool refuse_size() {
    if (schedule_.size() != std::size_t(shape_.ranks))
      add(0, 0, fmt::format("{} lists of ops for {} pipeline ranks", schedule_.size(), shape_.ranks));
    if (shape_.microbatches % directions_ != 0)
      add(0, 0,
          fmt::format("{} microbatches do not split into two directions of equally many",
                      shape_.microbatches));
    if (!faults_.empty()) return true;
    std::size_t ops = 0;
    for (const RankOps& list : schedule_) ops += list.size();
    if (cells() <= 16 * ops + 1024) return false;
    add(0, schedule_[0].size(),
        fmt::format("{} ops in all; {} stages and {} microbatches need at least {}", ops, stages_,
                    shape_.microbatches, 2 * cells()));
    return true;
  }

  void check_list(int rank) {
    const RankOps& ops = schedule_[std::size_t(rank)];
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (const std::string outside = out_of_range(ops[i]); !outside.empty()) {
        add(rank, i, outside);
        continue;
      }
      const int home = rank_of(placement_, shape_.ranks, ops[i].stage, ops[i].direction);
      if (home != rank)
        add(rank, i, fmt::format("{}: stage {} lives on rank {}", to_string(ops[i]), ops[i].stage, home));
      else if (const std::string wrong = out_of_order(ops[i]); !wrong.empty())
        add(rank, i, wrong);
      met_[cell(ops[i])] |= bit(ops[i].kind);
      if (ops[i].overlaps_next && !is_pair(ops, i))
        add(rank, i,
            fmt::format("{}: only a forward and the full backward behind it run as one overlapped step",
                        to_string(ops[i])));
    }
  }

  std::string out_of_range(const Op& op) const {
    if (op.direction == Direction::up && directions_ == 1)
      return fmt::format("{} runs up a pipeline that only runs down", to_string(op));
    if (op.stage < 0 || op.stage >= stages_)
      return fmt::format("{}: there are stages 0 to {}", to_string(op), stages_ - 1);
    if (op.microbatch < 0 || op.microbatch >= microbatches_)
      return fmt::format("{}: there are microbatches 0 to {}{}", to_string(op), microbatches_ - 1,
                         directions_ == 2 ? " in each direction" : "");
    if (op.slice < 0 || op.slice >= shape_.slices)
      return fmt::format("{}: there are slices 0 to {}", to_string(op), shape_.slices - 1);
    return "";
  }

  // What is wrong with an op after those met so far. Its own stage's ops are all on its rank, so the order
  // of the list decides.
  std::string out_of_order(const Op& op) const {
    const Passes met = met_[cell(op)];
    if ((met & bit(op.kind)) != 0) return fmt::format("{} runs twice", to_string(op));
    const auto with = [&](OpKind kind) {
      Op other = op;
      other.kind = kind;
      return to_string(other);
    };
    const auto has = [&](OpKind kind) { return (met & bit(kind)) != 0; };
    if (op.kind == OpKind::forward) return "";
    if (op.kind == OpKind::backward_weight) {
      if (has(OpKind::backward))
        return fmt::format("{} beside the full backward {}", to_string(op), with(OpKind::backward));
      if (!has(OpKind::backward_input))
        return fmt::format("{} runs before {}", to_string(op), with(OpKind::backward_input));
      return "";
    }
    for (const OpKind other : {OpKind::backward, OpKind::backward_input, OpKind::backward_weight})
      if (has(other) && !(op.kind == OpKind::backward_input && other == OpKind::backward_weight))
        return fmt::format("{} beside {}: a backward is whole or split", to_string(op), with(other));
    if (!has(OpKind::forward)) return fmt::format("{} runs before {}", to_string(op), with(OpKind::forward));
    return "";
  }

  static bool is_pair(const RankOps& ops, std::size_t i) {
    return ops[i].kind == OpKind::forward && i + 1 < ops.size() && ops[i + 1].kind == OpKind::backward &&
           !ops[i + 1].overlaps_next;
  }

  std::size_t cell(const Op& op) const {
    return ((std::size_t(op.direction) * std::size_t(stages_) + std::size_t(op.stage)) *
                std::size_t(microbatches_) +
            std::size_t(op.microbatch)) *
               std::size_t(shape_.slices) +
           std::size_t(op.slice);
  }

  // One fault per rank, behind its last op, that names the first ops it never runs.
  void report_missing() {
    std::vector<RankOps> missing(schedule_.size());
    for (int direction = 0; direction < directions_; ++direction)
      for (int stage = 0; stage < stages_; ++stage) {
        const int rank = rank_of(placement_, shape_.ranks, stage, Direction(direction));
        for (int m = 0; m < microbatches_; ++m)
          for (int slice = 0; slice < shape_.slices; ++slice)
            add_missing({OpKind::forward, stage, m, slice, Direction(direction)}, missing[std::size_t(rank)]);
      }
    for (std::size_t rank = 0; rank < missing.size(); ++rank)
      if (!missing[rank].empty())
        add(static_cast<int>(rank), schedule_[rank].size(),
            never_runs(static_cast<int>(rank), missing[rank]));
  }

  void add_missing(Op op, RankOps& missing) const {
    const Passes met = met_[cell(op)];
    const auto lacks = [&](OpKind kind) { return (met & bit(kind)) == 0; };
    if (lacks(OpKind::forward)) missing.push_back(op);
    op.kind = lacks(OpKind::backward_weight) ? OpKind::backward : OpKind::backward_input;
    if (lacks(OpKind::backward) && lacks(OpKind::backward_input)) missing.push_back(op);
    op.kind = OpKind::backward_weight;
    if (!lacks(OpKind::backward_input) && lacks(op.kind)) missing.push_back(op);
  }

  static std::string never_runs(int rank, const RankOps& missing) {
    constexpr std::size_t named = 4;
    const RankOps first(missing.begin(),
                        missing.begin() + static_cast<std::ptrdiff_t>(std::min(named, missing.size())));
    std::string text = fmt::format("rank {} never runs {}", rank, to_string(first));
    if (missing.size() > named) text += fmt::format(" and {} more", missing.size() - named);
    return text;
  }

  void report_stuck() {
    const ListRun run = run_lists(schedule_, shape_);
    for (int rank = 0; rank < shape_.ranks; ++rank) {
      const RankOps& ops = schedule_[std::size_t(rank)];
      const std::size_t at = run.stuck_at[std::size_t(rank)];
      if (at == ops.size()) continue;
      std::string reason = waits_for(run, ops[at]);
      if (reason.empty() && ops[at].overlaps_next) reason = waits_for(run, ops[at + 1]);
      add(rank, at, reason);
    }
  }

  // "1B0 waits for 2B0, which rank 2 does not reach", or "" if all its inputs are there.
  std::string waits_for(const ListRun& run, const Op& op) const {
    const OpInputs inputs = inputs_of(op, stages_ - 1, shape_.slices - 1);
    for (std::size_t i = 0; i < inputs.count; ++i) {
      const OpInput& input = inputs.of[i];
      const int rank = rank_of(placement_, shape_.ranks, input.stage, op.direction);
      const RankOps& ops = schedule_[std::size_t(rank)];
      const auto gives = [&](const Op& other) {
        const bool kind = input.forward
                              ? other.kind == OpKind::forward
                              : other.kind == OpKind::backward || other.kind == OpKind::backward_input;
        return kind && other.stage == input.stage && other.microbatch == op.microbatch &&
               other.slice == input.slice && other.direction == op.direction;
      };
      const auto giver = std::find_if(ops.begin(), ops.end(), gives);
      if (giver != ops.end() && std::size_t(giver - ops.begin()) >= run.stuck_at[std::size_t(rank)])
        return fmt::format("{} waits for {}, which rank {} does not reach", to_string(op), to_string(*giver),
                           rank);
    }
    return "";
  }

  const Schedule& schedule_;
  const PipelineShape& shape_;
  Placement placement_;
  int stages_ = 1;
  int directions_ = 1;
  int microbatches_ = 1;
  std::vector<Passes> met_;
  std::vector<ScheduleFault> faults_;
};

}  // namespace

std::vector<ScheduleFault> check_schedule(const Schedule& schedule, const PipelineShape& shape) {
  return ScheduleCheck(schedule, shape).faults();
}

}  // namespace simrun
