// One program per pipeline rank stands for all its GPUs: the same plan with a program for each of them takes
// the same times, memory and bytes.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <tuple>

#include "schedules/lint.h"
#include "sim/exchange_groups.h"
#include "sim/plan_job.h"
#include "sim/simulate.h"
#include "tests/jobs.h"
#include "tests/sim/unfolded_plan.h"

namespace simrun {
namespace {

using Random = std::mt19937;

template <class T>
T one_of(Random& random, const std::vector<T>& choices) {
  return choices[random() % choices.size()];
}

// A GPT of 8 heads or a Mixtral of 4 experts on 4 to 16 GPUs of nodes of 4.
std::string random_job(Random& random) {
  const bool experts = random() % 3 == 0;
  const int tp = one_of<int>(random, {1, 2}), cp = one_of<int>(random, {1, 1, 2});
  const int pp = one_of<int>(random, {1, 2, 2}), dp = one_of<int>(random, {1, 2, 2, 4});
  const int ep = experts ? std::min(one_of<int>(random, {1, 2, 4}), cp * dp) : 1;  // of as many expert tp
  const int gpus = tp * cp * dp * pp;
  const int per_node = std::min(gpus, 4);
  const std::string schedule =
      pp == 1 ? "gpipe"
              : one_of<std::string>(random, {"1f1b", "gpipe", "interleaved_1f1b", "zb_h1", "zb_v", "hanayo",
                                             "dualpipe_v", "dualpipe", "chimera", "looped_bfs"});
  const bool two_stages = schedule == "interleaved_1f1b" || schedule == "zb_v" || schedule == "hanayo" ||
                          schedule == "dualpipe_v" || schedule == "looped_bfs";
  const bool bidirectional = schedule == "dualpipe" || schedule == "chimera";
  const bool ties = !experts && (schedule == "zb_v" || schedule == "hanayo" || schedule == "dualpipe_v");
  const int zero =
      static_cast<int>(random() % (bidirectional || ties ? 2 : 4));  // of two copies not gathered
  const bool overlaps = zero >= 2 || random() % 2 == 0;
  const char* model =
      experts
          ? "{model_type: mixtral, hidden_size: 256, num_hidden_layers: 4, num_attention_heads: 8, "
            "num_key_value_heads: 4, intermediate_size: 512, vocab_size: 1024, num_local_experts: 4, "
            "num_experts_per_tok: 2}"
          : "{model_type: gpt, hidden_size: 256, num_layers: 4, num_attention_heads: 8, vocab_size: 1024, "
            "max_position_embeddings: 512}";
  std::string job = fmt::format(
      "simrun: 1\nmodel: {}\ntraining: {{seq_length: 512, micro_batch_size: 1, global_batch_size: {}, "
      "precision: bf16}}\nparallelism: {{tensor_model_parallel_size: {}, context_parallel_size: {}, "
      "pipeline_model_parallel_size: {}, pipeline_schedule: {}, sequence_parallel: {}",
      model, 4 * dp, tp, cp, pp, schedule, experts || random() % 2 == 0);
  if (two_stages) job += ", virtual_pipeline_model_parallel_size: 2";
  if (ep > 1) job += fmt::format(", expert_model_parallel_size: {}", ep);
  if (cp > 1)
    job += fmt::format(", cp_comm_type: {}, context_parallel_layout: {}",
                       one_of<std::string>(random, {"p2p", "all_gather", "a2a"}),
                       one_of<std::string>(random, {"zigzag", "contiguous"}));
  job += fmt::format("}}\noptimizer: {{zero_stage: {}, overlap_grad_reduce: {}, overlap_param_gather: {}}}\n",
                     zero, overlaps, zero > 0 && overlaps && random() % 2 == 0);
  if (experts && random() % 2 == 0) job += "moe: {load_imbalance: 1.5}\n";
  job += one_of<std::string>(random, {"", "recompute: {granularity: selective}\n",
                                      "recompute: {granularity: full, method: uniform, num_layers: 1}\n"});
  return job + fmt::format("cluster: {{from: dgx_a100, nodes: {}, gpus_per_node: {}}}\n", gpus / per_node,
                           per_node);
}

// Of one GPU; the first of its entries are compared with those of the same GPU in the other plan.
struct GpuFigures {
  RankTotals totals;
  MemoryPeak peak;
  bool operator==(const GpuFigures&) const = default;
};
auto sorted_key(const GpuFigures& g) {
  return std::tuple(g.peak.bytes, g.totals.compute, g.totals.exposed, g.totals.bubble, g.totals.hidden,
                    g.peak.entry, g.peak.instruction);
}

// By stage of the folded plan, in no order of GPUs: a timeline says how many are alike, not which.
std::map<std::int32_t, std::vector<GpuFigures>> figures_of(const Timeline& timeline,
                                                           const std::vector<std::int32_t>& stage_of) {
  std::map<std::int32_t, std::vector<GpuFigures>> figures;
  for (const RankTimeline& rank : timeline.ranks)
    for (std::int64_t i = 0; i < rank.multiplicity; ++i)
      figures[stage_of[static_cast<std::size_t>(rank.pipeline_rank)]].push_back({rank.totals, rank.peak});
  for (auto& [stage, of] : figures)
    std::sort(of.begin(), of.end(),
              [](const GpuFigures& a, const GpuFigures& b) { return sorted_key(a) < sorted_key(b); });
  return figures;
}

// By bytes: links that moved so many.
std::map<std::int64_t, std::int64_t> link_bytes(const Timeline& timeline) {
  std::map<std::int64_t, std::int64_t> links;
  for (const LinkTimeline& link : timeline.links) links[link.bytes] += link.multiplicity;
  return links;
}

struct Stages {
  std::vector<std::int32_t> folded, unfolded;  // of the folded plan, by pipeline rank
};
Stages stages_of(const Plan& plan) {
  Stages stages;
  for (std::int32_t rank = 0; rank < static_cast<std::int32_t>(plan.stages.size()); ++rank) {
    stages.folded.push_back(rank);
    stages.unfolded.insert(stages.unfolded.end(), static_cast<std::size_t>(device_count(plan, rank)), rank);
  }
  return stages;
}

// A plan of a ring's ranks apart is refused by lint alone: the order of issue that it looks for would have
// one of them receive first, but a SEND and a RECV are on two streams and wait for none.
std::vector<std::string> faults(const Plan& apart, bool has_ring) {
  std::vector<std::string> found = lint(apart);
  if (has_ring) std::erase_if(found, [](const std::string& fault) { return fault.starts_with("deadlock"); });
  return found;
}

bool has_tables(const Plan& plan) { return !plan.extent_tables.empty(); }

// What the causes of idle time are called differs where GPUs of a stage wait for each other.
void require_equal(const Plan& plan, const Timeline& folded, const Timeline& unfolded) {
  REQUIRE(unfolded.step == folded.step);
  REQUIRE(unfolded.first_step == folded.first_step);
  REQUIRE(link_bytes(unfolded) == link_bytes(folded));
  const Stages stages = stages_of(plan);
  const auto a = figures_of(folded, stages.folded), b = figures_of(unfolded, stages.unfolded);
  REQUIRE(a.size() == b.size());
  for (const auto& [stage, figures] : a) {
    CAPTURE(stage);
    const std::vector<GpuFigures>& others = b.at(stage);
    REQUIRE(figures.size() == others.size());
    for (std::size_t i = 0; i < figures.size(); ++i) {
      CAPTURE(i);
      REQUIRE(figures[i].totals.compute == others[i].totals.compute);
      REQUIRE(figures[i].peak == others[i].peak);
      if (has_tables(plan) || !plan.cluster.imperfections.empty()) continue;
      REQUIRE(figures[i].totals == others[i].totals);
    }
  }
}

}  // namespace

TEST_CASE("folding: a plan with a program for every GPU is valid and takes the same times, memory and bytes",
          "[long]") {
  int with_tables = 0, over_nodes = 0;
  for (unsigned seed = 0; seed < 50; ++seed) {
    Random random(seed);
    const std::string text = random_job(random);
    CAPTURE(seed, text);
    const Plan plan = plan_job(job_from(text));
    REQUIRE(lint(plan) == std::vector<std::string>{});
    const Plan apart = unfolded(plan);
    REQUIRE(apart.programs.size() == static_cast<std::size_t>(plan.ranks()));
    REQUIRE(faults(apart, text.find("cp_comm_type: p2p") != std::string::npos) == std::vector<std::string>{});
    require_equal(plan, simulate(plan), simulate(apart));
    with_tables += has_tables(plan) ? 1 : 0;
    over_nodes += plan.cluster.nodes > 1 ? 1 : 0;
  }
  CHECK(with_tables > 5);
  CHECK(over_nodes > 10);
}

TEST_CASE(
    "folding: with a straggler and a degraded NIC the plan with a program for every GPU takes the same times",
    "[long]") {
  int apart_for_links = 0;
  for (unsigned seed = 0; seed < 30; ++seed) {
    Random random(seed);
    const std::string text = random_job(random);
    CAPTURE(seed, text);
    Plan plan = plan_job(job_from(text));
    // Slowed kernels of GPUs with unequal work are rounded otherwise where each has a program of its own.
    if (has_tables(plan) || plan.ranks() < 2) continue;
    const Picoseconds whole = simulate(plan).step;
    const auto last = static_cast<std::int64_t>(plan.ranks()) - 1;
    if (seed % 3 != 0) plan.cluster.imperfections.links = {{"fibre", "node0.*1.*", 0.25, 3e-6}};
    if (seed % 3 != 1)
      plan.cluster.imperfections.stragglers = {{.name = "hot", .gpus = {last}, .slowdown = 1.5}};
    const Timeline folded = simulate(plan);
    require_equal(plan, folded, simulate(unfolded(plan)));
    REQUIRE(folded.step >= whole);
    apart_for_links += folded.engine_reason.find("their links are unequal") != std::string::npos ? 1 : 0;
  }
  CHECK(apart_for_links > 5);
}

TEST_CASE("folding: SimGrid, to which every GPU is one anyway, finds no other time for the plan apart",
          "[long]") {
  int compared = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    Random random(seed);
    const std::string text = random_job(random);
    CAPTURE(seed, text);
    const Plan plan = plan_job(job_from(text));
    if (plan.ranks() < 4 || plan.ranks() > 8) continue;
    const SimulateOptions simgrid{Detail::totals, EngineChoice::simgrid};
    const Timeline together = simulate(plan, simgrid), apart = simulate(unfolded(plan), simgrid);
    // Exchanges that the folded plan has one after the other take their closed form there and are flows here.
    REQUIRE(std::abs(static_cast<double>(apart.step - together.step)) <=
            1e-6 * static_cast<double>(together.step));
    REQUIRE(link_bytes(apart) == link_bytes(together));
    ++compared;
  }
  CHECK(compared >= 15);
}

}  // namespace simrun
