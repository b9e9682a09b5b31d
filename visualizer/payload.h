#pragma once

#include <string>
#include <vector>

#include "schedules/critical_path.h"
#include "schedules/plan.h"
#include "schedules/timeline.h"

namespace simrun {

// What gets a lane: ranks with something recorded, links with a curve of their use.
bool is_drawn(const RankTimeline& rank);
bool is_drawn(const LinkTimeline& link);

constexpr int use_steps = 10'000;  // a utilisation of 1 in a column

// What the page draws, before compression. `columns` in order (see columns.h; visualizer/src/decode.ts reads
// the same):
//
//   segments       kind, name, chunk index and stage (-1: none), the same of an overlapped pair's backward,
//                  instruction count
//   instructions   of all segments in turn: what (opcode and function), label, cause, phase, layer,
//                  stream, bytes, FLOPs, channel (-1: none), binding, group ("MESH:AXIS,AXIS" of
//                  Plan::stages' meshes; "": none)
//   per drawn rank see rank_columns.h
//   per drawn link differences of its utilisation, in parts of use_steps
//   critical path  differences of drawn rank, of lane and of box, oldest first
//
// Times are picoseconds. Names are indices into `strings`.
struct PagePayload {
  std::string columns;
  std::vector<std::string> strings;
};
// `path`: its ranks are of this timeline.
PagePayload page_payload(const Plan& plan, const Timeline& timeline, const CriticalPath& path = {});

}  // namespace simrun
