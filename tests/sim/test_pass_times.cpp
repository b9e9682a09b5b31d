#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>

#include "schedules/compile.h"
#include "schedules/evaluate_schedule.h"
#include "sim/activation_limit.h"
#include "sim/pass_times.h"
#include "sim/plan_job.h"
#include "sim/simulate.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

Job job_with(const std::string& schedule, int virtual_stages, std::vector<Override> overrides = {}) {
  overrides.insert(overrides.begin(),
                   {{"parallelism.pipeline_schedule", schedule},
                    {"parallelism.virtual_pipeline_model_parallel_size", std::to_string(virtual_stages)},
                    {"model.untie_embeddings_and_output_weights", "true"},
                    {"training.global_batch_size", "16"}});  // 8 microbatches of 2
  return job_from(small_gpt(8, 2, 4, 1), overrides);
}

// From the start of the step's first pass to the end of its last one.
Picoseconds span_of_passes(const Plan& plan) {
  Picoseconds first = std::numeric_limits<Picoseconds>::max(), last = 0;
  for (const RankTimeline& rank : simulate(plan, {Detail::passes}).ranks) {
    const Program& program = plan.programs[static_cast<std::size_t>(rank.pipeline_rank)];
    for (const PassInterval& pass : rank.passes) {
      if (plan.segments[program.entries[pass.entry].segment].kind == PassKind::step) continue;
      first = std::min(first, pass.start);
      last = std::max(last, pass.start + pass.duration);
    }
  }
  return last - first;
}

double relative(std::int64_t a, std::int64_t b) {
  return static_cast<double>(a) / static_cast<double>(b) - 1;
}

std::int64_t peak_bytes(const Plan& plan) {
  std::int64_t peak = 0;
  for (const RankTimeline& rank : simulate(plan).ranks) peak = std::max(peak, rank.peak.bytes);
  return peak;
}

}  // namespace

TEST_CASE("the passes of one GPU take the time that its simulated step gives them") {
  const Plan plan = compile(job_from(
      small_gpt(4, 1, 1, 1),
      {{"cluster.gpus_per_node", "1"}, {"cluster.nics_per_node", "1"}, {"training.global_batch_size", "8"}}));
  const std::vector<PassTimes> times = pass_times(plan);
  REQUIRE(times.size() == 1);
  // 4 microbatches of 2 sequences: F0 B0 F1 B1 F2 B2 F3 B3 without a gap. The backward of the second adds
  // to gradients, as most do.
  const RankTimeline rank = simulate(plan, {Detail::passes}).ranks.front();
  REQUIRE(rank.passes.size() >= 8);
  CHECK(times[0].forward == rank.passes[2].duration);
  CHECK(times[0].backward == rank.passes[3].duration);
  CHECK(times[0].backward_input == (times[0].backward + 1) / 2);
  CHECK(times[0].communication == 0);
}

// Gradients of activations are summed over tensor-parallel ranks beside the kernels of weights' gradients, if
// nothing keeps those waiting.
TEST_CASE("where exchanges block compute, passes take the time that a simulated step gives them") {
  const auto job = [](std::vector<Override> overrides) {
    overrides.push_back({"training.global_batch_size", "8"});
    return job_from(small_gpt(4, 8, 1, 1), overrides);
  };
  std::int64_t hidden = 0;
  for (const Override& how :
       {Override{"cluster.communication", "overlapped"}, Override{"cluster.communication", "blocking"},
        Override{"framework", "{kernels: {blocking_tensor_parallel: true}}"}}) {
    CAPTURE(how.value);
    const Plan plan = compile(job({how}));
    const PassTimes times = pass_times(plan).at(0);
    // F0 B0 F1 B1 F2 B2 F3 B3: from the second forward to the third.
    const std::vector<PassInterval> passes = simulate(plan, {Detail::passes}).ranks.front().passes;
    const Picoseconds pair = passes.at(4).start - passes.at(2).start;
    CHECK(relative(times.forward + times.backward, pair) == Approx(0).margin(1e-3));
    if (how.value == "overlapped")
      hidden = times.backward;
    else
      CHECK(times.backward > hidden + hidden / 50);
  }
}

TEST_CASE("a schedule's own model with a plan's pass times is what the simulator finds") {
  const std::vector<std::pair<const char*, int>> cases = {
      {"1f1b", 1}, {"zb_h1", 1}, {"zb_auto", 1}, {"interleaved_1f1b", 2}, {"zb_v", 2}, {"v_auto", 2}};
  for (const auto& [name, virtual_stages] : cases)
    for (const char* sequence_parallel : {"false", "true"}) {
      CAPTURE(name, sequence_parallel);
      const Job job = job_with(name, virtual_stages, {{"parallelism.sequence_parallel", sequence_parallel}});
      const Plan plan = plan_job(job);
      JobSchedule schedule = job_schedule(job, {pass_times(plan)});
      const std::int64_t model = evaluate(schedule.build(schedule.shape), schedule.shape).makespan;
      CHECK(std::abs(relative(span_of_passes(plan), model)) < 0.02);
    }
}

