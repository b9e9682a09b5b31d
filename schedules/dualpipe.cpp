#include "schedules/dualpipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "schedules/accepted_sizes.h"

namespace simrun {
namespace {

// Which of a rank's two pipelines: the one whose start is nearer to the rank, or the other.
enum class Side : std::uint8_t { near, far };

Side other(Side side) { return side == Side::near ? Side::far : Side::near; }

// Collects a rank's passes; each pipeline counts its own microbatches, W's wait in one queue.
class RankList {
 public:
  RankList(int rank, int ranks, int microbatches)
      : rank_(rank),
        ranks_(ranks),
        near_(rank < ranks / 2 ? Direction::down : Direction::up),
        far_(rank < ranks / 2 ? Direction::up : Direction::down) {
    ops_.reserve(static_cast<std::size_t>(microbatches) * 3);
  }
  void forward(Side side) { add(OpKind::forward, side, forwards_[index(side)]++); }
  void backward(Side side) { add(OpKind::backward, side, backwards_[index(side)]++); }
  void backward_input(Side side) {
    add(OpKind::backward_input, side, backwards_[index(side)]++);
    weights_.push_back(ops_.back());
    weights_.back().kind = OpKind::backward_weight;
  }
  void weight() { ops_.push_back(weights_[done_weights_++]); }
  void overlapped(Side forward_side) {
    forward(forward_side);
    ops_.back().overlaps_next = true;
    backward(other(forward_side));
  }
  RankOps take() { return std::move(ops_); }

 private:
  static std::size_t index(Side side) { return static_cast<std::size_t>(side); }
  void add(OpKind kind, Side side, int microbatch) {
    Op op = {kind, rank_, microbatch};
    op.direction = side == Side::near ? near_ : far_;
    if (op.direction == Direction::up) op.stage = ranks_ - 1 - rank_;
    ops_.push_back(op);
  }
  int rank_, ranks_;
  Direction near_, far_;
  std::array<int, 2> forwards_ = {}, backwards_ = {};  // next microbatch by side
  RankOps weights_;                                    // W's of the I's so far
  std::size_t done_weights_ = 0;
  RankOps ops_;
};

// hops: from the rank to the nearer end; to_middle: from there to the middle, where both pipelines meet.
void fill(RankList& list, int hops, int to_middle) {
  for (int i = 0; i < 2 * to_middle; ++i) list.forward(Side::near);
  for (int i = 0; i <= hops; ++i) {
    list.forward(Side::near);
    list.forward(Side::far);
  }
  for (int i = 0; i < to_middle; ++i) {
    list.backward_input(Side::far);
    list.weight();
    list.forward(Side::far);
  }
}

void steady(RankList& list, int pairs, int to_middle) {
  for (int i = 0; i < pairs; ++i) {
    if (i == 0 && to_middle == 0) {  // on the two middle ranks both come from the same exchange
      list.forward(Side::near);
      list.backward(Side::far);
    } else {
      list.overlapped(Side::near);
    }
    list.overlapped(Side::far);
  }
  for (int i = 0; i < to_middle; ++i) {
    list.backward(Side::far);
    list.overlapped(Side::far);
  }
}

void drain(RankList& list, int hops, int to_middle) {
  for (int i = 0; i < 2 * (hops + 1); ++i) {
    const Side side = i % 2 == 0 ? Side::far : Side::near;
    if (i <= hops)
      list.backward(side);
    else
      list.backward_input(side);
  }
  for (int i = 0; i < to_middle; ++i) {
    list.weight();
    list.backward_input(Side::near);
  }
  for (int i = 0; i <= hops; ++i) list.weight();
}

std::string enough_microbatches_rule(const PipelineShape& shape) {
  if (shape.microbatches >= 2 * std::int64_t{shape.ranks}) return "";
  return fmt::format("the fill takes 2 x {} ranks = {} microbatches, not {}", shape.ranks,
                     2 * std::int64_t{shape.ranks}, shape.microbatches);
}

std::string dualpipe_rule(const PipelineShape& shape) {
  if (std::string broken = bidirectional_rule(shape); !broken.empty()) return broken;
  if (shape.microbatches % 2 != 0)
    return fmt::format("two pipelines share an even number of microbatches, not {}", shape.microbatches);
  return enough_microbatches_rule(shape);
}

std::string dualpipe_v_rule(const PipelineShape& shape) {
  const std::string broken = two_stages_rule(shape);
  return broken.empty() ? enough_microbatches_rule(shape) : broken;
}

}  // namespace

RankOps dualpipe_rank(int rank, int ranks, int microbatches) {
  const int hops = std::min(rank, ranks - 1 - rank);
  const int to_middle = ranks / 2 - 1 - hops;
  RankList list(rank, ranks, microbatches);
  fill(list, hops, to_middle);
  steady(list, microbatches / 2 - ranks + hops + 1, to_middle);
  drain(list, hops, to_middle);
  return list.take();
}

Schedule dualpipe(int ranks, int microbatches) {
  Schedule schedule;
  for (int rank = 0; rank < ranks; ++rank) schedule.push_back(dualpipe_rank(rank, ranks, microbatches));
  return schedule;
}

Schedule dualpipe_v(int ranks, int microbatches) {
  Schedule schedule;
  for (int rank = 0; rank < ranks; ++rank) {
    schedule.push_back(dualpipe_rank(rank, 2 * ranks, 2 * microbatches));
    for (Op& op : schedule.back()) op.direction = Direction::down;
  }
  return schedule;
}

std::string dualpipe_refusal(const PipelineShape& shape) { return refusal_with_sizes(shape, dualpipe_rule); }

std::string dualpipe_v_refusal(const PipelineShape& shape) {
  return refusal_with_sizes(shape, dualpipe_v_rule);
}

}  // namespace simrun
