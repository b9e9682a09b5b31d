#include "traces/read_chrome.h"

#include <catch2/catch.hpp>

#include "tests/traces/kineto_sample.h"

namespace simrun {
namespace {

Diagnostic refusal(const std::string& text) {
  try {
    read_text(text);
  } catch (const ConfigError& error) {
    return error.diagnostics().front();
  }
  return {};
}

std::int64_t noted_in_trace(const RecordedTrace& trace, const std::string& what) {
  const auto found = trace.notes.find(what);
  return found == trace.notes.end() ? 0 : found->second.count;
}

}  // namespace

TEST_CASE("Kineto: kernels, launches, steps, rank and device come from where the profiler writes them") {
  const RecordedTrace trace = read_text(kineto_trace(
      {kineto_host("user_annotation", "ProfilerStep#5", 1000, 500),
       kineto_host("cpu_op", "aten::mm", 1010, 20), kineto_launch(1015, 31),
       kineto_kernel("sgemm", 1712345678901234.567, 100.25, 31),
       kineto_kernel(
           "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 1712345678901400, 10, 32, 20,
           ", \"Collective name\": \"allreduce\", \"In msg nelems\": 1024, \"Out msg nelems\": 1024, "
           "\"Group size\": 4, \"dtype\": \"BFloat16\", \"Process Group Name\": \"1\", "
           "\"Process Group Ranks\": [0, 1, 2, 3]"),
       kineto_host("python_function", "train.py(3): main", 0, 5000)},
      /*rank=*/3, /*world=*/8));
  CHECK(trace.origin == TraceOrigin::kineto);
  CHECK(trace.rank == 3);
  CHECK(trace.world_size == 8);
  CHECK(trace.device == "NVIDIA H100 80GB HBM3");
  CHECK(trace.events == 6);
  REQUIRE(trace.kernels.size() == 2);
  CHECK(trace.names[trace.kernels[0].name] == "sgemm");
  // A test's own double has no nanoseconds since 1970: 2^50 < 1.7e15 us, so steps of 0.25 us.
  CHECK(trace.kernels[0].start_ns / 1000 == 1712345678901234);
  CHECK(trace.kernels[0].duration_ns == 100250);
  CHECK(trace.streams[trace.kernels[0].stream].name == "stream 7");
  REQUIRE(trace.launches.size() == 1);
  CHECK(trace.launches[0].correlation == 31);
  REQUIRE(trace.spans.size() == 1);
  CHECK(trace.spans[0].number == 5);
  REQUIRE(trace.exchanges.size() == 1);
  CHECK(trace.exchanges[0].bytes_in == 2048);  // 1024 of bf16
  CHECK(trace.exchanges[0].group_size == 4);
  CHECK(trace.exchanges[0].ranks == "0,1,2,3");
  CHECK(trace.notes.empty());
}

TEST_CASE("Chrome: an array, an object, X, and B with E give the same slices") {
  const std::string complete = R"({"ph": "X", "name": "gemm a", "pid": 1, "tid": 2, "ts": 10, "dur": 2.5})";
  const std::string begin = R"({"ph": "B", "name": "gemm a", "pid": 1, "tid": 2, "ts": 10})";
  const std::string end = R"({"ph": "E", "pid": 1, "tid": 2, "ts": 12.5})";
  for (const std::string& text :
       {"[" + complete + "]", "[" + begin + "," + end + "]", "[" + begin + "," + end, "[" + complete + ",",
        "{\"traceEvents\": [" + complete + "]}"}) {
    CAPTURE(text);
    const RecordedTrace trace = read_text(text);
    REQUIRE(trace.kernels.size() == 1);
    CHECK(trace.kernels[0].start_ns == 10000);
    CHECK(trace.kernels[0].duration_ns == 2500);
    CHECK(trace.notes.empty());  // the format says that the array need not be closed
  }
}

TEST_CASE("Chrome: B and E of a thread close the innermost, whatever other threads do") {
  const RecordedTrace trace = read_text(
      R"([{"ph":"B","name":"outer","pid":1,"tid":1,"ts":0}, {"ph":"B","name":"other","pid":1,"tid":2,"ts":1},
          {"ph":"B","name":"inner","pid":1,"tid":1,"ts":2}, {"ph":"E","pid":1,"tid":1,"ts":3},
          {"ph":"E","pid":1,"tid":2,"ts":4}, {"ph":"E","pid":1,"tid":1,"ts":5}])");
  REQUIRE(trace.kernels.size() == 3);
  CHECK(trace.names[trace.kernels[0].name] == "inner");
  CHECK(trace.kernels[0].duration_ns == 1000);
  CHECK(trace.names[trace.kernels[2].name] == "outer");
  CHECK(trace.kernels[2].duration_ns == 5000);
}

TEST_CASE("Chrome: what is wrong with single events is counted, with where it stands first") {
  const RecordedTrace trace = read_text(R"([
{"ph":"X","name":"a","pid":1,"tid":1,"ts":0,"dur":1},
{"ph":"X","name":"b","pid":1,"tid":1,"ts":5,"dur":-1},
{"ph":"X","name":"c","pid":1,"tid":1,"dur":1},
{"ph":"X","name":"d","pid":1,"tid":1,"ts":7},
{"ph":"E","pid":1,"tid":1,"ts":9},
{"ph":"B","name":"e","pid":1,"tid":1,"ts":9},
{"ph":"X","name":"f","pid":1,"tid":1,"ts":"x","dur":1},
{"name":"g"}, 7])");
  CHECK(trace.kernels.size() == 1);
  CHECK(noted_in_trace(trace, "events of negative duration") == 1);
  CHECK(trace.notes.at("events of negative duration").first.line == 3);
  CHECK(noted_in_trace(trace, "events without a time (ts) that is a number") == 2);
  CHECK(noted_in_trace(trace, "events without a duration (dur) that is a number") == 1);
  CHECK(noted_in_trace(trace, "ends (E) without a beginning (B)") == 1);
  CHECK(noted_in_trace(trace, "beginnings (B) without an end (E)") == 1);
  CHECK(noted_in_trace(trace, "events without a phase (ph)") == 1);
  CHECK(noted_in_trace(trace, "entries that are no events") == 1);
}

