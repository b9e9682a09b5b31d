#pragma once

#include <string>
#include <vector>

#include "schedules/pipeline_schedule.h"

namespace simrun {

// What one reference list takes under stated pass times.
struct VectorFigures {
  PassTimes times;
  std::int64_t makespan = 0;
  std::vector<std::int64_t> idle;  // by rank
  std::vector<std::int64_t> span_idle;
};

// One entry of tests/data/schedule-vectors.txt, whose head explains the fields.
struct ScheduleVector {
  std::string schedule;
  std::string variant;
  PipelineShape shape;  // with the times and the memory limit that a search was given
  Placement placement = Placement::loop;
  bool exact = false;
  bool canonical = false;
  int copies = 1;
  std::string memory = "1,0,-1";  // what F, I, W add to a rank's memory, in the units of the limit
  std::vector<VectorFigures> figures;
  std::vector<int> peak_at_w;
  std::vector<int> peak_at_i;
  Schedule ops;
};

std::vector<ScheduleVector> read_schedule_vectors();

}  // namespace simrun
