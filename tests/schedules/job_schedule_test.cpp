#include "schedules/job_schedule.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "configs/diagnostics.h"
#include "schedules/compile.h"
#include "schedules/evaluate_schedule.h"
#include "schedules/lint.h"
#include "schedules/schedule_grid.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

// 8 layers on 4 pipeline ranks, 8 microbatches.
Job job_with(const std::string& schedule, int virtual_stages = 1) {
  return job_from(small_gpt(8, 1, 4, 1),
                  {{"parallelism.pipeline_schedule", schedule},
                   {"parallelism.virtual_pipeline_model_parallel_size", std::to_string(virtual_stages)},
                   {"model.untie_embeddings_and_output_weights", "true"},
                   {"training.global_batch_size", "32"}});
}

Job job_with_csv(const std::string& text, int virtual_stages = 1) {
  Job job = job_with(virtual_stages == 1 ? "1f1b" : "interleaved_1f1b", virtual_stages);
  job.parallelism.pipeline_schedule = "mine.csv";
  job.parallelism.schedule_csv = ScheduleText{"mine.csv", text};
  job.parallelism.microbatch_group_size_per_vp_stage = 0;
  return job;
}

std::string csv_of(const Job& job) { return to_csv(job_schedule(job).build(job_schedule(job).shape)); }

int peak_of(const JobSchedule& schedule) {
  const std::vector<int> peaks = evaluate(schedule.build(schedule.shape), schedule.shape).peak_in_flight_at_w;
  return *std::ranges::max_element(peaks);
}

// F 2, I 3, W 1 on every stage, a transfer 1.
PassFacts uneven_times(int stages) {
  return {std::vector<PassTimes>(static_cast<std::size_t>(stages), PassTimes{2, 4, 3, 1, 6, 1})};
}

}  // namespace

TEST_CASE("a schedule from its own CSV gives the same programs, in any placement") {
  const std::vector<std::pair<const char*, int>> cases = {
      {"1f1b", 1}, {"zb_h1", 1}, {"dualpipe", 1}, {"interleaved_1f1b", 2}, {"zb_v", 2}, {"dualpipe_v", 2}};
  for (const auto& [name, virtual_stages] : cases) {
    CAPTURE(name);
    const Job named = job_with(name, virtual_stages);
    const Job from_file = job_with_csv(csv_of(named), virtual_stages);
    const Plan plan = compile(named), same = compile(from_file);
    CHECK(lint(same) == std::vector<std::string>{});
    CHECK(same.programs == plan.programs);
    CHECK(same.segments == plan.segments);
    CHECK(same.job.schedule == "mine.csv");
  }
}

TEST_CASE("a CSV for other sizes than the job's is refused with both") {
  const std::string two_ranks = "0F0,0B0\n1F0,1B0\n";
  CHECK_THROWS_WITH(job_schedule(job_with_csv(two_ranks)),
                    "mine.csv has 2 ranks, but pipeline_model_parallel_size is 4; 1 microbatches, but the "
                    "job's are 8");
  CHECK_THROWS_WITH(job_schedule(job_with_csv(csv_of(job_with("zb_v", 2)))),
                    "mine.csv has 2 stages per rank, but virtual_pipeline_model_parallel_size is 1");
}

TEST_CASE("a CSV whose ranks wait for each other is refused at the place in it") {
  try {
    job_schedule(job_with_csv("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n"));
    FAIL("accepted");
  } catch (const ConfigError& error) {
    REQUIRE(error.diagnostics().size() == 2);
    CHECK(error.diagnostics()[0].position == SourcePosition{"mine.csv", 1, 5});
    CHECK(error.diagnostics()[1].hint.find("<-- ERROR HERE") != std::string::npos);
  }
}

TEST_CASE("zb_auto and v_auto keep the job's memory limit for the times they are given", "[long]") {
  for (const int limit : {4, 5, 8}) {
    Job job = job_with("zb_auto");
    job.parallelism.pipeline_memory_limit = limit;
    CHECK(peak_of(job_schedule(job, uneven_times(4))) <= limit);
    job = job_with("v_auto", 2);
    job.parallelism.pipeline_memory_limit = limit;
    CHECK(peak_of(job_schedule(job, uneven_times(8))) <= limit);
  }
}

TEST_CASE("auto is never worse than a named schedule under its limit, nor better than its bound", "[long]") {
  for (const int limit : {2, 4, 8}) {
    CAPTURE(limit);
    Job job = job_with("auto", 2);
    job.parallelism.pipeline_memory_limit = limit;
    const JobSchedule found = job_schedule(job, uneven_times(8));
    const std::int64_t makespan = evaluate(found.build(found.shape), found.shape).makespan;
    REQUIRE(found.found.has_value());
    CHECK(found.found->makespan_s == static_cast<double>(makespan) * 1e-12);
    CHECK(found.found->lower_bound_s <= found.found->makespan_s);
    CHECK(found.found->memory_limit == limit);
    CHECK(peak_of(found) <= limit);
    for (const char* name : {"interleaved_1f1b", "zb_v", "v_half", "v_min", "v_auto"}) {
      CAPTURE(name);
      Job other = job_with(name, 2);
      other.parallelism.pipeline_memory_limit = limit;
      const JobSchedule named = job_schedule(other, uneven_times(8));
      if (peak_of(named) <= limit)
        CHECK(makespan <= evaluate(named.build(named.shape), named.shape).makespan);
    }
  }
}

TEST_CASE("auto takes whole backwards where more of them fit, and says so") {
  // 8 microbatches on 4 ranks: with one activation in flight everything runs in turn, with 8 nearly nothing
  // waits.
  PassFacts facts = uneven_times(4);
  facts.memory_limit = 1;
  facts.whole_memory_limit = 8;
  const JobSchedule found = job_schedule(job_with("auto"), facts);
  CHECK_FALSE(splits_backward(found.build(found.shape)));
  CHECK(found.found->memory_limit == 8);
  CHECK(found.found->lower_bound_s <= found.found->makespan_s);
}

}  // namespace simrun
