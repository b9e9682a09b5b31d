#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "column_reader.h"
#include "pair_run.h"
#include "schedules/dualpipe.h"
#include "visualizer/chrome_trace.h"
#include "visualizer/payload.h"
#include "visualizer/trace_events.h"

// Overlapped pairs in traces and in the page's data.
namespace simrun {

namespace {

// 3B17 and (0F8;7B3) of a rank, in order, with spaces between.
std::string pass_names(const TraceEvents& events, std::size_t rank) {
  std::string names;
  for (const TraceSlice& slice : events.processes[rank].threads.at(0).slices) {
    const SliceLabel& label = events.labels[slice.label];
    if (label.numbered) names += (names.empty() ? "" : " ") + slice_name(label, slice);
  }
  return names;
}

// Microbatches of plans count over both directions, those of schedules in each.
std::string expected_names(RankOps ops, int microbatches) {
  for (Op& op : ops)
    if (op.direction == Direction::up) op.microbatch += microbatches / 2;
  return to_string(ops);
}

std::map<std::string, std::string> arguments_of(const SliceLabel& label) {
  std::map<std::string, std::string> arguments;
  for (const TraceArgument& argument : label.arguments) {
    const std::int64_t* number = std::get_if<std::int64_t>(&argument.value);
    arguments[argument.name] = number ? std::to_string(*number) : std::get<std::string>(argument.value);
  }
  return arguments;
}

const TraceSlice& slice_at(const TraceEvents& events, const SlicePlace& place) {
  return events.processes[place.process].threads[place.thread].slices[place.slice];
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("traces spell the passes of each rank as the schedule does, pairs too") {
  const PairRun two = pair_run("dualpipe"), one = pair_run("dualpipe_v");
  const TraceEvents bidirectional = trace_events(two.plan, two.timeline),
                    vee = trace_events(one.plan, one.timeline);
  const Schedule down_and_up = dualpipe(4, 8), folded = dualpipe_v(4, 8);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    CHECK(pass_names(bidirectional, rank) == expected_names(down_and_up[rank], 8));
    CHECK(pass_names(vee, rank) == expected_names(folded[rank], 8));
  }
  CHECK(pass_names(bidirectional, 0).find("(0F3;3B5)") != std::string::npos);
}

TEST_CASE("a pair's slice carries stage, chunk, direction and microbatch of both passes") {
  const PairRun run = pair_run();
  const std::string text = chrome_trace(run.plan, run.timeline);
  const std::size_t at = text.find(R"x("cat":"overlapped","name":"(0F3;3B5)")x");
  REQUIRE(at != std::string::npos);
  const std::string line = text.substr(at, text.find('\n', at) - at);
  for (const char* part : {R"("stage":0,"chunk":0,"direction":"down","backward_stage":3,"backward_chunk":1,)",
                           R"("backward_direction":"up",)", R"("microbatch":3,"backward_microbatch":5,)"}) {
    CAPTURE(part, line);
    CHECK(line.find(part) != std::string::npos);
  }
  // A plan of one direction does not name it.
  const PairRun one = pair_run("dualpipe_v");
  CHECK(count_of(chrome_trace(one.plan, one.timeline), "direction") == 0);
}

TEST_CASE("an instruction in a pair carries the stage and microbatch of its own pass") {
  const PairRun run = pair_run();
  const TraceEvents events = trace_events(run.plan, run.timeline);
  std::size_t forwards = 0, backwards = 0;
  for (std::size_t r = 0; r < run.timeline.ranks.size(); ++r) {
    const Program& program = run.plan.programs[r];
    const Lane& compute = run.timeline.ranks[r].lanes[compute_stream];
    for (std::size_t i = 0; i < compute.intervals.size(); ++i) {
      const Entry& entry = program.entries[compute.intervals[i].entry];
      const Segment& segment = run.plan.segments[entry.segment];
      if (segment.kind != PassKind::overlapped) continue;
      const TraceSlice& slice = events.processes[r].threads.at(1).slices[i];
      const std::map<std::string, std::string> arguments = arguments_of(events.labels[slice.label]);
      // Down's stage r is this rank's, up's is 3 - r; a pair is one of each.
      const bool forward = segment.instructions[compute.intervals[i].instruction].phase == Phase::forward;
      const Binding& own = program.bindings[entry.first_binding + (forward ? 0 : 1)];
      CHECK(slice.microbatch == own.microbatch);
      CHECK(slice.second_microbatch == -1);
      CHECK(arguments.at("direction") == (own.microbatch < 4 ? "down" : "up"));
      CHECK(arguments.at("stage") == std::to_string(own.microbatch < 4 ? r : 3 - r));
      ++(forward ? forwards : backwards);
    }
  }
  CHECK(forwards > 0);
  CHECK(backwards > forwards);
}

TEST_CASE("flows join equal microbatches of neighbouring stages, every transfer one") {
  const PairRun run = pair_run();
  const TraceEvents events = trace_events(run.plan, run.timeline);
  // 8 microbatches over 3 borders, forward and back
  CHECK(events.arrows.size() == std::size_t{8} * 3 * 2);
  for (const TraceArrow& arrow : events.arrows) {
    const TraceSlice &send = slice_at(events, arrow.from), &receive = slice_at(events, arrow.to);
    CHECK(send.microbatch == receive.microbatch);
    const auto from = arguments_of(events.labels[send.label]),
               to = arguments_of(events.labels[receive.label]);
    CHECK(from.at("direction") == to.at("direction"));
    CHECK(std::abs(std::stoi(from.at("stage")) - std::stoi(to.at("stage"))) == 1);
  }
}

TEST_CASE("the page's data gives channels to exchanges between pipeline ranks, and to nothing else") {
  const PairRun run = pair_run();
  ColumnReader reader(page_payload(run.plan, run.timeline).columns);
  for (int column = 0; column < 7 + 8; ++column) reader.column();
  const std::vector<std::int64_t> channel = reader.column();
  std::size_t row = 0;
  std::map<std::int64_t, std::size_t> rows;
  for (const Segment& segment : run.plan.segments)
    for (const Instruction& instruction : segment.instructions) {
      const bool transfer = instruction.opcode == Opcode::send || instruction.opcode == Opcode::recv;
      const Index exchange = instruction.communication;
      const Index of = exchange == no_index ? no_index : run.plan.communications[exchange].channel;
      CHECK(channel.at(row) == (of == no_index ? -1 : std::int64_t{of}));
      if (transfer) ++rows[channel[row]];
      ++row;
    }
  CHECK(row == channel.size());
  // 3 borders, two directions, activations and gradients; a send and a receive of each
  CHECK(rows.size() == std::size_t{3} * 2 * 2);
  for (const auto& [of, count] : rows) CHECK(count == 2);
}

TEST_CASE("the page's data gives the backward of a pair its stage, chunk, microbatch and instructions") {
  const PairRun run = pair_run();
  ColumnReader reader(page_payload(run.plan, run.timeline).columns);
  const std::vector<std::int64_t> kind = reader.column();
  reader.column();  // names
  const std::vector<std::int64_t> chunk = reader.column(), stage = reader.column(),
                                  second_chunk = reader.column(), second_stage = reader.column(),
                                  count = reader.column();
  for (int column = 0; column < 9; ++column) reader.column();
  const std::vector<std::int64_t> binding = reader.column();
  reader.column();  // groups
  std::size_t first = 0;
  for (std::size_t s = 0; s < kind.size(); first += static_cast<std::size_t>(count[s++])) {
    const bool pair = run.plan.segments[s].kind == PassKind::overlapped;
    CHECK(kind[s] == static_cast<std::int64_t>(run.plan.segments[s].kind));
    // Of stages r and 3 - r on one rank, in opposite directions
    CHECK(second_stage[s] == (pair ? 3 - stage[s] : -1));
    CHECK(second_chunk[s] == (pair ? 1 - chunk[s] : -1));
    std::int64_t of_backward = 0;
    for (std::size_t i = first; i < first + static_cast<std::size_t>(count[s]); ++i)
      of_backward += binding[i];
    CHECK((of_backward > 0 && of_backward < count[s]) == pair);
  }
  const std::vector<std::int64_t> segment = reader.column(), forward = reader.column(),
                                  backward = reader.column();
  std::string pairs;
  for (std::size_t e = 0; e < segment.size(); ++e) {
    if (kind[static_cast<std::size_t>(segment[e])] == static_cast<std::int64_t>(PassKind::overlapped))
      pairs += std::to_string(forward[e]) + ";" + std::to_string(backward[e]) + " ";
    else
      CHECK(backward[e] == -1);
  }
  std::string expected;
  const RankOps ops = dualpipe_rank(0, 4, 8);
  for (std::size_t i = 0; i < ops.size(); ++i)
    if (ops[i].overlaps_next)
      expected += std::to_string(ops[i].microbatch + (ops[i].direction == Direction::up ? 4 : 0)) + ";" +
                  std::to_string(ops[i + 1].microbatch + (ops[i + 1].direction == Direction::up ? 4 : 0)) +
                  " ";
  CHECK(pairs == expected);
  CHECK_FALSE(expected.empty());
}

}  // namespace simrun
