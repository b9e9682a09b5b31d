#include "schedules/zb_v.h"

#include <algorithm>
#include <array>

#include "schedules/placement.h"

namespace simrun {
namespace {

// Collects a rank's passes; each chunk counts its own microbatches by kind of pass.
class RankList {
 public:
  RankList(int rank, int ranks, int microbatches)
      : stages_{rank, stage_of(Placement::wave, ranks, rank, 1)}, microbatches_(microbatches) {
    ops_.reserve(static_cast<std::size_t>(microbatches) * 6);
  }
  int forwards(std::size_t chunk) const { return next_[chunk][0]; }
  void forward(std::size_t chunk) { add(OpKind::forward, chunk); }
  void input(std::size_t chunk) { add(OpKind::backward_input, chunk); }
  void weight(std::size_t chunk) { add(OpKind::backward_weight, chunk); }
  void backward(std::size_t chunk) {
    input(chunk);
    weight(chunk);
  }
  void remaining_weights(std::size_t chunk) {
    const auto input_index = static_cast<std::size_t>(OpKind::backward_input);
    const auto weight_index = static_cast<std::size_t>(OpKind::backward_weight);
    while (next_[chunk][weight_index] < next_[chunk][input_index]) weight(chunk);
  }
  RankOps take() { return std::move(ops_); }

 private:
  // Passes of microbatches that do not exist are counted and left out.
  void add(OpKind kind, std::size_t chunk) {
    const int microbatch = next_[chunk][static_cast<std::size_t>(kind)]++;
    if (microbatch < microbatches_) ops_.push_back({kind, stages_[chunk], microbatch});
  }
  std::array<int, 2> stages_;
  int microbatches_;
  std::array<std::array<int, 4>, 2> next_ = {};  // by chunk and kind
  RankOps ops_;
};

RankOps rank_ops(int rank, int ranks, int microbatches) {
  const int count = std::max(microbatches, 2 * ranks - 1);
  const int to_turn = ranks - rank;
  RankList list(rank, ranks, microbatches);
  for (int i = 0; i < 2 * to_turn - 1; ++i) list.forward(0);
  for (int i = 0; i < rank; ++i) {
    list.forward(1);
    list.forward(0);
  }
  for (int i = 0; i < to_turn; ++i) {
    list.forward(1);
    list.backward(1);
  }
  while (list.forwards(1) < list.forwards(0) || list.forwards(0) < count) {
    if (list.forwards(0) < count) list.forward(0);
    list.backward(0);
    list.forward(1);
    list.backward(1);
  }
  for (int i = 0; i < rank; ++i) {
    list.input(0);
    list.input(1);
  }
  for (int i = 0; i < to_turn; ++i) list.backward(0);
  list.remaining_weights(1);
  list.remaining_weights(0);
  return list.take();
}

}  // namespace

Schedule zb_v(int ranks, int microbatches) {
  Schedule schedule;
  for (int rank = 0; rank < ranks; ++rank) schedule.push_back(rank_ops(rank, ranks, microbatches));
  return schedule;
}

}  // namespace simrun
