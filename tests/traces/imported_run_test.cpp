#include "traces/imported_run.h"

#include <catch2/catch.hpp>

#include "tests/traces/kineto_sample.h"
#include "traces/compare_imported.h"
#include "traces/imported_exchanges.h"
#include "traces/imported_timeline.h"
#include "traces/imported_totals.h"

namespace simrun {
namespace {

const char* const all_reduce_args =
    ", \"Collective name\": \"allreduce\", \"In msg nelems\": 1024, \"Group size\": 2, \"dtype\": \"Float\", "
    "\"Process Group Name\": \"0\", \"Process Group Ranks\": \"[0, 1]\"";

ImportedRun run_of(const std::vector<std::string>& events) {
  return imported_run({read_text(kineto_trace(events))});
}

std::int64_t noted(const ImportedRun& run, const std::string& what) {
  const auto found = run.notes.find(what);
  return found == run.notes.end() ? 0 : found->second.count;
}

const ComparedTime* row(const std::vector<ComparedTime>& rows, const std::string& name) {
  const auto found = std::ranges::find(rows, name, &ComparedTime::name);
  return found == rows.end() ? nullptr : &*found;
}

// Step n begins at 1000 n us on the host; its one kernel starts 50 us later and takes `took`.
std::vector<std::string> step(int n, double took) {
  const double begin = 1000.0 * n;
  return {kineto_host("user_annotation", "ProfilerStep#" + std::to_string(n), begin, 900),
          kineto_launch(begin + 10, n), kineto_kernel("gemm", begin + 50, took, n)};
}

ImportedRun steps_of_lengths(const std::vector<double>& took) {
  std::vector<std::string> events;
  int n = 1;
  for (const double of : took)
    for (std::string& event : step(n++, of)) events.push_back(std::move(event));
  return run_of(events);
}

}  // namespace

TEST_CASE("imported run: a kernel belongs to the step in which it was launched, however late it ran") {
  const ImportedRun run =
      run_of({kineto_host("user_annotation", "ProfilerStep#1", 0, 100), kineto_launch(90, 1),
              kineto_launch(95, 2), kineto_kernel("gemm", 100, 50, 1), kineto_kernel("gemm", 150, 60, 2),
              kineto_host("user_annotation", "ProfilerStep#2", 101, 100), kineto_launch(120, 3),
              kineto_kernel("gemm", 210, 30, 3), kineto_launch(500, 4), kineto_kernel("gemm", 510, 30, 4)});
  REQUIRE(run.ranks.size() == 1);
  const ImportedRank& rank = run.ranks[0];
  REQUIRE(rank.steps.size() == 2);
  CHECK(rank.steps[0].length_ns == 110'000);  // 100 to 210 us: longer than from mark to mark
  CHECK(rank.steps[1].length_ns == 100'000);  // its own
  CHECK(rank.step.number == 2);               // the first is a warm-up
  CHECK(rank.kernels.size() == 1);
  CHECK(noted(run, "kernels outside of every marked step") == 1);
}

TEST_CASE(
    "imported run: a step is from mark to mark, so that time in which the GPU waits for the host counts") {
  // Marks at 0, 1000 and 2000 us, of 900 us each; a kernel of 100 us begins 50 us behind each.
  const ImportedRun run = steps_of_lengths({100, 100, 100});
  REQUIRE(run.ranks[0].steps.size() == 3);
  CHECK(run.ranks[0].steps[1].begin_ns == 2'000'000);
  CHECK(run.ranks[0].steps[1].length_ns == 1'000'000);
  CHECK(run.ranks[0].steps[2].length_ns == 900'000);
  CHECK(run.ranks[0].kernels[0].start_ns == 50'000);
  // A GPU that is 600 us behind the host: the step is as long, and begins as late as its kernels need.
  const ImportedRun late = run_of({kineto_host("user_annotation", "ProfilerStep#1", 0, 900),
                                   kineto_launch(10, 1), kineto_kernel("gemm", 600, 1000, 1),
                                   kineto_host("user_annotation", "ProfilerStep#2", 1000, 900),
                                   kineto_launch(1010, 2), kineto_kernel("gemm", 1600, 1000, 2)});
  CHECK(late.ranks[0].steps[0].begin_ns == 600'000);
  CHECK(late.ranks[0].steps[0].length_ns == 1'000'000);
  CHECK(late.ranks[0].steps[1].length_ns == 1'000'000);
}

TEST_CASE("imported run: a step before others that the profiler left out ends with its own mark") {
  const ImportedRun run = run_of([] {
    std::vector<std::string> events;
    const std::vector<std::pair<int, double>> marks{{3, 0}, {4, 1000}, {9, 50000}};
    for (const auto& [number, begin] : marks) {
      events.push_back(kineto_host("user_annotation", "ProfilerStep#" + std::to_string(number), begin, 900));
      events.push_back(kineto_launch(begin + 10, number));
      events.push_back(kineto_kernel("gemm", begin + 50, 40, number));
    }
    return events;
  }());
  CHECK(run.length_ns == 900'000);  // of step 4, not the 49,000 us to step 9's mark
}

TEST_CASE("imported run: of several steps the median behind the first is taken") {
  const ImportedRun run = run_of([] {
    std::vector<std::string> events;
    const std::vector<double> begins{0, 5000, 6200, 7100, 8100};  // lengths 5000, 1200, 900, 1000, 40
    for (std::size_t n = 0; n < begins.size(); ++n) {
      const int number = static_cast<int>(n) + 3;
      events.push_back(
          kineto_host("user_annotation", "ProfilerStep#" + std::to_string(number), begins[n], 30));
      events.push_back(kineto_launch(begins[n] + 10, number));
      events.push_back(kineto_kernel("gemm", begins[n] + 50, 40, number));
    }
    return events;
  }());
  CHECK(run.ranks[0].step.number == 5);  // of 40, 900, 1000 and 1200 us the lower one of the middle
  CHECK(run.length_ns == 900'000);
}

TEST_CASE("imported run: the step that a cut falls into is none") {
  const auto of_step = [](int number) {
    const double begin = 1000.0 * number;
    return std::vector{kineto_host("user_annotation", "ProfilerStep#" + std::to_string(number), begin, 900),
                       kineto_launch(begin + 10, number), kineto_kernel("gemm", begin + 50, 40, number),
                       kineto_launch(begin + 100, 10 + number),
                       kineto_kernel("norm", begin + 150, 40, 10 + number)};
  };
  std::vector<std::string> events;
  for (int number = 1; number < 4; ++number)
    for (std::string& event : of_step(number)) events.push_back(std::move(event));
  const auto steps_before = [&](const std::string& cut) {
    std::string text = kineto_trace(events);
    text.resize(text.find(cut, text.find("ProfilerStep#3")));
    std::vector<std::int64_t> numbers;
    const ImportedRun run = imported_run({read_text(text)});
    CHECK(run.notes.contains("the file was cut off; what stands before was read"));
    for (const ImportedStep& step : run.ranks[0].steps) numbers.push_back(step.number);
    return numbers;
  };
  REQUIRE(imported_run({read_text(kineto_trace(events))}).ranks[0].steps.size() == 3);
  CHECK(steps_before("gemm") == std::vector<std::int64_t>{1, 2});  // no kernel of step 3
  CHECK(steps_before("norm") == std::vector<std::int64_t>{1, 2});  // one of two
}

TEST_CASE("imported run: the cut of a file whose kernels stand behind the host's marks takes their step") {
  std::vector<std::string> events;
  for (int number = 1; number < 4; ++number) {
    events.push_back(
        kineto_host("user_annotation", "ProfilerStep#" + std::to_string(number), 1000.0 * number, 900));
    events.push_back(kineto_launch(1000.0 * number + 10, number));
  }
  for (int number = 1; number < 4; ++number)
    events.push_back(kineto_kernel("gemm", 1000.0 * number + 50, 40, number));
  std::string text = kineto_trace(events);
  text.resize(text.rfind("gemm"));
  const ImportedRun run = imported_run({read_text(text)});
  CHECK(run.ranks[0].steps.size() == 1);
  CHECK(run.ranks[0].step.number == 1);  // step 2 may lack kernels
}

TEST_CASE("imported run: whatever the steps, all kernels of all steps are seen once") {
  for (int count = 1; count < 6; ++count) {
    CAPTURE(count);
    const ImportedRun run = steps_of_lengths(std::vector<double>(static_cast<std::size_t>(count), 100));
    CHECK(run.ranks[0].steps.size() == static_cast<std::size_t>(count));
    CHECK(run.ranks[0].kernels.size() == 1);
    CHECK((run.ranks[0].step.number > 1) == (count > 1));  // the first is a warm-up
    CHECK(run.notes.empty());
  }
}

TEST_CASE("imported run: phases follow from where the host launched, nested or not") {
  const std::string backward = "autograd::engine::evaluate_function: MmBackward0";
  const std::string checkpoint = "autograd::engine::evaluate_function: CheckpointFunctionBackward";
  const ImportedRun run =
      run_of({kineto_launch(10, 1), kineto_kernel("gemm", 1000, 1, 1),                       // forward
              kineto_host("cpu_op", backward, 100, 50, 200), kineto_launch(120, 2, 200),     //
              kineto_kernel("gemm", 1010, 2, 2),                                             // backward
              kineto_host("cpu_op", checkpoint, 200, 100, 200), kineto_launch(210, 3, 200),  //
              kineto_kernel("gemm", 1020, 4, 3),                                             // recompute
              kineto_host("cpu_op", backward, 220, 50, 200), kineto_launch(230, 4, 200),     //
              kineto_kernel("gemm", 1030, 8, 4),                                             // backward
              kineto_launch(290, 5, 200), kineto_kernel("gemm", 1040, 16, 5),                // recompute
              kineto_host("user_annotation", "Optimizer.step#AdamW.step", 400, 50), kineto_launch(410, 6),  //
              kineto_kernel("vectorized_elementwise_kernel", 1060, 32, 6),                // optimizer
              kineto_kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 1100, 64, 7, 20),  //
              kineto_launch(120, 8), kineto_kernel("gemm", 1170, 128, 8)});  // another thread: forward
  const ImportedComparison tally = tally_imported(run);
  const auto us = [&](const char* name) { return row(tally.rows.by_phase, name)->measured_s * 1e6; };
  CHECK(us("forward") == Approx(1 + 128));
  CHECK(us("backward") == Approx(2 + 8));
  CHECK(us("recompute") == Approx(4 + 16));
  CHECK(us("optimizer") == Approx(32));
  CHECK(us("communication") == Approx(64));
  CHECK(row(tally.rows.by_phase, "unassigned") == nullptr);
}

TEST_CASE("imported run: without the host's operators a name alone may say the phase") {
  const ImportedRun run =
      run_of({kineto_kernel("gemm", 0, 1, 1), kineto_kernel("flash_bwd_dq_dk_dv_kernel", 2, 2, 2),
              kineto_kernel("multi_tensor_apply_kernel<FusedAdam>", 5, 4, 3)});
  const ImportedComparison tally = tally_imported(run);
  CHECK(row(tally.rows.by_phase, "unassigned")->measured_s == Approx(1e-6));
  CHECK(row(tally.rows.by_phase, "backward")->measured_s == Approx(2e-6));
  CHECK(row(tally.rows.by_phase, "optimizer")->measured_s == Approx(4e-6));
}

TEST_CASE("imported run: kernels that nobody knows are counted and listed, most time first") {
  const ImportedRun run = run_of({kineto_kernel("mystery_a", 0, 1, 1), kineto_kernel("mystery_b", 2, 5, 2),
                                  kineto_kernel("mystery_a", 8, 1, 3), kineto_kernel("gemm", 10, 1, 4)});
  const std::vector<UnknownKernel> unknown = unknown_kernels(run);
  REQUIRE(unknown.size() == 2);
  CHECK(unknown[0].name == "mystery_b");
  CHECK(unknown[1].count == 2);
  const ImportedComparison tally = tally_imported(run);
  CHECK(row(tally.rows.by_kind, "unknown")->instructions == 3);
  CHECK(row(tally.rows.by_kind, "unknown")->measured_s == Approx(7e-6));
}

TEST_CASE("imported run: kernels that overlap on a stream keep their whole durations, on a further lane") {
  const ImportedRun run = run_of({kineto_kernel("gemm", 0, 10, 1), kineto_kernel("gemm", 8, 10, 2),
                                  kineto_kernel("gemm", 12, 10, 3), kineto_kernel("gemm", 18, 1, 4)});
  CHECK(noted(run, "kernels that overlap others of their stream, drawn beside them") ==
        2);  // those at 8 and 18 us
  CHECK(tally_imported(run).rows.by_kind[0].measured_s == Approx(31e-6));
  const ImportedTimeline imported = imported_timeline(plan_of_ranks(run), run);
  for (const Lane& lane : imported.timeline.ranks[0].lanes)
    for (std::size_t i = 1; i < lane.intervals.size(); ++i)
      CHECK(lane.intervals[i - 1].start + lane.intervals[i - 1].duration <= lane.intervals[i].start);
}

TEST_CASE("imported run: of slices inside one another only the innermost count") {
  const RecordedTrace trace = read_text(
      R"([{"ph":"X","name":"layer","pid":1,"tid":1,"ts":0,"dur":10}, {"ph":"X","name":"gemm a","pid":1,"tid":1,"ts":1,"dur":4},
          {"ph":"X","name":"gemm b","pid":1,"tid":1,"ts":5,"dur":5}])");
  const ImportedRun run = imported_run({trace});
  CHECK(run.ranks[0].kernels.size() == 2);
  CHECK(noted(run, "events around others, which are counted instead") == 1);
  CHECK(tally_imported(run).rows.by_kind[0].measured_s == Approx(9e-6));
}

TEST_CASE("imported totals: compute, exposed, hidden and idle of a step that a pencil can add up") {
  // compute 0-10 and 20-30 us, exchange 5-15, idle 15-20 and behind 30; the step ends at 40 with a send
  // 35-40.
  const ImportedRun run = run_of({kineto_kernel("gemm", 0, 10, 1), kineto_kernel("gemm", 20, 10, 2),
                                  kineto_kernel("ncclDevKernel_AllReduce_Sum", 5, 10, 3, 20),
                                  kineto_kernel("ncclDevKernel_SendRecv(x)", 35, 5, 4, 24)});
  const RankTotals totals = imported_totals(run.ranks[0], run.length_ns);
  constexpr Picoseconds us = 1'000'000;
  CHECK(run.length_ns == 40'000);
  CHECK(totals.compute == 20 * us);
  CHECK(totals.exposed[static_cast<std::size_t>(Traffic::data)] == 5 * us);
  CHECK(totals.hidden[static_cast<std::size_t>(Traffic::data)] == 5 * us);
  CHECK(totals.bubble[static_cast<std::size_t>(BubbleCause::imbalance)] == 10 * us);
  CHECK(totals.bubble[static_cast<std::size_t>(BubbleCause::p2p)] == 5 * us);
  CHECK(totals.compute + totals.exposed_total() + totals.bubble_total() == 40 * us);
}

TEST_CASE("imported run: clocks that differ are set by common exchanges, and waits are split off") {
  // Rank 1's clock is 5 s ahead. It comes 30 us later to the exchange, whose two kernels end at once.
  const auto trace = [](int rank, double clock, double late) {
    return read_text(kineto_trace({kineto_kernel("gemm", clock, 10 + late, 1),
                                   kineto_kernel("ncclDevKernel_AllReduce_Sum_f32", clock + 10 + late,
                                                 50 - late, 2, 20, all_reduce_args)},
                                  rank, 2),
                     "rank" + std::to_string(rank));
  };
  const ImportedRun run = imported_run({trace(1, 5e6, 30), trace(0, 0, 0)});
  REQUIRE(run.ranks.size() == 2);
  CHECK(run.ranks[0].rank == 0);
  CHECK(run.ranks[1].step.begin_ns == 0);
  CHECK(noted(run, "clocks that differ, set by the ends of common exchanges") == 1);
  CHECK(run.ranks[0].kernels[1].wait_ns == 30'000);
  CHECK(run.ranks[1].kernels[1].wait_ns == 0);
  CHECK(run.split.contains(Opcode::all_reduce));
  const std::vector<ImportedExchange> exchanges = imported_exchanges(run);
  REQUIRE(exchanges.size() == 1);
  CHECK(exchanges[0].ranks == 2);
  CHECK(exchanges[0].bytes == 4096);  // 1024 of f32
  CHECK(exchanges[0].count == 2);
  CHECK(exchanges[0].median_s == Approx(20e-6));
  CHECK(row(tally_imported(run).rows.by_kind, "all_reduce")->measured_s == Approx(40e-6));  // 20 us each
}

TEST_CASE("imported run: two traces of one rank are refused, unnamed ones take the free numbers") {
  const auto trace = [](int rank) { return read_text(kineto_trace({kineto_kernel("gemm", 0, 1, 1)}, rank)); };
  CHECK_THROWS_WITH(imported_run({trace(2), trace(2)}), Catch::Contains("rank 2"));
  RecordedTrace unnamed = trace(0);
  unnamed.rank.reset();
  const ImportedRun run = imported_run({unnamed, trace(0), unnamed});
  CHECK(run.ranks[0].rank == 0);
  CHECK(run.ranks[1].rank == 1);
  CHECK(run.ranks[2].rank == 2);
  RecordedTrace named = unnamed;
  named.path = "/runs/8x8/worker_rank-13.pt.trace.json";
  CHECK(imported_run({named}).ranks[0].rank == 13);
}

TEST_CASE("imported run: a step of hours is refused, since its times are no microseconds") {
  CHECK_THROWS_WITH(run_of({kineto_kernel("gemm", 0, 1, 1), kineto_kernel("gemm", 1e11, 1, 2)}),
                    Catch::Contains("the step would take 27.8 hours"));
}

TEST_CASE("imported run: what no device does is refused before it takes long") {
  std::vector<std::string> at_once, processes;
  for (int i = 0; i < 300; ++i) {
    at_once.push_back(kineto_kernel("gemm", i, 1000, i + 1));
    processes.push_back(kineto_event("kernel", "gemm", i, 1, fmt::format("\"pid\": {}, \"tid\": 7", i), ""));
  }
  CHECK_THROWS_WITH(run_of(at_once), Catch::Contains("more than 64 events overlap on stream 7"));
  CHECK_THROWS_WITH(run_of(processes), Catch::Contains("events of 300 processes lie in one file"));
  processes.resize(11);  // 9 before 10: devices have their ranks
  const ImportedRun run = run_of(processes);
  REQUIRE(run.ranks.size() == 11);
  CHECK(run.ranks[10].step.begin_ns == 10'000);
}

TEST_CASE("imported timeline: passes are the runs of kernels of one direction on the busiest stream") {
  const std::string backward = "autograd::engine::evaluate_function: MmBackward0";
  std::vector<std::string> events;
  int n = 0;
  for (const char direction : std::string("FFBBFBS")) {
    ++n;
    if (direction == 'B') events.push_back(kineto_host("cpu_op", backward, 10.0 * n, 8, 200));
    if (direction == 'S')
      events.push_back(kineto_host("user_annotation", "Optimizer.step#Adam.step", 10.0 * n, 8));
    events.push_back(kineto_launch(10.0 * n + 2, n, direction == 'B' ? 200 : 100));
    events.push_back(kineto_kernel("gemm", 1000 + 10.0 * n, 9, n));
  }
  const ImportedRun run = run_of(events);
  const ImportedTimeline imported = imported_timeline(plan_of_ranks(run), run);
  const std::vector<PassInterval>& passes = imported.timeline.ranks[0].passes;
  REQUIRE(passes.size() == 5);  // FF BB F B S
  CHECK(passes[0].duration == 19'000'000);
  CHECK(passes[1].start == 20'000'000);
  const Program& program = imported.plan.programs[0];
  CHECK(imported.plan.segments[program.entries[passes[1].entry].segment].kind == PassKind::backward);
  CHECK(imported.plan.segments[program.entries[passes[4].entry].segment].kind == PassKind::step);
  CHECK(program.bindings[program.entries[passes[2].entry].first_binding].microbatch == 1);
}

}  // namespace simrun
