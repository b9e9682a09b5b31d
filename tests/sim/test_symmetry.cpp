// Under contention one of what is alike is simulated for all: the same dates as simulating every GPU.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "schedules/compile.h"
#include "sim/simgrid_run.h"
#include "sim/stream_engine.h"
#include "sim/symmetry.h"
#include "tests/jobs.h"
#include "tests/sim/flow_worker.h"

namespace simrun {

namespace {

struct Shape {
  const char* says;
  int tp, pp, dp, nodes;
  const char* more;    // keys of the job
  const char* fabric;  // of the cluster
  double most_folded;  // GPUs simulated, at most
};

std::string shaped_job(const Shape& shape) {
  return fmt::format(
      "simrun: 1\n"
      "model: {{model_type: gpt, hidden_size: 512, num_layers: 8, num_attention_heads: 8, vocab_size: 1024, "
      "max_position_embeddings: 512}}\n"
      "training: {{seq_length: 512, micro_batch_size: 1, global_batch_size: {}, precision: bf16}}\n"
      "parallelism: {{tensor_model_parallel_size: {}, pipeline_model_parallel_size: {}}}\n{}"
      "cluster: {{from: dgx_a100, nodes: {}, gpus_per_node: {}, nics_per_node: {}, fabric: {}}}\n",
      4 * shape.dp, shape.tp, shape.pp, shape.more, shape.nodes, shape.tp * shape.pp * shape.dp / shape.nodes,
      shape.tp * shape.pp * shape.dp / shape.nodes, shape.fabric);
}

// What a run gives, as numbers that do not depend on which of several equal ones come first: dates in
// picoseconds, times and bytes of GPUs and links summed by pipeline rank and by kind of link.
std::vector<double> figures(const Plan& plan, bool folds) {
  return in_worker([&] {
    Durations durations(plan);
    const CompiledPlan compiled = compile_programs(plan, WhichStep::steady, durations);
    const SimgridRun result = run_with_simgrid(plan, compiled, durations, Detail::totals, folds);
    std::vector<double> numbers{static_cast<double>(result.simulated), static_cast<double>(result.run.step),
                                static_cast<double>(result.flows), static_cast<double>(result.shared_flows),
                                static_cast<double>(result.run.instructions)};
    std::map<std::string, std::vector<double>> sums;
    const auto add = [&](const std::string& key, std::vector<Picoseconds> values, std::int64_t times) {
      std::vector<double>& sum = sums[key];
      sum.resize(values.size(), 0);
      for (std::size_t i = 0; i < values.size(); ++i)
        sum[i] += static_cast<double>(values[i]) * static_cast<double>(times);
    };
    for (const RankTimeline& rank : result.run.ranks)
      add(fmt::format("rank {}", rank.pipeline_rank),
          {1, rank.totals.compute, rank.totals.exposed_total(), rank.totals.bubble_total()},
          rank.multiplicity);
    for (const LinkTimeline& link : result.links) {
      std::string kind;
      for (const char c : link.name)
        if (c < '0' || c > '9') kind += c;
      add(kind, {1, link.bytes, link.busy, link.contended}, link.multiplicity);
    }
    for (const auto& [key, sum] : sums) numbers.insert(numbers.end(), sum.begin(), sum.end());
    return numbers;
  });
}

}  // namespace

TEST_CASE("one for all that are alike: the dates of simulating every GPU") {
  const char* const flat = "{topology: non_blocking}";
  const char* const spines = "{topology: leaf_spine, nodes_per_leaf: 2, spines: 3, oversubscription: 4}";
  const char* const narrow = "{topology: leaf_spine, nodes_per_leaf: 2, spines: 1, oversubscription: 4}";
  const char* const limited =
      "{topology: leaf_spine, nodes_per_leaf: 2, spines: 1, oversubscription: 2}, "
      "inter_node: {bandwidth: 25 GB/s, latency: 2 us, flow_bandwidth: 9 GB/s}";
  const char* const zero = "optimizer: {zero_stage: 1, overlap_grad_reduce: true}\n";
  for (const Shape& shape :
       std::vector<Shape>{{"data parallel only: all are alike", 1, 1, 16, 4, "", flat, 1},
                          {"tensor ranks of a node are alike", 4, 2, 2, 4, zero, flat, 4},
                          {"replicas share the uplinks of their leaf", 2, 2, 4, 4, zero, narrow, 16},
                          {"flows have limits", 2, 2, 4, 4, zero, limited, 16},
                          {"routes are hashed: few fold", 2, 2, 4, 4, zero, spines, 16},
                          {"two tensor groups and two stages in a node", 2, 4, 4, 4, "", flat, 32},
                          {"parameters gathered for every pass", 1, 2, 8, 4,
                           "optimizer: {zero_stage: 3, overlap_grad_reduce: true}\n", narrow, 16}}) {
    const Plan plan = compile(job_from(shaped_job(shape)));
    const std::vector<double> folded = figures(plan, true), whole = figures(plan, false);
    CAPTURE(shape.says, folded[0]);
    CHECK(whole[0] == shape.tp * shape.pp * shape.dp);
    if (flow_solvers().front() == FlowSolver::lmm) CHECK(folded[0] <= shape.most_folded);
    REQUIRE(folded.size() == whole.size());
    for (std::size_t i = 1; i < whole.size(); ++i) {
      CAPTURE(i);
      CHECK(std::abs(folded[i] - whole[i]) <= 1e-7 * whole[i]);
    }
  }
}

namespace {

Plan experts_plan(int expert_parallel, const std::string& more) {
  return compile(job_from(fmt::format(
      "simrun: 1\n"
      "model: {{model_type: mixtral, hidden_size: 256, num_hidden_layers: 4, num_attention_heads: 8, "
      "num_key_value_heads: 4, intermediate_size: 512, vocab_size: 1024, num_local_experts: 8, "
      "num_experts_per_tok: 2}}\n"
      "training: {{seq_length: 512, micro_batch_size: 1, global_batch_size: 32, precision: bf16}}\n"
      "parallelism: {{pipeline_model_parallel_size: 2, pipeline_schedule: dualpipe, "
      "expert_model_parallel_size: {}}}\n{}"
      "cluster: {{from: dgx_a100, nodes: 4, gpus_per_node: 4, nics_per_node: 4}}\n",
      expert_parallel, more)));
}

// Of 16 GPUs so many are simulated, at most.
void check_folded(const Plan& plan, double most_folded) {
  const std::vector<double> folded = figures(plan, true), whole = figures(plan, false);
  CHECK(whole[0] == 16);
  if (flow_solvers().front() == FlowSolver::lmm) CHECK(folded[0] <= most_folded);
  REQUIRE(folded.size() == whole.size());
  for (std::size_t i = 1; i < whole.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(folded[i] - whole[i]) <= 1e-7 * whole[i]);
  }
}

}  // namespace

