#pragma once

#include <cstddef>
#include <vector>

#include "planner/candidate.h"
#include "planner/pass_costs.h"

namespace simrun {

// Seconds that one microbatch takes from each pipeline rank to the next.
class PipelineSends {
 public:
  // The candidate and the seconds, one less than pipeline ranks, must outlive it.
  PipelineSends(const Candidate& candidate, const std::vector<double>& boundaries);

  // From a stage to the next one; 0 where both lie on one rank.
  double behind(std::size_t stage) const;
  double sum() const { return sum_; }
  double slowest() const { return slowest_; }
  // Of the two boundaries of a rank that has two, together; at most.
  double slowest_rank() const;
  double first() const { return boundaries_.front(); }
  double last() const { return boundaries_.back(); }

 private:
  const Candidate& candidate_;
  const std::vector<double>& boundaries_;
  double sum_ = 0, slowest_ = 0;
};

// What the passes of a step wait for transfers between pipeline ranks, beyond the bubbles of its schedule.
struct PipelineWaits {
  double once_s = 0;            // of the first microbatches and the last ones
  double per_microbatch_s = 0;  // of every microbatch but as many as there are pipeline ranks
};

// A transfer begins when its receiver posts it, a pass ahead of the one that reads it, and where ranks are in
// step with each other nothing but that pass hides it (schedules/send_recv.h). Which ones wait follows from
// the order of the schedule's passes; in closed form, of stages that take about equally long.
// REQUIRES: at least two pipeline ranks.
PipelineWaits pipeline_waits(const Candidate& candidate, double microbatches,
                             const std::vector<PartCost>& stages, const PipelineSends& sends);

// Seconds from microbatch to microbatch of ZB-V where ranks with less work than the slowest wait for it: what
// they receive, twice from each neighbour, is ready when they post it, and of four transfers weight gradients
// hide one. 0: there are no such ranks. ranks: of all stages there.
double lighter_ranks_s(const std::vector<PartCost>& ranks, const std::vector<double>& sends_s);

}  // namespace simrun