TEST_CASE("planned with simulated times a step is no longer than with FLOP counts, nor than the fixed order",
          "[long]") {
  const auto step = [](const Plan& plan) { return simulate(plan).step; };
  for (const char* limit : {"4", "6", "8"}) {
    CAPTURE(limit);
    const Job zb = job_with("zb_auto", 1, {{"parallelism.pipeline_memory_limit", limit}});
    CHECK(relative(step(plan_job(zb)), step(compile(zb))) < 0.001);
    CHECK(relative(step(plan_job(zb)), step(compile(job_with("zb_h1", 1)))) < 0.001);
  }
  const Job v = job_with("v_auto", 2, {{"parallelism.pipeline_memory_limit", "6"}});
  CHECK(relative(step(plan_job(v)), step(compile(v))) < 0.001);
  CHECK(relative(step(plan_job(v)), step(compile(job_with("v_half", 2)))) < 0.001);
}

TEST_CASE("an overlapped pair takes less than its passes where their collectives hide behind each other") {
  for (const PassTimes& times :
       pass_times(compile(job_with("1f1b", 1, {{"parallelism.sequence_parallel", "true"}})))) {
    CHECK(times.overlapped < times.forward + times.backward);
    CHECK(times.overlapped > times.backward);
  }
  // Without tensor parallelism there is nothing to hide.
  for (const PassTimes& times :
       pass_times(compile(job_with("1f1b", 1, {{"parallelism.tensor_model_parallel_size", "1"}}))))
    CHECK(relative(times.overlapped, times.forward + times.backward) < 1e-6);
}

TEST_CASE("no named schedule of the job's stages and memory has a shorter step than auto", "[long]") {
  for (const char* limit : {"5", "9", "12"}) {
    const std::vector<Override> sequence_parallel = {{"parallelism.sequence_parallel", "true"}};
    std::vector<Override> limited = sequence_parallel;
    limited.push_back({"parallelism.pipeline_memory_limit", limit});
    const Plan found = plan_job(job_with("auto", 2, limited));
    CHECK(found.job.found_schedule->lower_bound_s <= found.job.found_schedule->makespan_s);
    for (const char* name : {"interleaved_1f1b", "interleaved_1f1b_overlap", "interleaved_zb", "zb_v",
                             "v_half", "v_min", "dualpipe_v", "looped_bfs", "hanayo"}) {
      CAPTURE(limit, name);
      const Job named = job_with(name, 2, sequence_parallel);
      PipelineShape shape = job_schedule(named).shape;
      const ScheduleTimes times = evaluate(job_schedule(named).build(shape), shape);
      const int peak = *std::max_element(times.peak_in_flight_at_w.begin(), times.peak_in_flight_at_w.end());
      if (peak > std::stoi(limit)) continue;
      CHECK(simulate(found).step <= simulate(plan_job(named)).step);
    }
  }
}

TEST_CASE("auto fills the GPU and no more", "[long]") {
  const Plan roomy = plan_job(job_with("auto", 1));
  REQUIRE(roomy.job.found_schedule.has_value());
  CHECK(roomy.job.found_schedule->memory_limit == 0);  // 8 microbatches fit an A100
  CHECK(roomy.job.found_schedule->lower_bound_s <= roomy.job.found_schedule->makespan_s);
  // As much as 1F1B needs, and a little more: 4 activations on rank 0, but one beside the logits of rank 3,
  // so that a limit for every rank alone would leave nothing in flight.
  const std::int64_t needed = peak_bytes(compile(job_with("1f1b", 1)));
  const std::string memory = std::to_string(needed / (1 << 20) + 8) + " MiB";
  const std::vector<Override> tight = {{"cluster.gpu", "{from: a100_sxm_80gb, memory: " + memory + "}"},
                                       {"cluster.reserved_memory", "0 MiB"}};
  const Plan plan = plan_job(job_with("auto", 1, tight));
  CHECK(activation_limit(compile(job_with("zb_h1", 1, tight))) == 1);
  CHECK(plan.job.found_schedule->memory_limit <= 4);
  CHECK(plan.job.schedule == "auto");
  CHECK(peak_bytes(plan) <= plan.cluster.gpu.memory_bytes);
  CHECK(simulate(plan).step <= simulate(compile(job_with("1f1b", 1, tight))).step);
}

TEST_CASE("what a rank can hold grows with its memory, by the bytes of an activation") {
  Plan plan = compile(job_with("gpipe", 1));
  CHECK(activation_limit(plan) == 0);  // all 8 fit
  plan.cluster.reserved_bytes = 0;
  plan.cluster.gpu.memory_bytes = peak_bytes(plan);  // exactly what gpipe needs of 8 at once
  CHECK(activation_limit(plan) == 0);
  int before = 8;
  for (int taken = 1; taken <= 4; ++taken) {
    plan.cluster.gpu.memory_bytes -= peak_bytes(plan) / 20;
    const int limit = activation_limit(plan);
    CHECK(limit < 8);
    CHECK(limit >= 1);
    CHECK(limit <= before);
    before = limit;
  }
}

}  // namespace simrun
