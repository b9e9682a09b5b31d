#include "planner/pipeline_bubbles.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "schedules/evaluate_schedule.h"
#include "schedules/pipeline_schedule.h"

namespace simrun {
namespace {

// Of a step of the schedule with F = I = W = 1 on every stage, beyond a rank's own passes.
double idle_of(const std::string& name, int ranks, int microbatches) {
  const ScheduleEntry* entry = find_schedule(name);
  PipelineShape shape;
  shape.ranks = ranks;
  shape.microbatches = microbatches;
  shape.virtual_stages = entry->default_virtual_stages;
  const auto stages_of_rank = entry->placement == Placement::wave ? 2 : 1;
  return static_cast<double>(evaluate(entry->build(shape), shape).makespan -
                             std::int64_t{3} * stages_of_rank * microbatches);
}

Candidate wave(const std::string& name, int ranks) {
  Candidate of;
  of.schedule = name;
  of.pipeline = ranks;
  of.virtual_stages = 2;
  return of;
}

PartCost equal_passes(int stages) {
  PartCost all;
  all.forward_s = all.input_s = all.weight_s = stages;
  all.backward_s = 2 * stages;
  return all;
}

}  // namespace

TEST_CASE("on 4 ranks with equal passes ZB-V idles 3 of them, V-Half 5, DualPipeV 6 and V-Min 11") {
  CHECK(wave_bubble_s(wave("zb_v", 4), equal_passes(8)) == 3);
  CHECK(wave_bubble_s(wave("v_half", 4), equal_passes(8)) == 5);
  CHECK(wave_bubble_s(wave("dualpipe_v", 4), equal_passes(8)) == 6);
  CHECK(wave_bubble_s(wave("v_min", 4), equal_passes(8)) == 11);
}

TEST_CASE("what waves idle is what their lists idle, whatever the number of ranks") {
  for (const char* name : {"zb_v", "v_half", "v_min", "dualpipe_v"})
    for (int ranks = 2; ranks <= 8; ++ranks) {
      CAPTURE(name, ranks);
      CHECK(wave_bubble_s(wave(name, ranks), equal_passes(2 * ranks)) == idle_of(name, ranks, 2 * ranks));
    }
}

TEST_CASE("DualPipe idles two passes for each stage between a rank and the middle") {
  for (const int ranks : {2, 4, 6, 8})
    CHECK((ranks / 2 - 1) * dualpipe_idle_s(equal_passes(ranks), ranks) ==
          idle_of("dualpipe", ranks, 2 * ranks));
}

// Ranks of 1, 1 and 3: the last begins 2 later than the first and has 6 microbatches of 9 to run; with the
// slow rank in front 54 is all, and what it has put off fills the way back.
TEST_CASE("under ZB-H2 a slow rank costs its own work and the way to it") {
  std::vector<PartCost> stages(3);
  for (PartCost& stage : stages) {
    stage.forward_s = stage.input_s = stage.weight_s = 1;
    stage.backward_s = 2;
  }
  CHECK(without_idling_s(6, stages) == 2 + 18);
  stages[2].forward_s = stages[2].input_s = stages[2].weight_s = 3;
  stages[2].backward_s = 6;
  CHECK(without_idling_s(6, stages) == 2 + 54);
  std::swap(stages[0], stages[2]);
  CHECK(without_idling_s(6, stages) == 54);
}

}  // namespace simrun
