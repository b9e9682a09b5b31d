#include "cli/sensitivity.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "schedules/compile.h"
#include "sim/simulate.h"
#include "tests/cli/parsed_output.h"
#include "tests/cli/run_simrun.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

std::vector<Sensitivity> sensitivities_of(const Job& job, EngineChoice engine = EngineChoice::fast) {
  const Plan plan = compile(job);
  return sensitivities(plan, simulate(plan, {Detail::totals, engine}));
}

bool is_time(const Sensitivity& row) { return row.unit == Sensitivity::Unit::seconds; }

// Twice the rates and half the latencies: half the step. Euler: rates' elasticities less times' are -1.
double sum_of_elasticities(const std::vector<Sensitivity>& rows) {
  double sum = 0;
  for (const Sensitivity& row : rows) sum += is_time(row) ? -row.elasticity : row.elasticity;
  return sum;
}

TEST_CASE("sensitivity: no faster machine is slower; elasticities of rates less those of times make -1",
          "[long]") {
  for (const Job& job :
       {preset_job("tiny-4xa100"), preset_job("llama3-8b-8xh100"), job_from(small_gpt(4, 2, 2, 2)),
        job_from(small_gpt(4, 1, 1, 2), {{"optimizer.overlap_grad_reduce", "true"}})}) {
    const std::vector<Sensitivity> rows = sensitivities_of(job);
    CAPTURE(job.name);
    CHECK(sum_of_elasticities(rows) == Approx(-1).margin(0.01));
    for (const Sensitivity& row : rows) {
      CAPTURE(row.name);
      CHECK((is_time(row) ? row.elasticity : -row.elasticity) >= 0);
      CHECK(row.saved_s >= 0);
      CHECK(row.derivative * row.elasticity >= 0);
    }
  }
}

TEST_CASE("sensitivity: hosts that keep something and PCIe trees have their numbers, and all make -1",
          "[long]") {
  const auto has = [](const std::vector<Sensitivity>& rows, const char* name) {
    return std::ranges::any_of(rows, [&](const Sensitivity& row) { return row.name == name; });
  };
  const std::vector<Sensitivity> offloaded = sensitivities_of(job_from(
      small_gpt(4, 1, 1, 2), {{"offload.optimizer", "cpu"}, {"cluster", "{from: dgx_a100, nodes: 1}"}}));
  CHECK(has(offloaded, "host.memory_bandwidth"));
  CHECK(has(offloaded, "host.pcie_bandwidth"));
  CHECK_FALSE(has(offloaded, "host.nvme_read_bandwidth"));
  CHECK(sum_of_elasticities(offloaded) == Approx(-1).margin(0.01));
  const std::vector<Sensitivity> tree =
      sensitivities_of(job_from(small_gpt(4, 2, 1, 8), {{"cluster", "{from: pcie4_8xl40s, nodes: 2}"}}));
  CHECK(has(tree, "pcie.socket_bandwidth"));
  CHECK_FALSE(has(tree, "host.memory_bandwidth"));
  CHECK(sum_of_elasticities(tree) == Approx(-1).margin(0.01));
}

TEST_CASE("sensitivity: links that a job does not have are left out; one GPU has its own numbers only",
          "[long]") {
  const auto has = [](const std::vector<Sensitivity>& rows, const std::string& start) {
    return std::ranges::any_of(rows, [&](const Sensitivity& row) { return row.name.starts_with(start); });
  };
  const std::vector<Sensitivity> node = sensitivities_of(preset_job("tiny-4xa100"));
  CHECK(has(node, "intra_node."));
  CHECK_FALSE(has(node, "inter_node."));
  const std::vector<Sensitivity> one =
      sensitivities_of(job_from(small_gpt(4, 1, 1, 1), {{"cluster", "{gpus_per_node: 1}"}}));
  CHECK_FALSE(has(one, "intra_node."));
  CHECK(one.size() == 4);
  CHECK(has(sensitivities_of(job_from(small_gpt(4, 2, 2, 2))), "inter_node."));
}

TEST_CASE("sensitivity: a gradient reduction that nothing hides waits for the network between nodes") {
  const std::vector<Sensitivity> rows =
      sensitivities_of(job_from(small_gpt(4, 1, 1, 2), {{"optimizer.overlap_grad_reduce", "false"}}));
  const auto row = std::ranges::find(rows, "inter_node.bandwidth", &Sensitivity::name);
  REQUIRE(row != rows.end());
  CHECK(row->elasticity < -0.01);
  CHECK(row->saved_s > 0);
}

TEST_CASE("sensitivity: the engine of the base run runs them all", "[long]") {
  const std::vector<Sensitivity> fast = sensitivities_of(preset_job("tiny-4xa100"));
  const std::vector<Sensitivity> flows = sensitivities_of(preset_job("tiny-4xa100"), EngineChoice::simgrid);
  REQUIRE(flows.size() == fast.size());
  CHECK(sum_of_elasticities(flows) == Approx(-1).margin(0.01));
}

TEST_CASE("program: --sensitivity adds a section to the summary and an array to --json", "[long]") {
  const Ran table = run_simrun(tiny + " --no-html --sensitivity");
  CAPTURE(table.output);
  CHECK(table.code == 0);
  CHECK(table.output.find("\ngpu.peak_flops ") != std::string::npos);
  CHECK(table.output.find("10 % better saves") != std::string::npos);
  const ConfigNode json = parsed_json(run_simrun(tiny + " --json --sensitivity").output);
  const ConfigNode& rows = member(json, "sensitivity");
  REQUIRE(rows.children.size() == 6);  // two of NVLink, four of the GPU
  for (const ConfigNode& row : rows.children)
    for (const char* key : {"value", "elasticity", "derivative", "saved_by_10_percent_better_s"})
      CHECK_NOTHROW(number(row, key));
  CHECK(run_simrun(tiny + " --json --sensitivity").output ==
        run_simrun(tiny + " --json --sensitivity").output);
  CHECK(run_simrun("a.yaml --check --sensitivity").output ==
        "simrun: error: --check does not go with --sensitivity\n");
}

}  // namespace
}  // namespace simrun
