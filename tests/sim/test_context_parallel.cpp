#include <algorithm>
#include <catch2/catch.hpp>

#include "schedules/compile.h"
#include "schedules/extent_tables.h"
#include "sim/kernel_cost.h"
#include "sim/simulate.h"
#include "tests/context_jobs.h"

// Context parallelism in time: what overlaps, what is exposed, and who has more to do.
namespace simrun {
namespace {

// FLOPs of the attention kernels of one pass over all ranks of a stage, as the masks leave them.
double attention_flops(const Plan& plan, Opcode opcode) {
  double flops = 0;
  for (const Segment& segment : plan.segments) {
    const PassKind pass = opcode == Opcode::attention ? PassKind::forward : PassKind::backward;
    if (segment.kind != pass) continue;
    for (const Instruction& what : segment.instructions) {
      if (what.opcode != opcode) continue;
      double share = 1;
      if (what.work_table >= 0)
        share = mean_value(plan.extent_tables[static_cast<std::size_t>(what.work_table)]) / whole_work;
      flops += kernel_work(plan, what).flops * share;
    }
    return flops * static_cast<double>(plan.ranks());
  }
  return flops;
}

// Compute of the busiest and the laziest GPU of the pipeline's only rank.
struct Busy {
  Picoseconds most = 0, least = 0;
};
Busy busy(const Timeline& timeline) {
  Busy busy{0, timeline.step};
  for (const RankTimeline& rank : timeline.ranks) {
    busy.most = std::max(busy.most, rank.totals.compute);
    busy.least = std::min(busy.least, rank.totals.compute);
  }
  return busy;
}

Picoseconds exposed_context(const Timeline& timeline) {
  return timeline.ranks.front().totals.exposed[static_cast<std::size_t>(Traffic::context)];
}

Timeline run(const std::string& type, std::vector<Override> overrides = {}, int cp = 4) {
  return simulate(compile(context_job(type, std::move(overrides), cp)), {});
}

}  // namespace

TEST_CASE("the ranks' attention kernels together run the FLOPs of one") {
  for (const Opcode opcode : {Opcode::attention, Opcode::attention_backward})
    for (const char* window : {"0", "1000"}) {
      std::vector<Override> overrides;
      if (window[0] != '0') overrides = {{"model.model_type", "mistral"}, {"model.sliding_window", window}};
      const double alone = attention_flops(compile(context_job("p2p", overrides, 1)), opcode);
      for (const char* type : context_types)
        for (const char* layout : {"zigzag", "contiguous"}) {
          CAPTURE(window, type, layout);
          overrides.push_back({"parallelism.context_parallel_layout", layout});
          const Plan plan = compile(context_job(type, overrides));
          CHECK(attention_flops(plan, opcode) == Approx(alone).epsilon(1e-5));
        }
    }
}

TEST_CASE("a contiguous ring leaves the first rank idle where the last one works; a zigzag one none") {
  const std::vector<Override> contiguous{{"parallelism.context_parallel_layout", "contiguous"},
                                         {"training.seq_length", "65536"}};
  const std::vector<Override> zigzag{{"training.seq_length", "65536"}};
  const Timeline unequal = run("p2p", contiguous), equal = run("p2p", zigzag);
  CHECK(busy(equal).most == busy(equal).least);
  CHECK(busy(unequal).most > busy(unequal).least * 5 / 4);
  CHECK(unequal.step > equal.step);
}

TEST_CASE("a ring hides behind its attention what an all-gather exposes, as context-parallel traffic") {
  const std::vector<Override> long_sequence{{"training.seq_length", "65536"}};
  const Timeline ring = run("p2p", long_sequence), gathered = run("all_gather", long_sequence);
  CHECK(exposed_context(gathered) > 0);
  CHECK(10 * exposed_context(ring) < exposed_context(gathered));
  CHECK(ring.ranks.front().totals.hidden[static_cast<std::size_t>(Traffic::context)] > 0);
}

TEST_CASE("axes cut for experts leave a ring's times as they are") {
  const Job whole = context_job("p2p", {{"cluster.nodes", "4"}});
  Job cut = whole;
  cut.parallelism.expert_model_parallel_size = 2;
  CHECK(simulate(compile(cut), {}).step == simulate(compile(whole), {}).step);
}

TEST_CASE("both engines run rings to the end, inside a node and across nodes") {
  for (const char* type : context_types)
    for (const char* tp : {"1", "8"}) {
      CAPTURE(type, tp);
      const std::vector<Override> overrides{{"parallelism.tensor_model_parallel_size", tp},
                                            {"cluster.nodes", "4"},
                                            {"model.num_key_value_heads", "16"},
                                            {"model.num_attention_heads", "32"}};
      if (std::string(type) == "a2a" && std::string(tp) == "8") continue;  // two heads for four ranks
      const Plan plan = compile(context_job(type, overrides));
      const Timeline fast = simulate(plan, {.detail = Detail::totals, .engine = EngineChoice::fast});
      const Timeline shared = simulate(plan, {.detail = Detail::totals, .engine = EngineChoice::simgrid});
      const double ratio = static_cast<double>(shared.step) / static_cast<double>(fast.step);
      CHECK(ratio > 0.999);
      CHECK(ratio < 1.001 + fast.contention_bound);
    }
}

TEST_CASE("every way of context parallelism runs with sequence parallelism, recompute, ZeRO and a pipeline") {
  for (const char* type : context_types)
    for (const char* layout : {"zigzag", "contiguous"})
      for (const char* schedule : {"1f1b", "zb_h1"}) {
        CAPTURE(type, layout, schedule);
        const Timeline timeline = run(type, {{"parallelism.context_parallel_layout", layout},
                                             {"parallelism.tensor_model_parallel_size", "2"},
                                             {"parallelism.sequence_parallel", "true"},
                                             {"parallelism.pipeline_model_parallel_size", "2"},
                                             {"parallelism.pipeline_schedule", schedule},
                                             {"model.num_hidden_layers", "2"},
                                             {"recompute.granularity", "selective"},
                                             {"optimizer.zero_stage", "1"},
                                             {"cluster.nodes", "2"}});
        for (const RankTimeline& rank : timeline.ranks) CHECK(rank.totals.compute > 0);
      }
}

}  // namespace simrun
