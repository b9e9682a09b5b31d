#include "validation/validate.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/validation/rows.h"
#include "validation/scores.h"

namespace simrun {
namespace {

using Cells = std::vector<std::pair<Column, std::string>>;

std::vector<ValidatedRow> validated(const std::vector<Cells>& rows, unsigned threads = 0) {
  std::vector<MeasuredRow> measured;
  for (const Cells& cells : rows) measured.push_back(measured_row(cells));
  return validate_rows(measured, {source_presets(), EngineChoice::fast, threads});
}

TEST_CASE("validate: one time metric of a run counts, iteration time first; memory counts besides") {
  const auto rows = validated({{{Column::measured_metric, "mfu"}, {Column::measured_value, "40"}},
                               {{Column::measured_metric, "iter_time_s"}},
                               {{Column::measured_metric, "memory_gb"}, {Column::measured_value, "10"}},
                               {{Column::measured_metric, "iter_time_s"}, {Column::measured_value, "0.6"}}});
  CHECK(rows[0].run == rows[1].run);
  CHECK(rows[0].run != rows[3].run);  // the second iteration time of one configuration is another run
  CHECK_FALSE(rows[0].counts);
  CHECK((rows[1].counts && rows[2].counts && rows[3].counts));
  CHECK(rows[0].simulated == rows[3].simulated);  // equal jobs are simulated once
}

TEST_CASE("validate: tokens and samples per second are of all GPUs") {
  const auto rows = validated({{{Column::measured_metric, "tokens_per_s_per_gpu"}},
                               {{Column::measured_metric, "tokens_per_s"}},
                               {{Column::measured_metric, "samples_per_s"}}});
  const double gpus = *rows[0].row.number(Column::n_gpus), tokens = *rows[0].row.number(Column::seq_len);
  CHECK(*rows[1].predicted == Approx(gpus * *rows[0].predicted));
  CHECK(*rows[2].predicted == Approx(*rows[1].predicted / tokens));
  CHECK((rows[0].counts && !rows[1].counts && !rows[2].counts));
}

TEST_CASE(
    "validate: a run that two tables of a source print counts once; one that is rounded may be another") {
  const auto printed = [](const std::string& value, const std::string& table) {
    return Cells{{Column::measured_value, value},
                 {Column::source, "a README, Table " + table},
                 {Column::inter_link, table}};  // so that no two are one configuration
  };
  const auto rows =
      validated({printed("0.512", "a"), printed("0.5120", "b"), printed("0.513", "b"), printed("0.51", "a"),
                 printed("0.510", "b"), printed("0.613", "a"), printed("0.613", "a")});
  CHECK(rows[0].run != rows[1].run);
  CHECK((rows[0].counts && !rows[1].counts && rows[2].counts));
  CHECK((rows[3].counts && rows[4].counts));  // two digits and a zero
  CHECK((rows[5].counts && rows[6].counts));  // a repeat within one table
}

TEST_CASE(
    "validate: where a source leaves recompute open, a job that does not fit recomputes, a known one never") {
  // 40 layers of 8,192 on one GPU's share of 8: weights, state and 32,768 tokens' activations pass 80 GB.
  const Cells large{{Column::source, "NeMo Long Sequence Performance"},
                    {Column::tp, "8"},
                    {Column::pp, "1"},
                    {Column::layers, "40"},
                    {Column::hidden, "8192"},
                    {Column::heads, "64"},
                    {Column::seq_len, "32768"}};
  Cells known = large, small = large, middling = large;
  known.emplace_back(Column::recompute, "none");
  small.emplace_back(Column::layers, "4");
  middling.emplace_back(Column::layers, "32");
  const auto rows = validated({large, known, small, middling});
  const auto assumes = [&](std::size_t row, const char* what) {
    return std::ranges::find(rows[row].assumed, what) != rows[row].assumed.end();
  };
  CHECK(assumes(0, "recompute=full, to fit"));
  CHECK(rows[0].yaml.find("granularity: full") != std::string::npos);
  CHECK(rows[0].simulated->summary.fits);
  CHECK_FALSE(rows[1].simulated->summary.fits);
  CHECK(assumes(2, "recompute=none"));
  // As few quarters of the layers as make it fit.
  CHECK(assumes(3, "recompute=16 of 32 layers of a stage, to fit"));
  CHECK(rows[3].yaml.find("num_layers: 16") != std::string::npos);
  CHECK(rows[3].simulated->summary.fits);
}

TEST_CASE(
    "validate: what a source computes again by habit gives way to memory where the notes leave it open") {
  const Cells large{{Column::source, "torchtitan"},
                    {Column::model, "Llama-3-8B"},
                    {Column::hardware, "H100-95GB"},
                    {Column::layers, "32"},
                    {Column::hidden, "4096"},
                    {Column::heads, "32"},
                    {Column::seq_len, "8192"},
                    {Column::tp, "1"},
                    {Column::pp, "1"},
                    {Column::micro_batch, "4"},
                    {Column::global_batch, "32"}};
  Cells open = large;
  open.emplace_back(Column::notes, "activation checkpointing mode not printed");
  const auto rows = validated({large, open});
  CHECK(rows[0].yaml.find("granularity: selective") != std::string::npos);
  CHECK_FALSE(rows[0].simulated->summary.fits);
  CHECK(rows[1].yaml.find("granularity: full") != std::string::npos);
  CHECK(rows[1].simulated->summary.fits);
}

TEST_CASE("validate: where a source printed the fastest of several microbatches, the fastest is predicted") {
  // Two replicas of two stages and eight sequences: four for each replica, in pieces of 4, 2 or 1.
  const auto row = [](const char* micro_batch, const char* notes) {
    return Cells{
        {Column::source, "Korthikanti et al."}, {Column::micro_batch, micro_batch}, {Column::notes, notes}};
  };
  const char* const grid = "number of microbatches is best of a grid (1..4)";
  const auto rows = validated({row("1", ""), row("2", ""), row("4", ""), row("", grid), row("4", grid),
                               row("", "number of microbatches is best of a grid (2..4)"),
                               row("", "number of microbatches is best of a grid (3..3)")});
  const auto step = [&](std::size_t r) { return rows[r].simulated->summary.step_time_s; };
  CHECK(step(3) == std::min({step(0), step(1), step(2)}));
  CHECK(std::ranges::any_of(rows[3].assumed, [](const std::string& text) {
    return text.starts_with("micro_batch=") && text.ends_with(", the fastest");
  }));
  CHECK(step(4) == step(2));  // what a row says stands
  CHECK(step(5) == std::min(step(0), step(1)));
  CHECK(rows[6].simulated != nullptr);  // none divides: as if nothing was said of it
}

TEST_CASE("validate: rows can be run as if no source named its framework") {
  const std::vector<MeasuredRow> rows{measured_row({{Column::source, "Korthikanti et al."}})};
  const auto named = validate_rows(rows, {.load = source_presets()});
  const auto bare = validate_rows(rows, {.load = source_presets(), .without_frameworks = true});
  CHECK(named[0].simulated->job->framework.name == "megatron_2022");
  CHECK(bare[0].simulated->job->framework.name.empty());
  CHECK(*bare[0].predicted < *named[0].predicted);
}

TEST_CASE("validate: every metric is the same step in other words") {
  const auto rows =
      validated({{},
                 {{Column::measured_metric, "tokens_per_s_per_gpu"}},
                 {{Column::measured_metric, "tflops_per_gpu"}, {Column::flops_definition, "72*B*L*s*h^2"}},
                 {{Column::measured_metric, "mfu"}, {Column::flops_definition, "72*B*L*s*h^2"}}});
  const double step = *rows[0].predicted;
  CHECK(*rows[1].predicted == Approx(8 * 1024 / step / 8));
  // 72 B L s h^2 (1 + s/6h + V/12Lh), L 8, h 1024, s 1024, V 51200
  const double flops = 72.0 * 8 * 8 * 1024 * 1024 * 1024 * (1 + 1.0 / 6 + 51200.0 / (12 * 8 * 1024));
  CHECK(*rows[2].predicted == Approx(flops / step / 8 / 1e12));
  CHECK(*rows[3].predicted == Approx(100 * flops / step / 8 / 312e12));
}

TEST_CASE(
    "validate: a row that is broken, refused or of an unknown metric is unscored with why, and stops "
    "nothing") {
  std::vector<MeasuredRow> measured{measured_row({{Column::tp, "3"}}),
                                    measured_row({{Column::measured_metric, "joules"}}),
                                    measured_row({{Column::hardware, "TPU v5p"}}),
                                    measured_row(),
                                    measured_row(),
                                    measured_row({{Column::hidden, "many"}})};
  measured[3].fault = "half a row";
  const auto rows = validate_rows(measured, {source_presets(), EngineChoice::fast, 0});
  CHECK(rows[0].why.find("tensor") != std::string::npos);
  CHECK(rows[1].why ==
        "the metric 'joules' is none of iter_time_s, tokens_per_s_per_gpu, tokens_per_s, samples_per_s, "
        "tflops_per_gpu, mfu, memory_gb");
  CHECK(rows[2].why == "not supported: TPUs");
  CHECK(rows[3].why == "half a row");
  CHECK(rows[4].status == RowStatus::scored);
  CHECK(rows[5].status == RowStatus::unscored);
  const ValidationScores scores = score_rows(rows);
  CHECK(scores.reasons.size() == 5);
}

TEST_CASE("validate: tagged rows are scored apart") {
  const auto rows = validated({{{Column::notes, "use=caution; x"}},
                               {{Column::notes, "use=clean; PER-LAYER"}},
                               {{Column::notes, "use=clean"}}});
  const ValidationScores scores = score_rows(rows);
  CHECK(scores.overall.time.rows == 1);
  CHECK(scores.apart.at("caution").time.rows == 1);
  CHECK(scores.apart.at("per-layer").time.rows == 1);
}

TEST_CASE("validate: a layer's time and a microbatch's on a stage are held against just that") {
  const auto rows =
      validated({{{Column::notes, "use=clean"}, {Column::layers, "1"}, {Column::pp, "1"}},
                 {{Column::notes, "use=clean; PER-LAYER"}, {Column::layers, "1"}, {Column::pp, "1"}},
                 {{Column::notes, "use=clean; PER-LAYER"}},
                 {{Column::notes, "use=clean; PER-MICROBATCH PER-STAGE"}}});
  const Summary& whole = rows[0].simulated->summary;
  // Without embedding, head and update, to which what the host does once a step belongs.
  const double host_step = rows[0].simulated->job.value().framework.kernels.host_step_s;
  CHECK(rows[1].predicted.value() < 0.9 * (rows[0].predicted.value() - host_step));
  CHECK(rows[1].predicted.value() > 0.1 * (whole.compute_s - host_step));
  CHECK(rows[2].why == "the time of one layer is simulated with a model of one layer");
  const Job& job = rows[3].simulated->job.value();
  CHECK(rows[3].predicted.value() * static_cast<double>(job.microbatches()) <=
        rows[3].simulated->summary.step_time_s);
  CHECK(job.microbatches() > 1);
}

TEST_CASE("validate: what ran out of memory and what ran are a confusion matrix") {
  const Cells large{{Column::hidden, "16384"}, {Column::layers, "96"}, {Column::heads, "128"}};
  const auto with = [&](const std::string& metric, bool is_large, const std::string& notes = "use=clean") {
    Cells cells = is_large ? large : Cells{};
    cells.insert(cells.end(),
                 {{Column::measured_metric, metric}, {Column::measured_value, "1"}, {Column::notes, notes}});
    return cells;
  };
  const auto rows =
      validated({with("oom", true), with("oom", false), with("iter_time_s", true), with("iter_time_s", false),
                 with("crashed_or_oom", true, "crashed/oom in figure: not necessarily OOM"),
                 with("failed", false, "Kernel not available"), with("mfu", false)});
  const FitConfusion fits = score_rows(rows).fits;
  CHECK((fits.oom_not == 1 && fits.oom_fits == 1));
  CHECK((fits.ran_not == 1 && fits.ran_fits == 1));  // iteration time and MFU are one run
  CHECK((fits.failed_not == 1 && fits.failed_fits == 1));
  CHECK(score_rows(rows).overall.time.rows == 2);
}

TEST_CASE("validate: the order of a sweep's runs is scored, and its best found") {
  std::vector<Cells> cells;
  for (int run = 1; run <= 8; ++run)
    cells.push_back(
        {{Column::global_batch, std::to_string(16 * run)}, {Column::measured_value, std::to_string(run)}});
  std::vector<ValidatedRow> rows = validated(cells);
  // Measured as predicted, whatever that is: the order is right.
  for (ValidatedRow& row : rows) row.row[Column::measured_value] = std::to_string(2 * *row.predicted);
  ValidationScores scores = score_rows(rows);
  REQUIRE(scores.sweeps.size() == 1);
  CHECK(scores.sweeps[0].runs == 8);
  CHECK(*scores.sweeps[0].spearman == Approx(1).margin(0.05));
  CHECK(scores.sweeps[0].finds_best);
  // The slowest prediction measured as the fastest by far: the best is no longer among the first three.
  const auto slowest = std::ranges::min_element(
      rows, {}, [](const ValidatedRow& row) { return row.simulated->summary.tokens_per_s_per_gpu; });
  slowest->row[Column::measured_value] = "0.0001";
  scores = score_rows(rows);
  CHECK_FALSE(scores.sweeps[0].finds_best);
  rows.pop_back();
  CHECK(score_rows(rows).sweeps.empty());  // seven runs are too few
}

TEST_CASE("validate: runs that took the same time have no order, whatever is predicted for them") {
  std::vector<Cells> cells;
  for (const char* tensor : {"1", "2", "4"})
    for (const char* micro : {"1", "2", "4"})
      cells.push_back({{Column::tp, tensor},
                       {Column::pp, "1"},
                       {Column::micro_batch, micro},
                       {Column::global_batch, "64"},
                       {Column::measured_value, "0.7"}});
  const ValidationScores scores = score_rows(validated(cells));
  REQUIRE(scores.sweeps.size() == 1);
  CHECK(scores.sweeps[0].runs == 9);
  CHECK_FALSE(scores.sweeps[0].spearman);
}

TEST_CASE("validate: what one job took at different times limits what any prediction can reach") {
  std::vector<ValidatedRow> rows = validated({{},
                                              {{Column::source, "another source"}},
                                              {{Column::source, "a reprint"}},
                                              {{Column::global_batch, "16"}}});
  const double predicted = rows[0].predicted.value();
  const auto measured = [&](std::size_t row, double value) {
    rows[row].row[Column::measured_value] = std::to_string(value);
  };
  measured(0, predicted);
  measured(1, 1.25 * predicted);
  measured(2, 1.25 * predicted);  // no second measurement
  RepeatScore repeats = score_rows(rows).repeats;
  CHECK(repeats.jobs == 1);
  CHECK(repeats.runs == 2);
  // 1 is 20 % below 1.25, 1.25 is 25 % above 1: half of them at a measurement, of which 1 is the better.
  CHECK(repeats.least_mape == Approx(0.1).epsilon(1e-3));
  CHECK(repeats.mape == Approx(0.1).epsilon(1e-3));
  measured(0, 2 * predicted);
  measured(1, 2.5 * predicted);
  measured(2, 2.5 * predicted);
  repeats = score_rows(rows).repeats;
  CHECK(repeats.least_mape == Approx(0.1).epsilon(1e-3));
  CHECK(repeats.mape == Approx(0.55).epsilon(1e-3));  // 50 and 60 %
  rows[1].set = "caution";
  rows[2].counts = false;
  CHECK(score_rows(rows).repeats.jobs == 0);
}

TEST_CASE("validate: of a job's time and its throughput, the best single prediction lies between them") {
  std::vector<ValidatedRow> rows = validated(
      {{}, {{Column::source, "another source"}, {Column::measured_metric, "tokens_per_s_per_gpu"}}});
  rows[0].row[Column::measured_value] = std::to_string(*rows[0].predicted);
  rows[1].row[Column::measured_value] = std::to_string(*rows[1].predicted / 2);
  const RepeatScore repeats = score_rows(rows).repeats;
  CHECK(repeats.runs == 2);
  // A duration of d is d - 1 too long and gives 2 / d - 1 too many tokens: least at sqrt(2), where both are
  // 0.414.
  CHECK(repeats.least_mape == Approx(0.4142).epsilon(1e-3));
  CHECK(repeats.mape == Approx(0.5).epsilon(1e-3));  // 0 and 100 %
}

TEST_CASE("validate: a row whose cells cannot be or contradict each other is unscored with why") {
  const auto rows = validated({{{Column::global_batch, "-5"}},
                               {{Column::dp, "16"}},
                               {{Column::schedule, "n/a"}, {Column::n_gpus, "8.0"}, {Column::dp, "2"}}});
  CHECK(rows[0].why == "global_batch '-5' is no positive whole number");
  CHECK(rows[1].why == "tp 2 x pp 2 x dp 16 are 64 GPUs, and n_gpus is 8");
  CHECK(rows[2].status == RowStatus::scored);
}

TEST_CASE("validate: GPUs that nobody states are the fewest that the job fits on, if any do", "[long]") {
  const auto on_gpus = [](const char* layers, const char* split = "") {
    return Cells{{Column::n_gpus, ""},        {Column::tp, split},      {Column::pp, split},
                 {Column::layers, layers},    {Column::hidden, "4096"}, {Column::heads, "32"},
                 {Column::global_batch, "64"}};
  };
  const auto rows = validated({on_gpus("4"), on_gpus("24"), on_gpus("80"), on_gpus("80", "1")});
  const auto assumes = [&](std::size_t row, const char* what) {
    return std::ranges::find(rows[row].assumed, what) != rows[row].assumed.end();
  };
  CHECK(assumes(0, "n_gpus=1"));
  // 24 x 12 x 4096^2 + 2 x 51200 x 4096 = 5.0 B parameters: at 18 bytes each 91 GB on one GPU of 80 GiB, and
  // on two, which share 12 bytes of the optimizer's, 61 GB.
  CHECK(assumes(1, "n_gpus=2"));
  CHECK(rows[1].simulated->summary.fits);
  // 16.5 B: 99 GB of weights and gradients on every GPU, unless tensor-parallel ranks have parts of them.
  CHECK(assumes(2, "n_gpus=8"));
  CHECK(assumes(2, "tp=2"));
  CHECK(rows[2].simulated->summary.fits);
  CHECK(rows[3].why == "n_gpus is not stated, and the job fits on no 1 to 512 GPUs");
}

TEST_CASE("validate: filters compare text or whole numbers") {
  const std::vector<MeasuredRow> rows{measured_row({{Column::tp, "2"}}), measured_row({{Column::tp, "4"}})};
  CHECK(filtered(rows, {{Column::tp, "4.0"}}).size() == 1);
  CHECK(filtered(rows, {{Column::model, "GPT 22B"}, {Column::tp, "2"}}).size() == 1);
  CHECK(filtered(rows, {{Column::model, "GPT"}}).empty());
  // A source also by the name of its group.
  const std::vector<MeasuredRow> papers{measured_row({{Column::source, "Korthikanti et al."}}),
                                        measured_row({{Column::source, "A blog, Table 2"}})};
  const RowRules rules = load_row_rules(source_presets());
  CHECK(filtered(papers, {{Column::source, "kort"}}, rules).size() == 1);
  CHECK(filtered(papers, {{Column::source, "a blog"}}, rules).size() == 1);
}

TEST_CASE("validate: files that lie where the program runs are no presets of rows") {
  namespace fs = std::filesystem;
  const fs::path before = fs::current_path();
  const fs::path folder = fs::temp_directory_path() / "simrun-validate-test";
  fs::create_directories(folder);
  std::ofstream(folder / "megatron_2022.yaml") << "kernels: {compute_slowdown: 9}\n";
  const auto here = validated({{}}, 1);
  fs::current_path(folder);
  std::vector<ValidatedRow> there;
  CHECK_NOTHROW(there = validated({{}}, 1));
  fs::current_path(before);
  fs::remove_all(folder);
  REQUIRE(here.front().status == RowStatus::scored);
  CHECK(here.front().predicted == there.front().predicted);
}

TEST_CASE("validate: threads change nothing") {
  std::vector<Cells> cells;
  for (int layers = 2; layers <= 10; layers += 2) cells.push_back({{Column::layers, std::to_string(layers)}});
  const auto one = validated(cells, 1), three = validated(cells, 3);
  for (std::size_t r = 0; r < one.size(); ++r) CHECK(one[r].predicted == three[r].predicted);
}

}  // namespace
}  // namespace simrun
