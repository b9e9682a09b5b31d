#pragma once

#include <cstdint>
#include <string>

#include "schedules/plan.h"
#include "schedules/summary.h"
#include "schedules/timeline.h"

namespace simrun {

// A small but complete run made by hand, no compiler or engine involved: 1F1B, one chunk per rank, each layer
// a handful of instructions with two tensor-parallel collectives, transfers between stages, and memory that
// rises by 1 GiB per live microbatch.
struct ExampleRun {
  Plan plan;
  Timeline timeline;
  Summary summary;
};

struct ExampleShape {
  int ranks = 4;
  int microbatches = 8;
  int layers = 2;       // per rank
  bool jitter = false;  // durations that do not repeat
  bool links = false;   // each rank's NVLink (8 equal ones) and one NIC that all ranks' transfers share
  bool unlike = false;  // two of each rank's eight GPUs wait 1 ms longer; they are not recorded
  std::string name = "example";
};
ExampleRun example_run(const ExampleShape& shape = {});

}  // namespace simrun
