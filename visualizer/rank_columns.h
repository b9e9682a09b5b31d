#pragma once

#include "schedules/plan.h"
#include "schedules/timeline.h"
#include "visualizer/columns.h"

namespace simrun {

// One recorded rank of the page (visualizer/src/rank_columns.ts reads the same). Every time is kept to the
// picosecond, as what is left of it when the reader's own guess is taken off, so that times that follow from
// others cost nothing and jitter costs its own bits and no more. Columns, in order; those marked * as planes
// of bytes:
//
//   entries   segment, microbatch of binding 0 and of binding 1 (-1: none)
//   lanes     streams that have one; then per lane: entry differences, instruction differences
//   per lane  after, arrival*, wait*, duration*
//   passes    entry differences, start*, duration*
//   memory    time differences*, then differences of live bytes, one column per category
//
// Boxes are guessed in the order of issue: of the lanes' next boxes the one whose (entry, instruction) is
// least comes first, of equals that of the first lane.
//   arrival   when the box's stream came to it (its start less its wait), less the end of the last box of
//             that order on its own lane (`after` 0) or on lane `after` - 1: what it waited for in this rank
//   duration  less that of the first box of the same instruction of the same segment, which has its own
//   passes    start and duration less those of the compute lane's boxes of the entry, from the first's start
//             to the last's end; where it has none, less the end of the pass before, and 0
void add_rank_columns(const Plan& plan, const RankTimeline& rank, ColumnWriter& columns);

}  // namespace simrun
