#include "visualizer/chrome_trace.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "example_run.h"
#include "transfer_run.h"
#include "visualizer/trace_events.h"

namespace simrun {

namespace {

using Json = nlohmann::json;
using ThreadKey = std::pair<int, int>;  // process and thread number

// As Perfetto reads a time: microseconds to the nearest nanosecond.
std::int64_t nanoseconds(const Json& microseconds) { return std::llround(microseconds.get<double>() * 1000); }

struct Span {
  std::int64_t start = 0, end = 0;
};

struct ReadTrace {
  std::map<ThreadKey, std::vector<Span>> slices;
  std::map<ThreadKey, std::int64_t> picoseconds;  // sum of exact durations
  std::map<std::string, std::vector<Json>> by_phase;
};

ReadTrace read(const std::string& text) {
  ReadTrace trace;
  const Json parsed = Json::parse(text);
  for (const Json& event : parsed.at("traceEvents")) {
    const std::string phase = event.at("ph");
    trace.by_phase[phase].push_back(event);
    if (phase != "X") continue;
    const ThreadKey thread{event.at("pid"), event.at("tid")};
    REQUIRE(!event.at("name").get<std::string>().empty());
    REQUIRE(!event.at("cat").get<std::string>().empty());
    const std::int64_t start = nanoseconds(event.at("ts"));
    trace.slices[thread].push_back({start, start + nanoseconds(event.at("dur"))});
    trace.picoseconds[thread] += event.at("args").at("duration_ps").get<std::int64_t>();
  }
  return trace;
}

// Slices of a thread that begin before the one before them in the file has ended.
std::size_t overlaps(const ReadTrace& trace) {
  std::size_t count = 0;
  for (const auto& [thread, slices] : trace.slices)
    for (std::size_t i = 1; i < slices.size(); ++i)
      if (slices[i].start < slices[i - 1].end) ++count;
  return count;
}

bool inside_a_slice(const ReadTrace& trace, const Json& end) {
  const std::int64_t at = nanoseconds(end.at("ts"));
  for (const Span& slice : trace.slices.at({end.at("pid"), end.at("tid")}))
    if (slice.start < at && at < slice.end) return true;
  return false;
}

std::size_t interval_count(const Timeline& timeline) {
  std::size_t count = 0;
  for (const RankTimeline& rank : timeline.ranks) {
    count += rank.passes.size();
    for (const Lane& lane : rank.lanes) count += lane.intervals.size();
  }
  return count;
}

std::string line_with(const std::string& text, const std::string& part) {
  const std::size_t at = text.find(part);
  if (at == std::string::npos) return "missing";
  const std::size_t begin = text.rfind('\n', at) + 1;
  const std::string line = text.substr(begin, text.find('\n', at) - begin);
  return line.back() == ',' ? line.substr(0, line.size() - 1) : line;
}

}  // namespace

TEST_CASE("chrome trace: a kernel, a transfer and its arrow, written by hand") {
  const TransferRun run = transfer_run();
  const std::string text = chrome_trace(run.plan, run.timeline);
  // (4 x 8 + 8 x 2 + 4 x 2) elements x 2 B = 112 B; 2 x 4 x 8 x 2 = 128 FLOPs
  CHECK(line_with(text, R"("name":"gemm qkv")") ==
        R"({"ph":"X","pid":1,"tid":1001,"ts":0.000,"dur":1.234,"cat":"compute","name":"gemm qkv","args":{)"
        R"("stage":0,"chunk":0,"layer":0,"phase":"forward","bytes":112,"flops":128,"microbatch":5,)"
        R"("start_ps":0,"duration_ps":1234567}})");
  // ends at 3,234,900 ps, so 3,234 - 1,234 ns long; 4 x 2 x 2 B; the cause is escaped
  CHECK(line_with(text, R"("name":"recv")") ==
        R"({"ph":"X","pid":2,"tid":2002,"ts":1.234,"dur":2.000,"cat":"pipeline","name":"recv","args":{)"
        R"("stage":1,"chunk":0,"phase":"forward","bytes":16,"cause":"a \"quoted\" \u003ccause>",)"
        R"("microbatch":5,"wait_us":1.500000,"start_ps":1234567,"duration_ps":2000333}})");
  // a pass is spelled as an op: stage, kind, microbatch
  CHECK(line_with(text, R"("name":"1F5")") ==
        R"({"ph":"X","pid":2,"tid":2000,"ts":3.234,"dur":1.001,"cat":"forward","name":"1F5","args":{)"
        R"("stage":1,"chunk":0,"flops":128,"microbatch":5,"start_ps":3234900,"duration_ps":1000100}})");
  // 100 ns inside both ends
  CHECK(line_with(text, R"("ph":"s")") ==
        R"({"ph":"s","id":1,"pid":1,"tid":1002,"ts":1.334,"cat":"pipeline","name":"transfer"})");
  CHECK(line_with(text, R"("ph":"f")") ==
        R"({"ph":"f","bp":"e","id":1,"pid":2,"tid":2002,"ts":3.134,"cat":"pipeline","name":"transfer"})");
}

