#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

#include "cli/placement_orders.h"
#include "tests/cli/parsed_output.h"
#include "tests/cli/run_simrun.h"

namespace simrun {
namespace {

bool contains_text(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("--print-topology shows a preset's links and routes, and a job's") {
  const Ran ran = run_simrun("--print-topology dgx_h100 --set cluster.fabric.oversubscription=2");
  CAPTURE(ran.output);
  REQUIRE(ran.code == 0);
  CHECK(contains_text(ran.output, "dgx_h100  64 nodes x 8 h100_sxm  8 NICs per node\n"));
  // 32 nodes x 8 NICs x 50 GB/s x 0.91 / 2
  CHECK(contains_text(ran.output, "bisection 5824 GB/s each way, oversubscription 2.00\n"));
  CHECK(contains_text(ran.output, " node*.gpu*.nvlink_tx                      512     378 GB/s\n"));
  CHECK(contains_text(ran.output, "   node0.gpu0.nvlink_tx node0.gpu1.nvlink_rx\n"));
  const Ran job = run_simrun("--print-topology --json " + tiny);
  REQUIRE(job.code == 0);
  const ConfigNode json = parsed_json(job.output);
  CHECK(number(json, "nodes") == 1);
  CHECK(member(json, "routes").children.size() == 1);
}

TEST_CASE("--print-topology --html draws a preset, a page that needs nothing else") {
  const Scratch scratch;
  const std::string page = scratch.file("topology.html");
  const Ran ran = run_simrun("--print-topology dgx1_v100 --html " + page);
  CAPTURE(ran.output);
  REQUIRE(ran.code == 0);
  CHECK(contains_text(ran.output, "dgx1_v100  64 nodes x 8"));
  std::ifstream file(page);
  const std::string html(std::istreambuf_iterator<char>(file), {});
  CHECK(contains_text(html, "<title>Topology of dgx1_v100</title>"));
  CHECK(contains_text(html, "NVLinks between the GPUs of a node: 16 pairs"));
  CHECK(contains_text(html, ">PCIe 3</text>"));
  CHECK_FALSE(contains_text(html, "src="));
}

TEST_CASE("--print-topology refuses what it cannot show, exit 2") {
  const Ran unknown = run_simrun("--print-topology dgx_h10");
  CHECK(unknown.code == 2);
  CHECK(contains_text(unknown.output, "did you mean 'dgx_h100'?"));
  CHECK(run_simrun("--print-topology --check dgx_h100").code == 2);
}

TEST_CASE("--placement auto simulates each order of axes and marks the best", "[long]") {
  const Ran ran =
      run_simrun(SIMRUN_SOURCE_DIR "/configs/jobs/llama3-70b-64xh100.yaml --placement auto --no-html");
  CAPTURE(ran.output);
  REQUIRE(ran.code == 0);
  // tp, dp and pp have several ranks: 3! orders.
  CHECK(contains_text(ran.output, "parallelism.rank_order, 6 points\n"));
  CHECK(contains_text(ran.output, "tp-cp-ep-dp-pp"));
  CHECK(contains_text(ran.output, "* most tokens per second"));
  const Ran both = run_simrun(tiny + " --placement auto --sweep training.micro_batch_size=1,2");
  CHECK(both.code == 2);
}

TEST_CASE("the orders tried are those that place ranks differently, Megatron-LM's first") {
  Parallelism parallelism;
  CHECK(placement_orders(parallelism) == std::vector<std::string>{"tp-cp-ep-dp-pp"});
  parallelism.tensor_model_parallel_size = 2;
  parallelism.pipeline_model_parallel_size = 2;
  CHECK(placement_orders(parallelism) == std::vector<std::string>{"tp-cp-ep-dp-pp", "pp-cp-ep-dp-tp"});
  parallelism.context_parallel_size = 2;
  parallelism.data_parallel_size = 2;
  const std::vector<std::string> orders = placement_orders(parallelism);
  CHECK(orders.size() == 6);
  for (const std::string& order : orders) CHECK(order.starts_with("tp-"));
}

}  // namespace
}  // namespace simrun