TEST_CASE("Chrome: times beyond 73 years of microseconds are said to be out of range, not missing") {
  const RecordedTrace trace = read_text(R"([
{"ph":"X","name":"a","pid":1,"tid":1,"ts":0,"dur":1},
{"ph":"X","name":"b","pid":1,"tid":1,"ts":5,"dur":1e30},
{"ph":"X","name":"c","pid":1,"tid":1,"ts":-1.7e18,"dur":1},
{"ph":"B","name":"d","pid":1,"tid":1,"ts":1.7e18}])");
  CHECK(trace.kernels.size() == 1);
  CHECK(noted_in_trace(trace, "events with a duration (dur) out of range, in microseconds") == 1);
  CHECK(noted_in_trace(trace, "events with a time (ts) out of range, in microseconds") == 2);
  CHECK(trace.notes.size() == 2);
}

TEST_CASE("Kineto: a trace whose times are nanoseconds is refused with what they should be") {
  const Diagnostic nanoseconds = refusal(kineto_trace(
      {kineto_host("user_annotation", "ProfilerStep#5", 1.7e18, 500), kineto_kernel("gemm", 1.7e18, 10, 1)}));
  CHECK(nanoseconds.message ==
        "the time (ts) or duration (dur) of 2 of its 2 events is out of range, and no kernel is left");
  CHECK(nanoseconds.hint == "both are microseconds; nanoseconds are to be divided by 1000.");
  const Diagnostic endless = refusal(kineto_trace({kineto_kernel("gemm", 0, 9e15, 1)}));
  CHECK(endless.message ==
        "the time (ts) or duration (dur) of 1 of its 1 events is out of range, and no kernel is left");
  // Of the host alone: the trace lacks what the device did all the same.
  const Diagnostic host =
      refusal(kineto_trace({kineto_host("cpu_op", "aten::mm", 0, 5), kineto_host("cpu_op", "a", 9e15, 5)}));
  CHECK(host.message == "a PyTorch profile without anything that a device did (category kernel)");
}

TEST_CASE("Kineto: a rank or a number of ranks that is no whole number is noted and not used") {
  const auto with = [](const std::string& rank, const std::string& world) {
    return read_text("{\"distributedInfo\": {\"rank\": " + rank + ", \"world_size\": " + world +
                     "}, \"traceEvents\": [" + kineto_kernel("gemm", 0, 1, 1) + "]}");
  };
  for (const char* rank : {"-1", "1.5", "\"3\"", "null", "1e30"}) {
    CAPTURE(rank);
    const RecordedTrace trace = with(rank, "8");
    CHECK_FALSE(trace.rank);
    CHECK(trace.world_size == 8);
    CHECK(noted_in_trace(trace, "a rank of the file that is no whole number from 0 up, and is not used") ==
          1);
  }
  const RecordedTrace trace = with("3.0", "-8");
  CHECK(trace.rank == 3);
  CHECK(trace.world_size == 0);
  CHECK(noted_in_trace(trace,
                       "a world_size of the file that is no whole number from 0 up, and is not used") == 1);
  CHECK(with("7", "8").notes.empty());
}

TEST_CASE("Kineto: a file that is cut off anywhere gives its whole events and a note, or is refused") {
  const std::string whole = kineto_trace({kineto_kernel("gemm", 1, 2, 1), kineto_kernel("gemm", 4, 2, 2)});
  const std::size_t first = whole.find("}}", whole.find("kernel")) + 2;
  for (std::size_t size = 0; size + 3 < whole.size(); ++size) {
    CAPTURE(size);
    if (size < first) {
      CHECK_THROWS_AS(read_text(whole.substr(0, size)), ConfigError);
      continue;
    }
    const RecordedTrace trace = read_text(whole.substr(0, size));
    CHECK(trace.kernels.size() >= 1);
    CHECK(noted_in_trace(trace, "the file was cut off; what stands before was read") == 1);
  }
}

TEST_CASE("Chrome: what is no trace is refused with one suggestion") {
  CHECK(refusal("5").message == "this is no trace");
  CHECK(refusal("").message == "the trace is empty");
  CHECK(refusal("{}").message == "there are no traceEvents");
  CHECK(refusal("{\"traceEvents\": 5}").message == "there are no traceEvents");
  CHECK(refusal("[]").message == "none of its 0 events has a name, a time and a duration");
  CHECK(refusal("{\"traceEvents\": [").message == "none of its 0 events has a name, a time and a duration");
  const Diagnostic no_device = refusal(kineto_trace({kineto_host("cpu_op", "aten::mm", 0, 5)}));
  CHECK(no_device.message == "a PyTorch profile without anything that a device did (category kernel)");
  CHECK(no_device.hint == "record it with ProfilerActivity.CUDA.");
}

}  // namespace simrun