TEST_CASE("experts' all-to-alls fold too") { check_folded(experts_plan(8, ""), 4); }

TEST_CASE("GPUs with unequal work fold among those that have the same") {
  const Plan plan = experts_plan(4, "moe: {load_imbalance: 1.5}\n");
  check_folded(plan, 8);
  Durations durations(plan);
  const CompiledPlan compiled = compile_programs(plan, WhichStep::steady, durations);
  REQUIRE(compiled.has_classes());
  const Meetings all = find_meetings(plan, compiled, Instantiation::every_gpu, durations);
  const Meetings folded = fold_alike_alone(compiled, durations.topology(), all);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CHECK(all.gpus[rank] == 8);
    CHECK(folded.gpus[rank] <= 4);
  }
  const EngineRun whole = run_streams({plan, compiled, all, Detail::totals, {}, nullptr});
  const EngineRun run = run_streams({plan, compiled, folded, Detail::totals, {}, nullptr});
  CHECK(run.step == whole.step);
  CHECK(run.instructions == whole.instructions);
  REQUIRE(run.ranks.size() == whole.ranks.size());
  for (std::size_t r = 0; r < run.ranks.size(); ++r) {
    CHECK(run.ranks[r].totals == whole.ranks[r].totals);
    CHECK(run.ranks[r].multiplicity == whole.ranks[r].multiplicity);
  }
}

}  // namespace simrun
