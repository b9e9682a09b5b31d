#include <catch2/catch.hpp>

#include "configs/load_job.h"
#include "schedules/compile.h"
#include "sim/simulate.h"
#include "tests/cli/run_simrun.h"
#include "traces/compare_imported.h"
#include "traces/imported_timeline.h"
#include "traces/read_chrome.h"
#include "visualizer/chrome_trace.h"

namespace simrun {
namespace {

const std::string kineto = SIMRUN_SOURCE_DIR "/tests/data/traces/kineto.json";

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

struct Simulated {
  Plan plan;
  Timeline timeline;
};
Simulated simulated() {
  LoadOptions load;
  load.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
  Simulated of{compile(load_job(tiny, load).job), {}};
  of.timeline = simulate(of.plan, {Detail::instructions});
  return of;
}

}  // namespace

TEST_CASE("import: simrun's own trace comes back with every interval, to the nanosecond") {
  const Simulated of = simulated();
  const std::string text = chrome_trace(of.plan, of.timeline);
  ByteSource bytes(text, "own.json");
  const ImportedRun run = imported_run({read_chrome_trace(bytes)});
  CHECK(run.origin == TraceOrigin::simrun);
  CHECK(run.notes.empty());
  CHECK(unknown_kernels(run).empty());
  std::size_t compared = 0;
  for (const RankTimeline& rank : of.timeline.ranks) {
    if (rank.lanes.empty()) continue;
    const auto imported = std::ranges::find(run.ranks, rank.device, &ImportedRank::rank);
    REQUIRE(imported != run.ranks.end());
    for (const Lane& lane : rank.lanes) {
      std::vector<const ImportedKernel*> kernels;
      for (const ImportedKernel& kernel : imported->kernels)
        if (imported->streams[kernel.stream] == of.plan.streams[lane.stream].name) kernels.push_back(&kernel);
      REQUIRE(kernels.size() == lane.intervals.size());
      bool same = true;
      for (std::size_t i = 0; i < kernels.size(); ++i) {
        const Interval& interval = lane.intervals[i];
        const std::int64_t start = imported->step.begin_ns + kernels[i]->start_ns;
        same = same && start == interval.start / 1000 &&
               start + kernels[i]->duration_ns == (interval.start + interval.duration) / 1000;
        ++compared;
      }
      CHECK(same);
    }
  }
  CHECK(compared > 100);
  const ImportedComparison comparison = compare_imported(of.plan, of.timeline, run);
  for (const std::vector<ComparedTime>& rows :
       {comparison.rows.by_kind, comparison.rows.by_phase, comparison.by_time})
    for (const ComparedTime& row : rows) {
      CAPTURE(row.name);
      CHECK(std::abs(row.predicted_s - row.measured_s) <=
            1e-9 * static_cast<double>(std::max<std::int64_t>(row.instructions, 700)));
    }
}

TEST_CASE("import: a PyTorch profile is told by kind and phase, with what nobody knows") {
  const Ran ran = run_simrun("--import-trace " + kineto);
  CAPTURE(ran.output);
  CHECK(ran.code == 0);
  CHECK(has(ran.output,
            "imported 1 file (PyTorch profiler (Kineto)), rank 0 of 4, NVIDIA A100-SXM4-80GB, 13 events\n"));
  CHECK(has(ran.output, "kind   init           2.000 us        1\n"));
  CHECK(has(ran.output, "gemm           450.8 us        2\n"));  // 150.3 + 300.5
  CHECK(has(ran.output, "all_reduce     400.0 us        1\n"));
  CHECK(has(ran.output, "phase  forward        150.3 us        1\n"));
  // 8,388,608 bytes in 400 us x 2 (4 - 1) / 4
  CHECK(has(ran.output, "all_reduce      4  8388608      1  400.0 us      31.5 GB/s\n"));
  CHECK(has(ran.output, "1 kernel of 1 name not known, counted as unknown:\n"));
  CHECK(has(ran.output, "kernel_of_our_own\n"));
}

TEST_CASE("import: beside a job there are errors, a page with measured lanes, and JSON") {
  const Scratch scratch;
  const std::string page = scratch.file("page.html");
  const Ran ran = run_simrun("--import-trace " + kineto + " --against " + tiny + " --html " + page);
  CAPTURE(ran.output);
  CHECK(ran.code == 0);
  CHECK(has(ran.output, "predicted  measured"));
  const std::string html = read(page);
  CHECK(has(html, "\"measured\":true"));
  CHECK(has(html, "stream 20"));
  const Ran json = run_simrun("--import-trace " + kineto + " --against " + tiny + " --json");
  CHECK(has(json.output, "\"compared\": true"));
  CHECK(has(json.output, "\"unknown\": [{\"name\": \"kernel_of_our_own\", \"count\": 1, \"seconds\": "));
}

TEST_CASE("import: a profile from the trace of a slower GPU makes the job as slow, kind by kind") {
  const Scratch scratch;
  const std::string slow = scratch.file("slow.json"), profile = scratch.file("slow.yaml");
  REQUIRE(run_simrun(tiny + " --no-html -q --trace " + slow +
                     " --set cluster.gpu.matmul_efficiency=0.3 --set cluster.gpu.memory_efficiency=0.2")
              .code == 0);
  const Ran wrote =
      run_simrun("--import-trace " + slow + " --against " + tiny + " --no-html --profile " + profile);
  CAPTURE(wrote.output);
  REQUIRE(wrote.code == 0);
  CHECK(has(wrote.output, "wrote " + profile));
  CHECK(has(read(profile), "measured:\n  products:\n"));
  const Ran again =
      run_simrun("--import-trace " + slow + " --against " + tiny + " --no-html --set cluster.gpu=" + profile);
  CAPTURE(again.output);
  REQUIRE(again.code == 0);
  for (const char* kind : {"gemm", "attention", "norm", "norm_backward", "map", "optimizer"}) {
    CAPTURE(kind);
    const std::size_t line = again.output.find(std::string(kind) + "  ");
    REQUIRE(line != std::string::npos);
    const std::string of = again.output.substr(line, again.output.find('\n', line) - line);
    CAPTURE(of);
    CHECK((has(of, " +0.0 %") || has(of, " -0.0 %")));
  }
}

// Products in fp8 run at more than 1 PFLOP/s; several have one shape, each as often as its layers are many.
TEST_CASE("import: a profile of what was predicted predicts the same, in fp8 as well", "[long]") {
  const Scratch scratch;
  const std::string trace = scratch.file("fp8.json"), profile = scratch.file("fp8.yaml");
  const std::string job = std::string(SIMRUN_SOURCE_DIR "/configs/jobs/llama3-8b-8xh100.yaml") +
                          " --set training.global_batch_size=16 --set training.precision=fp8";
  REQUIRE(run_simrun(job + " --no-html -q --trace " + trace).code == 0);
  REQUIRE(run_simrun("--import-trace " + trace + " --against " + job + " --no-html -q --profile " + profile)
              .code == 0);
  const auto step = [&](const std::string& flags) {
    const Ran ran = run_simrun(flags + " --no-html --json");
    REQUIRE(ran.code == 0);
    const std::string key = "\"step_time_s\": ";
    return std::stod(ran.output.substr(ran.output.find(key) + key.size()));
  };
  CHECK(step(job + " --set cluster.gpu=" + profile) == Approx(step(job)).epsilon(0.002));
}

TEST_CASE("import: flags that would be ignored are refused") {
  for (const char* flag : {"--export chakra", "--plan whale", "-o x.yaml"}) {
    CAPTURE(flag);
    const Ran ran = run_simrun("--import-trace " + kineto + " " + flag);
    CHECK(ran.code == 2);
    CHECK(has(ran.output, " does not go with --import-trace"));
  }
}

TEST_CASE("import: no profile is made of a trace that plainly is another job's") {
  const Scratch scratch;
  const std::string profile = scratch.file("gpu.yaml");
  const auto refused = [&](const std::string& kernel, const std::string& why) {
    const std::string trace = scratch.write(
        "other.json",
        "[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"" + kernel +
            "\",\"pid\":0,\"tid\":7,\"ts\":0,\"dur\":30000000,\"args\":{\"stream\":7,\"device\":0}}]");
    const Ran ran =
        run_simrun("--import-trace " + trace + " --against " + tiny + " --no-html --profile " + profile);
    CAPTURE(ran.output);
    CHECK(ran.code == 2);
    CHECK(has(ran.output, why));
    CHECK(read(profile).empty());
  };
  refused("kernel_of_our_own", "no kernel of any kind that the job has");
  refused("sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n",
          "% of the datasheet's peak by this trace");  // 30 s of it
}

TEST_CASE("import: a folder is one trace per rank; the measured step is written as a trace") {
  const Scratch scratch;
  const std::string text = read(kineto);
  const auto of_rank = [&](int rank) {
    std::string copy = text;
    return copy.replace(copy.find("\"rank\": 0"), 9, "\"rank\": " + std::to_string(rank));
  };
  scratch.write("a.json", of_rank(1));
  scratch.write("b.json", of_rank(0));
  scratch.write("notes.txt", "no trace");
  const Ran ran = run_simrun("--import-trace " + scratch.file("") + " --trace " + scratch.file("step.json"));
  CAPTURE(ran.output);
  CHECK(ran.code == 0);
  CHECK(has(ran.output, "imported 2 files (PyTorch profiler (Kineto)), ranks 0-1 of 4"));
  const Ran again = run_simrun("--import-trace " + scratch.file("step.json"));
  CHECK(has(again.output, "gemm           901.6 us        4\n"));
}

TEST_CASE("import: a measured step written as a trace is compared as what it was made of") {
  const Scratch scratch;
  const std::string against = " --no-html --against " + tiny;
  const auto table = [](const std::string& output) {
    const std::size_t begin = output.find("\nstep  ");
    REQUIRE(begin != std::string::npos);
    return output.substr(begin, output.find("exchange") - begin);
  };
  const Ran first =
      run_simrun("--import-trace " + kineto + against + " --trace " + scratch.file("step.json"));
  const Ran again = run_simrun("--import-trace " + scratch.file("step.json") + against);
  CAPTURE(first.output, again.output);
  CHECK(has(again.output, "a measured step that simrun wrote"));
  const std::string table_of_first = table(first.output), table_of_again = table(again.output);
  CHECK(table_of_again.starts_with(table_of_first.substr(0, table_of_first.find("unknown"))));
  CHECK(has(table_of_again, "unassigned") == has(table_of_first, "unassigned"));
}

TEST_CASE("import: Chakra traces that simrun exported are the step that it predicts") {
  const Scratch scratch;
  REQUIRE(run_simrun(tiny + " --export chakra -q -o " + scratch.file("et")).code == 0);
  const Ran ran = run_simrun("--import-trace " + scratch.file("et") + " --json --against " + tiny);
  CAPTURE(ran.output);
  REQUIRE(ran.code == 0);
  CHECK(has(ran.output, "\"format\": \"simrun trace\""));
  std::size_t compared = 0;
  for (std::size_t at = ran.output.find("\"error\": "); at != std::string::npos;
       at = ran.output.find("\"error\": ", at + 1)) {
    const double error = std::stod(ran.output.substr(at + 9));
    CHECK(std::abs(error) < 1e-3);
    ++compared;
  }
  CHECK(compared > 15);
}

TEST_CASE("import: a trace of another job says so") {
  const Scratch scratch;
  const std::string other = scratch.file("other.json");
  REQUIRE(run_simrun(tiny + " --no-html -q --set optimizer.clip_grad=0.5 --trace " + other).code == 0);
  CHECK(has(run_simrun("--import-trace " + other + " --no-html --against " + tiny).output,
            "note: simrun drew the trace for a job that is not this one"));
  std::string wide = read(kineto);
  wide.replace(wide.find("\"world_size\": 4"), 15, "\"world_size\": 8");
  const Ran ran =
      run_simrun("--import-trace " + scratch.write("wide.json", wide) + " --no-html --against " + tiny);
  CHECK(has(ran.output, "note: the traces are of a job of 8 ranks, this one has 4"));
}

TEST_CASE("import: a profile says which kinds it has no rates for") {
  const Scratch scratch;
  const std::string job = tiny + " --no-html -q --set training.attention=unfused --trace ",
                    trace = scratch.file("unfused.json"), profile = scratch.file("gpu.yaml");
  REQUIRE(run_simrun(job + trace).code == 0);
  const Ran ran = run_simrun("--import-trace " + trace + " --against " + tiny +
                             " --set training.attention=unfused --no-html --profile " + profile);
  CAPTURE(ran.output);
  CHECK(ran.code == 0);
  CHECK(has(ran.output, "a profile has no rates, or not for all, of attention"));
  CHECK(has(read(profile), ", which `measured` has no rate for"));
}

TEST_CASE("import: no profile is made of a job on several kinds of GPU, at its node_groups") {
  const Scratch scratch;
  const std::string job = SIMRUN_SOURCE_DIR "/configs/jobs/bert-large-16xv100-p100.yaml",
                    trace = scratch.file("step.json"), profile = scratch.file("gpu.yaml");
  REQUIRE(run_simrun(job + " --no-html -q --trace " + trace).code == 0);
  const Ran ran =
      run_simrun("--import-trace " + trace + " --against " + job + " --no-html --profile " + profile);
  CAPTURE(ran.output);
  CHECK(ran.code == 2);
  CHECK(has(ran.output, "clusters/whale_v100_p100.yaml:5:1: error: --profile measures one kind of GPU"));
  CHECK(has(ran.output, "this job runs on 8 v100_sxm2_32gb + 8 p100_sxm2"));
  CHECK(has(ran.output, "hint: trace the job on nodes of one kind"));
  CHECK(read(profile).empty());
  CHECK(run_simrun("--import-trace " + trace + " --against " + job + " --no-html").code == 0);
}

TEST_CASE("import: wrong command lines and files are refused with one suggestion, and nothing is written") {
  const Scratch scratch;
  const auto refused = [](const std::string& arguments, const std::string& message) {
    const Ran ran = run_simrun(arguments);
    CAPTURE(arguments, ran.output);
    CHECK(ran.code == 2);
    CHECK(has(ran.output, message));
  };
  refused("--against " + tiny, "--against goes with --import-trace");
  refused("--import-trace " + kineto + " " + tiny, "--import-trace takes its job with --against");
  refused("--import-trace " + kineto + " --profile x.yaml", "--profile goes with --against");
  refused("--import-trace " + kineto + " --execute", "--execute does not go with --import-trace");
  refused("--import-trace " + scratch.file("none.json"), "no such file");
  refused("--import-trace " + kineto + " other.json", "hint: --import-trace other.json");
  CHECK(run_simrun(
            "--import-trace " +
            scratch.write(
                "exchanges.json",
                "{\"otherData\":{\"engine\":\"trace\",\"simrun_version\":\"1\",\"step_time_ps\":9000000},"
                "\"traceEvents\":[{\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":5,\"dur\":4,"
                "\"name\":\"all_reduce x\",\"args\":{\"wait_us\":1.5}}]}"))
            .code == 0);
  refused("--import-trace " + scratch.write("a.perfetto-trace", "\n\x01"), "Perfetto's traces are not read");
  refused("--import-trace " + scratch.write("passes.json",
                                            "{\"otherData\":{\"simrun_version\":\"1\"},\"traceEvents\":["
                                            "{\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":0,\"dur\":9,\"name\":"
                                            "\"0F0\"}]}"),
          "simrun drew passes only");
  CHECK(run_simrun("--import-trace " + scratch.write("mark.json", "\xef\xbb\xbf" + read(kineto))).code == 0);
  refused("--import-trace " + scratch.write("empty.json", ""), "the trace is empty");
  refused("--import-trace " + scratch.write("words.json", "words"), "it begins with 'w'");
  refused("--import-trace " + scratch.write("bad.json", "{\"traceEvents\":[{\"ph\":\"X\",,}]}"),
          "bad.json:1:27: error: ',' where JSON needs a key");
  refused("--import-trace " + kineto + " --import-trace " + kineto, "this trace is of rank 0, as ");
  std::string far = read(kineto);
  far.replace(far.find("\"rank\": 0"), 9, "\"rank\": 4");
  refused("--import-trace " + scratch.write("far.json", far) + " --no-html --against " + tiny,
          "the trace is of rank 4, the job has 4 ranks");
  refused("--import-trace " + kineto + " --trace " + kineto, "this would overwrite the input");
}

}  // namespace simrun
