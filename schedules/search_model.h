#pragma once

#include <cstdint>
#include <vector>

#include "schedules/pipeline_schedule.h"

namespace simrun {

// What the searches work on. All microbatches are alike, so some best order runs them first in, first out in
// every lane; an order is then told by the kind and lane of each pass alone.

// One stage of one direction on the rank that holds it.
struct ScheduleLane {
  int rank = 0;
  int stage = 0;
  Direction direction = Direction::down;
  int previous = -1;  // lane of the stage before, -1: none
  int next = -1;
  int microbatches = 0;
  PassTimes times;
  std::int64_t forward_delay = 0;   // from the end of the previous lane's F to when this lane has it
  std::int64_t backward_delay = 0;  // from the end of the next lane's I or B
};

struct SearchModel {
  Placement placement = Placement::loop;
  int ranks = 1;
  int memory_limit = 0;  // activations alive on a rank, from F to W; never 0 here
  std::vector<ScheduleLane> lanes;
  std::vector<std::vector<int>> lanes_of;  // by rank, in order of the stage: the first F before the last
};

// Without a limit in the shape, every activation may be alive. REQUIRES: shape.slices == 1, an even number of
// microbatches if bidirectional.
SearchModel make_search_model(const PipelineShape& shape, Placement placement);

// Activations that a rank must hold at least: one per lane, or the last microbatch could not pass.
int least_memory(const SearchModel& model);

struct Pass {
  OpKind kind = OpKind::forward;
  std::uint16_t lane = 0;
  bool operator==(const Pass&) const = default;
};
using PassList = std::vector<Pass>;
using PassOrder = std::vector<PassList>;  // by rank

Schedule to_schedule(const SearchModel& model, const PassOrder& order);
// Empty if the schedule does not run first in, first out. An overlapped pair becomes F and B.
PassOrder to_pass_order(const SearchModel& model, const Schedule& schedule);

// Most activations alive on any rank, from F to B or `released_by` (W or I).
int peak_in_flight(const PassOrder& order, OpKind released_by = OpKind::backward_weight);

struct OrderTimes {
  std::int64_t makespan = 0;  // -1: the lists wait for each other
  std::int64_t span = 0;      // most time of a rank from the start of its first pass to the end of its last
};

// The evaluation of evaluate_schedule.h for one pass order after the other, without allocating anew.
class OrderEvaluator {
 public:
  explicit OrderEvaluator(const SearchModel& model);
  OrderTimes run(const PassOrder& order);
  // Of the last order: start of each pass, and the order in which passes were reached, inputs first.
  const std::vector<std::vector<std::int64_t>>& starts() const { return starts_; }
  struct Place {
    int rank = 0;
    int index = 0;
  };
  const std::vector<Place>& reached() const { return reached_; }

 private:
  void advance(int rank, const PassList& passes);

  const SearchModel* model_;
  std::vector<std::vector<std::int64_t>> forward_end_, backward_end_;  // by lane and microbatch
  std::vector<int> forwards_, backwards_;                              // passes done, by lane
  std::vector<std::vector<std::int64_t>> starts_;
  std::vector<std::int64_t> free_at_;
  std::vector<Place> reached_;
};

}  // namespace simrun
