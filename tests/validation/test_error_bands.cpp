#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <memory>

#include "configs/load_job.h"
#include "sim/plan_job.h"
#include "validation/error_bands.h"

namespace simrun {
namespace {

// A run on `gpu` in pipeline stages or not, predicted at `ratio` of what was measured.
ValidatedRow run(const std::string& gpu, int pipeline, double ratio, const std::string& source = "one") {
  ValidatedRow row;
  row.row[Column::measured_metric] = "iter_time_s";
  row.row[Column::measured_value] = "10";
  row.source = source;
  row.counts = true;
  row.status = RowStatus::scored;
  row.predicted = 10 * ratio;
  auto simulated = std::make_shared<SimulatedJob>();
  simulated->job.emplace();
  simulated->job->cluster.gpu.name = gpu;
  simulated->job->cluster.nodes = 1;
  simulated->job->cluster.gpus_per_node = 8;
  simulated->job->framework.name = "megatron_core";
  simulated->job->parallelism.pipeline_model_parallel_size = pipeline;
  row.simulated = simulated;
  return row;
}

// Eleven runs, 0.90, 0.92 ... 1.10 of what was measured: the 10th percentile is the second, the 90th the
// tenth.
std::vector<ValidatedRow> eleven(const std::string& gpu, int pipeline) {
  std::vector<ValidatedRow> rows;
  for (int i = 0; i <= 10; ++i) rows.push_back(run(gpu, pipeline, 0.9 + 0.02 * i));
  return rows;
}

TEST_CASE("Of eleven runs from 0.90 to 1.10 eight of ten lie between 0.92 and 1.08") {
  const std::vector<ErrorBand> bands = error_bands(eleven("a100", 4));
  const std::optional<ErrorBand> band = band_of(bands, {"a100", "megatron_core", "pipeline"}, false);
  REQUIRE(band);
  CHECK(band->runs == 11);
  CHECK(band->low == Approx(0.92));
  CHECK(band->median == Approx(1));
  CHECK(band->high == Approx(1.08));
  CHECK(band->sources == std::vector<std::string>{"one"});
  const LikelyRange range = likely_range(*band, 10.8);
  CHECK(range.from == Approx(10));
  CHECK(range.to == Approx(10.8 / 0.92));
}

TEST_CASE("A run on several kinds of GPU is no run of the first of them") {
  std::vector<ValidatedRow> rows = eleven("a100", 4);
  for (ValidatedRow& row : rows) {
    auto mixed = std::make_shared<SimulatedJob>(*row.simulated);
    for (const char* gpu : {"a100", "h100"}) {
      NodeGroup& group = mixed->job->cluster.node_groups.emplace_back();
      group.nodes = 1;
      group.gpu.name = gpu;
    }
    row.simulated = mixed;
  }
  CHECK(error_bands(rows).empty());
}

TEST_CASE("A run that is like none is judged by the narrowest kind that it shares") {
  std::vector<ValidatedRow> rows = eleven("a100", 4);
  const std::vector<ValidatedRow> data = eleven("h100", 1);
  rows.insert(rows.end(), data.begin(), data.end());
  const std::vector<ErrorBand> bands = error_bands(rows);
  CHECK(band_of(bands, {"a100", "nanotron", "pipeline"}, false)->kind == RunKind{"a100", "", "pipeline"});
  CHECK(band_of(bands, {"b200", "megatron_core", "data"}, false)->kind ==
        RunKind{"", "megatron_core", "data"});
  CHECK(band_of(bands, {"h100", "nanotron", "pipeline"}, false)->kind == RunKind{"h100", "", ""});
  CHECK(band_of(bands, {"b200", "nanotron", "data"}, false)->kind == RunKind{"", "", "data"});
  CHECK(band_of(bands, {"b200", "nanotron", "experts"}, false)->kind == RunKind{});
  CHECK(band_of(bands, {"b200", "nanotron", "experts"}, false)->runs == 22);
  CHECK_FALSE(band_of(bands, {"a100", "megatron_core", "pipeline"}, true));
}

TEST_CASE("A sweep of thirty runs weighs no more than a source of three") {
  std::vector<ValidatedRow> rows(30, run("a100", 4, 0.5, "sweep"));
  for (int i = 0; i < 3; ++i) rows.push_back(run("a100", 4, 1, "other"));
  const std::optional<ErrorBand> band =
      band_of(error_bands(rows), {"a100", "megatron_core", "pipeline"}, false);
  CHECK(band->low == Approx(0.5));
  // 29 steps of 1/30 between the sweep's runs, one of (1/30 + 1/3) / 2, two of 1/3.
  const double whole = 29.0 / 30 + 11.0 / 60 + 2.0 / 3;
  CHECK(band->median == Approx(0.5));
  CHECK(whole / 2 < 29.0 / 30);
  CHECK(band->high == 1);
  CHECK(band->sources == std::vector<std::string>{"other", "sweep"});
}

TEST_CASE("A plan is of its job's kind") {
  const LoadOptions load{{}, {SIMRUN_SOURCE_DIR "/configs"}};
  const auto kinds_are_one = [&](const char* name, const std::vector<Override>& changes) {
    LoadOptions with = load;
    with.overrides = changes;
    const Job job = load_job(std::string(SIMRUN_SOURCE_DIR) + "/configs/jobs/" + name + ".yaml", with).job;
    CAPTURE(name);
    CHECK(run_kind(plan_job(job)) == run_kind(job));
    return run_kind(job).parallelism;
  };
  CHECK(kinds_are_one("tiny-4xa100", {}) == "pipeline");
  const Override flat{"parallelism.pipeline_model_parallel_size", "1"};
  CHECK(kinds_are_one("tiny-4xa100", {flat}) == "tensor");
  CHECK(kinds_are_one("tiny-4xa100", {flat, {"optimizer.zero_stage", "1"}}) == "tensor");
  CHECK(kinds_are_one("tiny-4xa100", {flat, {"optimizer.zero_stage", "3"}}) == "sharded");
  CHECK(kinds_are_one("tiny-4xa100", {flat, {"parallelism.tensor_model_parallel_size", "1"}}) == "data");
  CHECK(kinds_are_one("deepseek-5d-64xh100", {}) == "experts");
}

TEST_CASE("A rate predicted too high is a time predicted too low") {
  std::vector<ValidatedRow> rows(8, run("a100", 4, 1.25));
  for (ValidatedRow& row : rows) row.row[Column::measured_metric] = "tokens_per_s_per_gpu";
  const std::optional<ErrorBand> band =
      band_of(error_bands(rows), {"a100", "megatron_core", "pipeline"}, false);
  CHECK(band->median == Approx(0.8));
  CHECK(likely_range(*band, 8).from == Approx(10));
}

TEST_CASE("A job that names no framework is judged by predictions without one, never by others") {
  std::vector<ValidatedRow> rows = eleven("a100", 4);
  CHECK_FALSE(band_of(error_bands(rows), {"a100", no_framework, "pipeline"}, false));
  std::vector<ValidatedRow> bare(8, run("a100", 4, 0.7));
  for (ValidatedRow& row : bare) {
    auto simulated = std::make_shared<SimulatedJob>(*row.simulated);
    simulated->job->framework.name = "";
    row.simulated = simulated;
  }
  rows.insert(rows.end(), bare.begin(), bare.end());
  const std::vector<ErrorBand> bands = error_bands(rows);
  CHECK(band_of(bands, {"h100", no_framework, "experts"}, false)->median == Approx(0.7));
  CHECK(band_of(bands, {"a100", no_framework, "data"}, false)->kind == RunKind{"a100", no_framework, ""});
  CHECK(band_of(bands, {"a100", "nanotron", "pipeline"}, false)->runs == 11);
}

TEST_CASE("Seven runs are no band, nor are rows that do not count") {
  std::vector<ValidatedRow> rows = eleven("a100", 4);
  for (std::size_t i = 0; i < 4; ++i) rows[i].counts = false;
  CHECK(error_bands(rows).empty());
  rows = eleven("a100", 4);
  for (std::size_t i = 0; i < 4; ++i) rows[i].set = "caution";
  CHECK(error_bands(rows).empty());
}

TEST_CASE("What is written as bands is read as the same bands; a wrong file is refused with every fault") {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "simrun-bands";
  std::filesystem::create_directories(folder / "validation");
  const LoadOptions load{{}, {folder.string()}};
  const auto write = [&](const std::string& text) {
    std::ofstream(folder / "validation" / "error_bands.yaml") << text;
  };
  std::vector<ValidatedRow> rows = eleven("a100", 4);
  for (ValidatedRow& row : rows) row.source = "Two words, and a: colon";
  const std::vector<ErrorBand> bands = error_bands(rows);
  write(error_bands_yaml(bands, "rows.csv"));
  const std::vector<ErrorBand> again = load_error_bands(load);
  REQUIRE(again.size() == bands.size());
  for (std::size_t i = 0; i < bands.size(); ++i) {
    CHECK(again[i].kind == bands[i].kind);
    CHECK(again[i].runs == bands[i].runs);
    CHECK(again[i].sources == bands[i].sources);
    CHECK(again[i].low == Approx(bands[i].low).margin(5e-5));
  }
  write("- {of: speed, runs: 9, low: 0.9, median: 1, high: many, surces: [a]}\n");
  try {
    load_error_bands(load);
    FAIL("accepted");
  } catch (const ConfigError& error) {
    CHECK(error.diagnostics().size() == 3);
    CHECK(error.diagnostics().front().hint == "did you mean 'sources'?");
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace simrun