TEST_CASE("chrome trace: an instruction that takes no time is a slice of no length") {
  const TransferRun run = transfer_run();
  CHECK(line_with(chrome_trace(run.plan, run.timeline), R"("name":"optimizer")") ==
        R"({"ph":"X","pid":2,"tid":2001,"ts":4.235,"dur":0.000,"cat":"compute","name":"optimizer","args":{)"
        R"("phase":"optimizer","bytes":0,"start_ps":4235000,"duration_ps":0}})");
}

TEST_CASE("chrome trace: recorded GPUs in pipeline order, passes above compute above the other streams") {
  const TransferRun run = transfer_run();
  std::vector<std::string> processes, threads;
  std::vector<int> process_order, thread_order;
  ReadTrace trace = read(chrome_trace(run.plan, run.timeline));
  for (const Json& event : trace.by_phase.at("M")) {
    const std::string name = event.at("name");
    if (name == "process_name") processes.push_back(event.at("args").at("name"));
    if (name == "thread_name") threads.push_back(event.at("args").at("name"));
    if (name == "process_sort_index") process_order.push_back(event.at("args").at("sort_index"));
    if (name == "thread_sort_index") thread_order.push_back(event.at("args").at("sort_index"));
  }
  CHECK(processes == std::vector<std::string>{"pp 0 gpu 0 (x16)", "pp 1 gpu 8", "links"});
  CHECK(process_order == std::vector<int>{0, 1, 2});
  CHECK(threads == std::vector<std::string>{"passes", "compute", "pp", "passes", "compute", "pp"});
  CHECK(thread_order == std::vector<int>{0, 1, 2, 0, 1, 2});
}

TEST_CASE("chrome trace: without lanes the passes are the slices of the compute thread") {
  TransferRun run = transfer_run();
  for (RankTimeline& rank : run.timeline.ranks) rank.lanes.clear();
  ReadTrace trace = read(chrome_trace(run.plan, run.timeline));
  CHECK(trace.by_phase.at("X").size() == 3);  // 0F5, 1F5, step
  CHECK(trace.by_phase.count("s") == 0);
  for (const Json& event : trace.by_phase.at("M"))
    if (event.at("name") == "thread_name") CHECK(event.at("args").at("name") == "compute");
}

TEST_CASE("chrome trace: the facts of the run stand in otherData, user text escaped") {
  const TransferRun run = transfer_run();
  const Json facts = Json::parse(chrome_trace(run.plan, run.timeline)).at("otherData");
  CHECK(facts.at("job") == "two \"ranks\"");
  CHECK(facts.at("engine") == "by hand");
  CHECK(facts.at("simrun_version") == "0.1.0");
  CHECK(facts.at("config_sha256") == "0123abcd");
  CHECK(facts.at("step_time_ps") == 4'235'000);
}

TEST_CASE("chrome trace: a link's utilisation is a counter in percent that ends at 0") {
  const TransferRun run = transfer_run();
  std::vector<std::pair<std::int64_t, double>> samples;
  const ReadTrace trace = read(chrome_trace(run.plan, run.timeline));
  for (const Json& event : trace.by_phase.at("C"))
    if (event.at("name") == "node0.nic0.tx (x4)")
      samples.emplace_back(nanoseconds(event.at("ts")), event.at("args").at("percent").get<double>());
  // 4,235,000 ps in four
  CHECK(samples ==
        std::vector<std::pair<std::int64_t, double>>{{0, 0}, {1058, 50}, {2117, 25}, {3176, 0}, {4235, 0}});
}

TEST_CASE("chrome trace: slices of any run are all there, keep their times and never overlap") {
  const ExampleRun run =
      example_run({.ranks = 4, .microbatches = 8, .layers = 2, .jitter = GENERATE(false, true)});
  const ReadTrace trace = read(chrome_trace(run.plan, run.timeline));
  CHECK(overlaps(trace) == 0);
  CHECK(trace.by_phase.at("X").size() == interval_count(run.timeline));
  for (std::size_t r = 0; r < run.timeline.ranks.size(); ++r) {
    const int pid = static_cast<int>(r) + 1;
    for (std::size_t lane = 0; lane < run.timeline.ranks[r].lanes.size(); ++lane) {
      std::int64_t total = 0;
      for (const Interval& interval : run.timeline.ranks[r].lanes[lane].intervals) total += interval.duration;
      CHECK(trace.picoseconds.at({pid, 1000 * pid + static_cast<int>(lane) + 1}) == total);
    }
  }
}

