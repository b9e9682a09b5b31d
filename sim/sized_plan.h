#pragma once

#include "schedules/extent_tables.h"
#include "schedules/plan.h"

namespace simrun {

// What pricing an instruction needs of a plan, on another GPU than the cluster's first: a plan without
// segments and programs.
Plan priced_plan(const Plan& plan, const Gpu& gpu);

// A plan as one GPU sees it in one microbatch: the buffers of an instruction have the extents that its tables
// give, so that what prices an instruction from a plan need not know of tables.
class SizedPlan {
 public:
  explicit SizedPlan(const Plan& plan);  // must outlive it

  // A plan without segments and programs in which only the buffers of this instruction may be looked at;
  // until the next call. The plan itself if it has no tables.
  const Plan& at(const TablePlace& place, const Instruction& instruction);

 private:
  const Plan& plan_;
  Plan sized_;
};

}  // namespace simrun
