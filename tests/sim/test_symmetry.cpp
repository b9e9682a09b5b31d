// Under contention one of what is alike is simulated for all: the same dates as simulating every GPU.
#include <fmt/format.h>

#include <algorithm>
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

TEST_CASE("one for all that are alike: the dates of simulating every GPU", "[long]") {
  const char* const flat = "{topology: non_blocking}";
  const char* const spines = "{topology: leaf_spine, nodes_per_leaf: 2, spines: 3, oversubscription: 4}";
  const char* const narrow = "{topology: leaf_spine, nodes_per_leaf: 2, spines: 1, oversubscription: 4}";
  const char* const limited =
      "{topology: leaf_spine, nodes_per_leaf: 2, spines: 1, oversubscription: 2}, "
      "inter_node: {bandwidth: 25 GB/s, latency: 2 us, flow_bandwidth: 9 GB/s}";
  const char* const zero = "optimizer: {zero_stage: 1, overlap_grad_reduce: true}\n";
  for (const Shape& shape : std::vector<Shape>{
           {"data parallel only: all are alike", 1, 1, 16, 4, "", flat, 1},
           {"tensor ranks of a node are alike", 4, 2, 2, 4, zero, flat, 4},
           {"replicas share the uplinks of their leaf", 2, 2, 4, 4, zero, narrow, 16},
           {"the norm of all gradients sets no node apart", 2, 2, 8, 8, zero, flat, 2},
           {"nor if a tree sums it", 2, 2, 8, 8, "optimizer: {zero_stage: 1, overlap_grad_reduce: true}\n",
            "{topology: non_blocking}, collectives: nccl", 2},
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

namespace {

// The fast engine over every GPU, and over one of those that are alike.
struct EveryGpuAndFolded {
  explicit EveryGpuAndFolded(const Plan& of)
      : plan(of),
        durations(of),
        compiled(compile_programs(of, WhichStep::steady, durations)),
        all(find_meetings(of, compiled, Instantiation::every_gpu, durations)),
        folded(fold_alike_alone(compiled, durations.topology(), all)) {}

  EngineRun run(const Meetings& meetings) const {
    return run_streams({plan, compiled, meetings, Detail::totals, {}, nullptr});
  }
  void check() const {
    const EngineRun whole = run(all), once = run(folded);
    CHECK(once.step == whole.step);
    CHECK(once.instructions == whole.instructions);
    REQUIRE(once.ranks.size() == whole.ranks.size());
    for (std::size_t r = 0; r < once.ranks.size(); ++r) {
      CHECK(once.ranks[r].totals == whole.ranks[r].totals);
      CHECK(once.ranks[r].multiplicity == whole.ranks[r].multiplicity);
    }
  }

  const Plan& plan;
  Durations durations;
  CompiledPlan compiled;
  Meetings all, folded;
};

const std::string unequal_load = "moe: {load_imbalance: 1.5}\n";

}  // namespace

TEST_CASE("GPUs with unequal work fold among those that have the same") {
  const Plan plan = experts_plan(4, unequal_load);
  check_folded(plan, 8);
  const EveryGpuAndFolded runs(plan);
  REQUIRE(runs.compiled.has_classes());
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CHECK(runs.all.gpus[rank] == 8);
    CHECK(runs.folded.gpus[rank] <= 4);
  }
  runs.check();
}

TEST_CASE("kinds of GPU fold, each with its own multiprocessors lent to communication") {
  std::vector<Picoseconds> steps;
  for (const char* sms : {"0", "20"}) {
    CAPTURE(sms);
    const Job job = preset_job(
        "bert-large-16xv100-p100",
        {{"cluster.node_groups",
          fmt::format("{{fast: {{nodes: 1, gpu: {{from: v100_sxm2_32gb, communication_sms: {0}}}}}, "
                      "slow: {{nodes: 1, gpu: {{from: p100_sxm2, communication_sms: {0}}}}}}}",
                      sms)},
         {"training.global_batch_size", "512"},
         {"optimizer", "{overlap_grad_reduce: true}"}});
    const Plan plan = compile(job);
    const EveryGpuAndFolded runs(plan);
    REQUIRE(runs.compiled.has_classes());
    CHECK(runs.all.gpus[0] == 16);
    CHECK(runs.folded.gpus[0] <= 8);
    runs.check();
    steps.push_back(runs.run(runs.folded).step);
  }
  CHECK(steps[1] > steps[0]);
}

TEST_CASE("a deadlock of GPUs with unequal work is told as if every GPU had been simulated") {
  Plan plan = experts_plan(4, unequal_load);
  // The last rank goes through its passes from the end: it waits for gradients of what it has not sent.
  std::ranges::reverse(plan.programs[1].entries);
  const EveryGpuAndFolded runs(plan);
  const auto message = [&](const Meetings& meetings) -> std::string {
    try {
      runs.run(meetings);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "no deadlock";
  };
  const std::string told = message(runs.folded);
  CAPTURE(told);
  CHECK(told == message(runs.all));
  CHECK(told.find("waits for") != std::string::npos);
}

}  // namespace simrun
