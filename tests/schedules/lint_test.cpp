#include "schedules/lint.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>

#include "two_stage_plan.h"

namespace simrun {
namespace {

// Breaks the good plan in one place and expects a sentence with `part` among the findings.
template <class Break>
void expect(const std::string& part, Break break_plan) {
  Plan plan = two_stage_plan();
  break_plan(plan);
  const std::vector<std::string> findings = lint(plan);
  std::string all;
  for (const std::string& finding : findings) all += finding + "\n";
  INFO("expected: " << part << "\nfound:\n" << all);
  CHECK(all.find(part) != std::string::npos);
  CHECK(findings.size() <= 20);
}

// The n-th entry of a program that runs the segment.
std::size_t find_entry(const Program& program, Index segment, int nth = 0) {
  for (std::size_t i = 0; i < program.entries.size(); ++i)
    if (program.entries[i].segment == segment && nth-- == 0) return i;
  FAIL("no such entry");
  return 0;
}
void erase_entry(Plan& plan, std::size_t rank, Index segment, int nth = 0) {
  Program& program = plan.programs[rank];
  program.entries.erase(program.entries.begin() +
                        static_cast<std::ptrdiff_t>(find_entry(program, segment, nth)));
}
void swap_entries(Program& program, std::size_t a, std::size_t b) {
  std::swap(program.entries[a], program.entries[b]);
  std::swap(program.entries[a].sequence, program.entries[b].sequence);
}

}  // namespace

TEST_CASE("lint: a good plan has no findings") {
  CHECK(lint(two_stage_plan()) == std::vector<std::string>{});
}

TEST_CASE("lint: an empty plan is refused, not crashed on") { CHECK_FALSE(lint(Plan{}).empty()); }

TEST_CASE("lint: indices out of range") {
  expect("names a buffer beyond the 14",
         [](Plan& plan) { plan.segments[forward_0].instructions[0].outputs = {14}; });
  expect("runs on stream 3 of 3", [](Plan& plan) { plan.segments[forward_0].instructions[0].stream = 3; });
  expect("has no communication that there is",
         [](Plan& plan) { plan.segments[send_y].instructions[0].communication = 6; });
  expect("has no communication that there is",
         [](Plan& plan) { plan.segments[send_y].instructions[0].communication = no_index; });
  expect("runs segment 99 of 15", [](Plan& plan) { plan.programs[0].entries[3].segment = 99; });
  expect("has 1 bindings from 999", [](Plan& plan) { plan.programs[0].entries[3].first_binding = 999; });
  expect("but its segment uses 2", [](Plan& plan) { plan.segments[forward_0].instructions[1].binding = 1; });
  expect("microbatch 3 of 3", [](Plan& plan) { plan.programs[0].bindings[3].microbatch = 3; });
  expect("binds chunk 2 of 2", [](Plan& plan) { plan.programs[0].bindings[3].chunk = 2; });
  expect("names dimension 4 of 4", [](Plan& plan) { plan.buffers[weight_0].dims[0].name = 4; });
  expect("names extent table 1 of 1", [](Plan& plan) { plan.buffers[weight_0].dims[0].table = 1; });
  expect("is a view of buffer 14 of 14", [](Plan& plan) { plan.buffers[view_0].parent = 14; });
  expect("chunk 1 is on pipeline rank 2 of 2", [](Plan& plan) { plan.chunks[1].pipeline_rank = 2; });
  expect("as its peer", [](Plan& plan) { plan.communications[0].peer.pipeline_rank = 2; });
  expect("names a pipeline rank twice", [](Plan& plan) {
    plan.communications[4].group.pipeline_ranks = {0, 0};
  });
  expect("names a mesh or an axis", [](Plan& plan) { plan.communications[5].group.axes = {1}; });
  expect("program 1 is that of pipeline rank 0", [](Plan& plan) { plan.programs[1].pipeline_rank = 0; });
  expect("stream 0 is not the compute stream", [](Plan& plan) { plan.streams.clear(); });
}

TEST_CASE("lint: sizes that cannot be") {
  expect("negative extent or more than 2^50", [](Plan& plan) { plan.buffers[input_a].dims[0].extent = -1; });
  expect("negative extent or more than 2^50", [](Plan& plan) {
    for (BufferDim& dim : plan.buffers[input_a].dims) dim.extent = std::int64_t{1} << 40;
  });
  expect("reaches beyond 'dw0'", [](Plan& plan) { plan.buffers[view_0].parent_offset = 13; });
  expect("is a view of itself", [](Plan& plan) { plan.buffers[view_0].parent = view_0; });
  expect("is a view of itself", [](Plan& plan) {
    plan.buffers[sum_0].parent = view_0;
    plan.buffers[view_0].dims = plan.buffers[sum_0].dims;
    plan.buffers[view_0].parent_offset = 0;
  });
  expect("splits 1 of 2 dimensions", [](Plan& plan) { plan.buffers[weight_0].split = {"tp"}; });
  expect("split over pipeline ranks that are not there: 'pp:0+7'", [](Plan& plan) {
    plan.buffers[weight_0].split = {"pp:0+7", "tp"};
  });
  expect("split over pipeline ranks that are not there: 'pp:0+x,dp'", [](Plan& plan) {
    plan.buffers[weight_0].split = {"pp:0+x,dp", "tp"};
  });
  expect("has 3 coordinates for 2 devices", [](Plan& plan) { plan.stages[0].meshes[0].axes[0].size = 3; });
  expect("dropout probability", [](Plan& plan) { plan.segments[forward_0].instructions[1].dropout = 1; });
}

TEST_CASE("lint: shapes that disagree") {
  expect("has 'in' = 5 in one input and 4 in the other",
         [](Plan& plan) { plan.buffers[input_a].dims[1].extent = 5; });
  expect("has 'rows' = 9 in an input and 8 in its output",
         [](Plan& plan) { plan.buffers[input_a].dims[0].extent = 9; });
  expect("dimension 'one' in its output and in neither input", [](Plan& plan) {
    plan.buffers[output_y].dims.push_back({3, -1, 1});
  });
  expect("sums over no dimension", [](Plan& plan) { plan.buffers[output_y].dims.push_back({1, -1, 4}); });
  expect("needs two inputs and an output",
         [](Plan& plan) { plan.segments[forward_0].instructions[1].inputs.pop_back(); });
  expect("over 2 GPUs makes 16 elements ('w0') of 12",
         [](Plan& plan) { plan.buffers[shard_0].dims[0].extent = 3; });
  expect("sends 64 bytes, but pipeline rank 1",
         [](Plan& plan) { plan.buffers[received_y].dtype = Dtype::fp32; });
}

TEST_CASE("lint: extents that vary over ranks are not compared") {
  Plan plan = two_stage_plan();
  plan.buffers[input_a].dims[0] = {0, 0, 9};
  CHECK(lint(plan) == std::vector<std::string>{});
}

TEST_CASE("lint: buffers used before they are written or after their FREE") {
  expect("'a' before anything writes it", [](Plan& plan) {
    std::vector<Instruction>& forward = plan.segments[forward_0].instructions;
    forward.erase(forward.begin());
  });
  expect("'y' after its FREE", [](Plan& plan) {
    Program& program = plan.programs[0];
    const std::size_t send = find_entry(program, send_y);
    swap_entries(program, send, send + 1);
  });
  expect("'norm0' before anything writes it", [](Plan& plan) {
    std::vector<Instruction>& step = plan.segments[step_0].instructions;
    step.erase(step.begin());
  });
  expect("reads 'dx received' after its FREE", [](Plan& plan) {
    std::vector<Instruction>& backward = plan.segments[backward_0].instructions;
    std::swap(backward[0], backward[1]);
  });
  expect("frees 'a' twice", [](Plan& plan) {
    std::vector<Instruction>& backward = plan.segments[backward_0].instructions;
    backward.push_back(backward.back());
  });
  expect("'y' after its FREE in entry", [](Plan& plan) {
    Program& program = plan.programs[0];
    const auto free = program.entries.begin() + static_cast<std::ptrdiff_t>(find_entry(program, free_y));
    program.entries.insert(free, *free);
  });
  expect("never frees 'a' of microbatch 0",
         [](Plan& plan) { plan.segments[backward_0].instructions[1].inputs = {gradient_dx_0}; });
  expect("never frees 'y' of microbatch 2", [](Plan& plan) { erase_entry(plan, 0, free_y, 2); });
  expect("never frees 'norm1'", [](Plan& plan) { plan.segments[step_1].instructions[3].inputs = {}; });
  expect("frees 'w0', which lives for the whole run",
         [](Plan& plan) { plan.segments[step_0].instructions[3].inputs.push_back(weight_0); });
  expect("frees the view 'dw0 view'",
         [](Plan& plan) { plan.segments[step_0].instructions[3].inputs.push_back(view_0); });
  expect("reads 'norm0' after its FREE", [](Plan& plan) {
    std::swap(plan.segments[step_0].instructions[0], plan.segments[step_0].instructions[3]);
  });
}

TEST_CASE("lint: the first step is linted beside the steady one") {
  for (const Steps steps : {Steps::not_first, Steps::first_only})
    expect("never frees 'y' of microbatch 2", [&](Plan& plan) {
      Program& program = plan.programs[0];
      program.entries[find_entry(program, free_y, 2)].steps = steps;
    });
}

TEST_CASE("lint: transfers without a partner") {
  expect("send on channel 0 has no RECV", [](Plan& plan) { plan.communications[1].channel = 7; });
  expect("recv on channel 1 has no SEND", [](Plan& plan) { erase_entry(plan, 1, send_dx, 1); });
  expect("do not name each other as peers",
         [](Plan& plan) { plan.communications[0].peer.pipeline_rank = 0; });
  expect("are not one SEND and one RECV", [](Plan& plan) {
    plan.programs[0]
        .bindings[plan.programs[0].entries[find_entry(plan.programs[0], send_y, 1)].first_binding]
        .microbatch = 0;
  });
  expect("is not run exactly once by each of its 2 pipeline ranks", [](Plan& plan) {
    std::vector<Instruction>& step = plan.segments[step_1].instructions;
    step.erase(step.begin() + 1);
  });
  expect("differ on channel 2",
         [](Plan& plan) { plan.segments[step_1].instructions[1].opcode = Opcode::broadcast; });
  expect("has no channel to its peer", [](Plan& plan) { plan.communications[0].channel = no_index; });
}

TEST_CASE("lint: sequences that fall") {
  expect("has sequence 0 behind", [](Plan& plan) { plan.programs[1].entries.back().sequence = 0; });
}

TEST_CASE("lint: a deadlock names the ranks, what each waits in and the microbatch") {
  // Rank 1 asks for microbatch 1 before microbatch 0, which rank 0 sends first.
  expect(
      "deadlock: pipeline rank 0, entry 3 (send y of microbatch 0), send waits for pipeline rank 1; "
      "pipeline rank 1, entry 1 (recv y of microbatch 1), recv waits for pipeline rank 0",
      [](Plan& plan) {
        Program& program = plan.programs[1];
        swap_entries(program, find_entry(program, recv_y, 0), find_entry(program, recv_y, 1));
      });
}

TEST_CASE("lint: passes that are missing, repeated, misplaced or out of order") {
  expect("passes cannot run 3 microbatches", [](Plan& plan) { plan.chunks.resize(6, plan.chunks[1]); });
  expect("chunk 1 never runs the forward of microbatch 2",
         [](Plan& plan) { erase_entry(plan, 1, forward_1, 2); });
  expect("chunk 0 never runs the whole backward of microbatch 1",
         [](Plan& plan) { plan.segments[backward_0].kind = PassKind::backward_input; });
  expect("repeats the forward of chunk 1", [](Plan& plan) {
    Program& program = plan.programs[1];
    const auto forward =
        program.entries.begin() + static_cast<std::ptrdiff_t>(find_entry(program, forward_1));
    program.entries.insert(forward, *forward);
  });
  expect("runs the backward of chunk 1 before the forward that it needs", [](Plan& plan) {
    Program& program = plan.programs[1];
    swap_entries(program, find_entry(program, forward_1, 0), find_entry(program, backward_1, 0));
  });
  expect("a chunk that is not its segment's or not its rank's",
         [](Plan& plan) { plan.chunks[1].pipeline_rank = 0; });
}

TEST_CASE("lint: a hundred thousand entries are checked in a fraction of a second") {
  const Plan plan = two_stage_plan(/*microbatches=*/10'000);
  REQUIRE(plan.programs[0].entries.size() + plan.programs[1].entries.size() > 100'000);
  const auto start = std::chrono::steady_clock::now();
  CHECK(lint(plan) == std::vector<std::string>{});
  CHECK(std::chrono::steady_clock::now() - start <
        std::chrono::seconds(5));  // 0.1 s where nothing is instrumented
}

}  // namespace simrun
