#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "tests/traces/kineto_sample.h"
#include "traces/imported_run.h"
#include "traces/imported_totals.h"
#include "traces/read_trace.h"

// What of a trace is a step's, a device's or an exchange's where that is not plain.
namespace simrun {
namespace {

ImportedRun imported_from(const std::vector<std::string>& events) {
  return imported_run({read_text(kineto_trace(events))});
}

std::int64_t notes_of(const ImportedRun& run, const std::string& what) {
  const auto found = run.notes.find(what);
  return found == run.notes.end() ? 0 : found->second.count;
}

}  // namespace

// Marks 20 us apart, of 15 us; the GPU takes 200 us for each step, and begins step n at 5 + 200 n us.
TEST_CASE("imported run: a host that runs ahead of the GPU does not make steps shorter than their kernels") {
  std::vector<std::string> events;
  for (int n = 0; n < 5; ++n) {
    const double begin = 20.0 * n;
    events.push_back(kineto_host("user_annotation", "ProfilerStep#" + std::to_string(n + 1), begin, 15));
    events.push_back(kineto_launch(begin + 1, n + 1));
    events.push_back(kineto_kernel("gemm", 5 + 200.0 * n, 190, n + 1));
  }
  const ImportedRun run = imported_from(events);
  REQUIRE(run.ranks[0].steps.size() == 5);
  for (std::size_t s = 1; s < 4; ++s) {
    CHECK(run.ranks[0].steps[s].length_ns == 200'000);  // from the end of the kernel before to its own
    CHECK(run.ranks[0].steps[s].begin_ns == 5'000 + 200'000 * static_cast<std::int64_t>(s) - 10'000);
  }
  // Kernels of the next step that begin before the last of this one has ended do not lengthen it.
  const ImportedRun overlapping = imported_from(
      {kineto_host("user_annotation", "ProfilerStep#1", 0, 90), kineto_launch(1, 1),
       kineto_kernel("gemm", 5, 110, 1), kineto_host("user_annotation", "ProfilerStep#2", 100, 90),
       kineto_launch(101, 2), kineto_kernel("ncclDevKernel_AllGather_RING_LL", 105, 110, 2),
       kineto_host("user_annotation", "ProfilerStep#3", 200, 90), kineto_launch(201, 3),
       kineto_kernel("gemm", 205, 80, 3)});
  CHECK(overlapping.ranks[0].steps[1].length_ns == 100'000);
}

TEST_CASE(
    "imported run: what a collective library runs is communication, whether or not its name says which") {
  for (const char* name : {"ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)",
                           "ncclDevKernel_Reduce_Sum_f32_RING_LL", "nvshmemi_transfer"}) {
    CAPTURE(name);
    const ImportedRun run =
        imported_from({kineto_kernel("gemm", 0, 200, 1), kineto_kernel(name, 200, 500, 2)});
    CHECK(run.ranks[0].kernels[1].phase == ImportedPhase::communication);
    const RankTotals totals = imported_totals(run.ranks[0], run.length_ns);
    CHECK(totals.compute == 200'000'000);
    CHECK(totals.exposed[static_cast<std::size_t>(Traffic::data)] == 500'000'000);
  }
}

TEST_CASE("imported totals: a copy from the host's memory neither computes nor hides an exchange") {
  const ImportedRun run = imported_from({kineto_kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 0, 600, 1),
                                         kineto_kernel("Memcpy HtoD (Pinned -> Device)", 0, 500, 2, 20),
                                         kineto_kernel("gemm", 600, 100, 3)});
  const RankTotals totals = imported_totals(run.ranks[0], run.length_ns);
  CHECK(totals.compute == 100'000'000);
  CHECK(totals.exposed[static_cast<std::size_t>(Traffic::data)] == 600'000'000);
}

// XLA's profiler: the host's threads are a process, and a device has lines beside those of its streams.
TEST_CASE("imported run: of a Chrome trace whose processes are named only what devices ran counts, once") {
  const auto meta = [](const char* what, int pid, int tid, const char* name) {
    return std::string("{\"ph\": \"M\", \"name\": \"") + what + "\", \"pid\": " + std::to_string(pid) +
           ", \"tid\": " + std::to_string(tid) + ", \"args\": {\"name\": \"" + name + "\"}}";
  };
  const auto slice = [](int pid, int tid, const char* name, int start, int took) {
    return std::string("{\"ph\": \"X\", \"name\": \"") + name + "\", \"pid\": " + std::to_string(pid) +
           ", \"tid\": " + std::to_string(tid) + ", \"ts\": " + std::to_string(start) +
           ", \"dur\": " + std::to_string(took) + "}";
  };
  std::string text = "[" + meta("process_name", 1, 0, "/device:GPU:0") + "," +
                     meta("process_name", 2, 0, "/host:CPU") + "," +
                     meta("thread_name", 1, 13, "Stream #13(compute)") + "," +
                     meta("thread_name", 1, 2, "XLA Ops") + "," + slice(1, 13, "gemm_fusion_dot_1", 0, 100) +
                     "," + slice(1, 2, "fusion.1", 0, 100) + "," + slice(2, 7, "PjitFunction", 0, 900) + "]";
  const ImportedRun run = imported_run({read_text(text)});
  REQUIRE(run.ranks.size() == 1);
  CHECK(run.ranks[0].kernels.size() == 1);
  CHECK(run.length_ns == 100'000);
  CHECK(notes_of(run, "events of processes that are no device, left out") == 1);
  CHECK(notes_of(run, "events of lines that repeat what a device's streams run, left out") == 1);
}

// Without distributedInfo a file's name tells the rank, or the order of the files does, 2 before 10.
TEST_CASE("imported run: ranks are the numbers behind `rank` in names, else the files' order by number") {
  const auto unnamed = [](const std::string& name) {
    return read_text("[{\"ph\": \"X\", \"name\": \"gemm\", \"pid\": 0, \"tid\": 1, \"ts\": 0, \"dur\": 5}]",
                     name);
  };
  const ImportedRun named =
      imported_run({unnamed("rank_11_of_16_ranks.json"), unnamed("rank_5_of_16_ranks.json")});
  CHECK(named.ranks[0].rank == 5);
  CHECK(named.ranks[1].rank == 11);
  const char* const told = "ranks that neither trace nor file name tells, numbered in the order of the files";
  CHECK(notes_of(named, told) == 0);
  CHECK(notes_of(imported_run({unnamed("a.json"), unnamed("b.json")}), told) == 2);

  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "simrun_order_of_traces";
  std::filesystem::create_directories(folder);
  for (const char* name : {"trace-10.json", "trace-2.json", "trace-1.json"})
    std::ofstream(folder / name) << "[]";
  std::vector<std::string> names;
  for (const std::string& file : trace_files(folder.string()))
    names.push_back(std::filesystem::path(file).filename().string());
  std::filesystem::remove_all(folder);
  CHECK(names == std::vector<std::string>{"trace-1.json", "trace-2.json", "trace-10.json"});
}

}  // namespace simrun