TEST_CASE("chrome trace: slices that touch at fractions of a nanosecond do not overlap when read") {
  TransferRun run = transfer_run();
  std::vector<Interval>& intervals = run.timeline.ranks[0].lanes[0].intervals;
  intervals.clear();
  Picoseconds now = 0;
  for (int i = 0; i < 1000; ++i) {
    const Picoseconds duration = 600 + 7 * i;  // each rounds up on its own
    intervals.push_back({now, duration, 0, 0, 0});
    now += duration;
  }
  CHECK(overlaps(read(chrome_trace(run.plan, run.timeline))) == 0);
}

TEST_CASE("chrome trace: memory counters are the memory events, every one, in time order") {
  const ExampleRun run = example_run();
  std::map<int, std::vector<Json>> counters;
  const ReadTrace trace = read(chrome_trace(run.plan, run.timeline));
  for (const Json& event : trace.by_phase.at("C")) counters[event.at("pid")].push_back(event);
  for (std::size_t r = 0; r < run.timeline.ranks.size(); ++r) {
    const std::vector<MemoryEvent>& events = run.timeline.ranks[r].memory;
    const std::vector<Json>& read_back = counters.at(static_cast<int>(r) + 1);
    REQUIRE(read_back.size() == events.size());
    for (std::size_t i = 0; i < events.size(); ++i) {
      CHECK(nanoseconds(read_back[i].at("ts")) == events[i].time / 1000);
      if (i > 0) CHECK(read_back[i].at("ts").get<double>() >= read_back[i - 1].at("ts").get<double>());
      std::int64_t total = 0, expected = 0;
      for (const auto& [category, bytes] : read_back[i].at("args").items())
        total += bytes.get<std::int64_t>();
      for (const std::int64_t bytes : events[i].live) expected += bytes;
      CHECK(total == expected);
      CHECK(read_back[i].at("args").at("activations") ==
            events[i].live[static_cast<std::size_t>(Category::activations)]);
    }
  }
}

TEST_CASE("chrome trace: every arrow has one start and one end, inside slices, forward in time") {
  const TransferRun run = transfer_run();
  const ReadTrace trace = read(chrome_trace(run.plan, run.timeline));
  const std::vector<Json>&starts = trace.by_phase.at("s"), &ends = trace.by_phase.at("f");
  REQUIRE(starts.size() == 1);
  REQUIRE(ends.size() == starts.size());
  std::map<int, Json> start_of;
  for (const Json& start : starts) CHECK(start_of.emplace(start.at("id").get<int>(), start).second);
  for (const Json& end : ends) {
    const Json& start = start_of.at(end.at("id"));
    CHECK(end.at("ts").get<double>() >= start.at("ts").get<double>());
    CHECK(end.at("bp") == "e");
    CHECK(inside_a_slice(trace, start));
    CHECK(inside_a_slice(trace, end));
    start_of.erase(end.at("id").get<int>());
  }
  CHECK(start_of.empty());
}

TEST_CASE("chrome trace: transfers are matched by channel, microbatch, sequence slice and ranks") {
  TransferRun run = transfer_run();
  CHECK(trace_events(run.plan, run.timeline).arrows.size() == 1);
  SECTION("another channel") { run.plan.communications[1].channel = 8; }
  SECTION("another microbatch") { run.plan.programs[1].bindings[0].microbatch = 6; }
  SECTION("another slice") { run.plan.programs[1].bindings[0].slice = 1; }
  SECTION("from another rank") { run.plan.communications[1].peer.pipeline_rank = 2; }
  SECTION("a receive that ends before the send begins") {
    run.timeline.ranks[1].lanes[0].intervals[0] = {0, 1'000'000, 0, 0, 0};
  }
  CHECK(trace_events(run.plan, run.timeline).arrows.empty());
}

TEST_CASE("chrome trace: no ranks and no links is still a trace") {
  const Json empty = Json::parse(chrome_trace(Plan{}, Timeline{}));
  CHECK(empty.at("traceEvents").empty());
}

TEST_CASE("chrome trace: one run is always the same bytes") {
  CHECK(chrome_trace(example_run().plan, example_run().timeline) ==
        chrome_trace(example_run().plan, example_run().timeline));
}

}  // namespace simrun
