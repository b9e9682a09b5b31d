#include <catch2/catch.hpp>
#include <fstream>

#include "cli/imperfection_costs.h"
#include "schedules/compile.h"
#include "sim/simulate.h"
#include "tests/cli/parsed_output.h"
#include "tests/cli/run_simrun.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

const std::string imperfect = SIMRUN_SOURCE_DIR "/configs/jobs/tiny-imperfect-8xa100.yaml";

double sum(const ImperfectionCosts& costs) {
  double sum = costs.without_s + costs.interaction_s;
  for (const ImperfectionCost& cost : costs.causes) sum += cost.added_s;
  return sum;
}

TEST_CASE("imperfections: what each costs and what they cost together sum to the step, with either engine") {
  const Plan plan = compile(preset_job("tiny-imperfect-8xa100"));
  for (const EngineChoice engine : {EngineChoice::fast, EngineChoice::simgrid}) {
    const Timeline timeline = simulate(plan, {Detail::totals, engine});
    const ImperfectionCosts costs = imperfection_costs(plan, timeline);
    CHECK(sum(costs) == Approx(static_cast<double>(timeline.step) * 1e-12).epsilon(1e-12));
    REQUIRE(costs.causes.size() == 5);
    for (const ImperfectionCost& cost : costs.causes) {
      CAPTURE(cost.cause);
      CHECK(cost.added_s >= 0);
    }
    // A step of which all GPUs wait for the slowest takes at most 15 % more.
    CHECK(costs.causes[1].cause == "stragglers.hot_gpu");
    CHECK(costs.causes[1].what == "node1.gpu2 x 1.15");
    CHECK(costs.causes[1].added_s > 0.03 * costs.without_s);
    CHECK(costs.causes[1].added_s <= 0.15 * costs.without_s);
  }
}

TEST_CASE("imperfections: one that changes nothing costs nothing") {
  Plan plan = compile(preset_job("tiny-4xa100"));
  plan.cluster.imperfections.stragglers = {{.name = "none", .gpus = {0}, .slowdown = 1}};
  plan.cluster.imperfections.links = {{"whole", "node0.*", 1, 0}};
  const ImperfectionCosts costs = imperfection_costs(plan, simulate(plan));
  REQUIRE(costs.causes.size() == 2);
  CHECK(costs.causes[0].added_s == 0);
  CHECK(costs.causes[1].added_s == 0);
  CHECK(costs.interaction_s == 0);
}

TEST_CASE("program: the summary and --json say what imperfections cost; a plan file keeps them", "[long]") {
  Scratch scratch;
  const Ran text = run_simrun(imperfect + " --no-html --plan " + scratch.file("job.plan"));
  CAPTURE(text.output);
  CHECK(text.code == 0);
  CHECK(text.output.find("\nstragglers.hot_gpu     node1.gpu2 x 1.15") != std::string::npos);
  CHECK(text.output.find("\nlinks.dead_nic         node1.nic3.* failed") != std::string::npos);
  const std::string json = run_simrun(imperfect + " --json --no-html").output;
  CHECK(member(member(parsed_json(json), "imperfections"), "causes").children.size() == 5);
  CHECK(run_simrun(scratch.file("job.plan") + " --json --no-html").output == json);
  CHECK(run_simrun(tiny + " --json --no-html").output.find("imperfections") == std::string::npos);
}

TEST_CASE(
    "program: another job on the fabric is a cause of its own, in SimGrid, which --engine fast excludes",
    "[long]") {
  Scratch scratch;
  const std::string job = scratch.file("job.yaml");
  std::ofstream(job) << small_gpt(4, 4, 1, 2)
                     << "imperfections:\n  other_jobs:\n    neighbour: {from: [0], to: "
                        "[1], bytes: 200 MB, period: 1 ms}\n";
  const Ran text = run_simrun(job + " --no-html");
  CAPTURE(text.output);
  CHECK(text.code == 0);
  CHECK(text.output.find("engine simgrid: other jobs use the plan's links") != std::string::npos);
  CHECK(text.output.find("\nother_jobs.neighbour  0.2 GB from node 0 to 1 every 1 ms  +") !=
        std::string::npos);
  // A limit of single flows is in the plan file, too.
  const std::string limited =
      run_simrun(job + " --set cluster.inter_node.flow_bandwidth='3 GB/s' --json --plan " +
                 scratch.file("job.plan"))
          .output;
  CHECK(limited == run_simrun(scratch.file("job.plan") + " --json").output);
  CHECK(limited != run_simrun(job + " --json").output);
  const Ran fast = run_simrun(job + " --no-html --engine fast");
  CHECK(fast.code == 2);
  CHECK(fast.output.find("--engine fast does not know the traffic of imperfections.other_jobs") !=
        std::string::npos);
}

TEST_CASE("program: links that do not exist, or leave no way, are refused where they are written") {
  const auto refusal = [](const std::string& set) {
    const Ran ran = run_simrun(imperfect + " --no-html --set " + set);
    CHECK(ran.code == 2);
    return ran.output;
  };
  CHECK(refusal("imperfections.links.dirty_fibre.pattern=node7.nic0.tx")
            .find("error: imperfections.links.dirty_fibre: no link of this cluster is called "
                  "'node7.nic0.tx'; the "
                  "first is node0.gpu0.nvlink_tx, the last ") != std::string::npos);
  CHECK(refusal("imperfections.links.dead_nic.pattern='node1.nic?.rx'").find(" without node1.nic0.rx") !=
        std::string::npos);
  CHECK(refusal("imperfections.background.checkpoint.rate='400 GB/s'")
            .find("with 200 GB/s of background traffic nothing is left of the 22.75 GB/s of node0.nic0.tx") !=
        std::string::npos);
}

}  // namespace
}  // namespace simrun
