#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "schedules/compile.h"
#include "schedules/instruction_flops.h"
#include "schedules/lint.h"
#include "schedules/plan_file.h"
#include "schedules/summary.h"
#include "sim/kernel_cost.h"
#include "sim/simulate.h"
#include "tests/jobs.h"

// What dispatchers cost in time and memory.
namespace simrun {
namespace {

// Two layers of DeepSeek-V3's shape, one of experts, over `nodes` nodes of 8 H100.
Job layers_of_v3(const std::string& dispatcher, int nodes, std::vector<Override> overrides = {}) {
  overrides.insert(overrides.begin(), {"moe.token_dispatcher", dispatcher});
  const std::string gpus = std::to_string(8 * nodes);
  return job_from(
      "simrun: 1\n"
      "model: {from: deepseek-v3, num_hidden_layers: 2, first_k_dense_replace: 1, num_nextn_predict_layers: "
      "0}\n"
      "training: {seq_length: 2048, micro_batch_size: 1, global_batch_size: " +
          gpus +
          ", precision: bf16}\n"
          "parallelism: {expert_model_parallel_size: " +
          gpus + "}\ncluster: {from: dgx_h100, nodes: " + std::to_string(nodes) + "}\n",
      overrides);
}

double exposed_s(const Timeline& timeline) {
  return static_cast<double>(
             timeline.ranks.front().totals.exposed[static_cast<std::size_t>(Traffic::expert)]) /
         1e12;
}

}  // namespace

TEST_CASE("deepep over 8 nodes takes the time of 3.63 copies between nodes and 7.8 inside, not of 8") {
  const Timeline each = simulate(compile(layers_of_v3("alltoall", 8)), {.detail = Detail::totals});
  const Timeline once = simulate(compile(layers_of_v3("deepep", 8)), {.detail = Detail::totals});
  // 4 exchanges of 8 x 2,048 tokens of 14,336 bytes, 7/8 of them to other nodes at 50 GB/s: 16.4 ms.
  CHECK(exposed_s(each) == Approx(4 * 8 * 2048 * 14336 * 7.0 / 8 / 50e9).epsilon(0.1));
  // 3.63 copies 7/8 at 50 GB/s, and 7.3 copies 7/8 at 450 GB/s.
  CHECK(exposed_s(once) < 0.7 * exposed_s(each));
  CHECK(exposed_s(once) > 4 * 3.63 * 2048 * 14336 * 7.0 / 8 / 50e9);
}

TEST_CASE("deepep's exchanges move their rows: beside them only the order of a GPU's experts takes time") {
  // Forward and backward: rows by node, by GPU and by expert, on the way there and on the way back.
  std::map<std::string, std::map<bool, int>> takes_time;  // by dispatcher, whether any
  for (const char* dispatcher : {"alltoall", "allgather", "deepep"}) {
    const Plan plan = compile(layers_of_v3(dispatcher, 2));
    for (const Segment& segment : plan.segments)
      for (const Instruction& what : segment.instructions)
        if ((what.opcode == Opcode::gather || what.opcode == Opcode::scatter) &&
            (what.function == Function::dispatch || what.function == Function::combine))
          ++takes_time[dispatcher][kernel_time(plan, what) > 0];
  }
  CHECK(takes_time["alltoall"][true] > 0);
  CHECK(takes_time["alltoall"][false] == 0);
  CHECK(takes_time["allgather"][false] == 0);
  // By node, by GPU, by expert: one in three; their probabilities beside them for nothing, of experts' rows
  // only on the way there and of their gradients back.
  CHECK(takes_time["deepep"][true] == takes_time["alltoall"][true]);
  CHECK(2 * takes_time["deepep"][false] == 7 * takes_time["alltoall"][true]);
}

TEST_CASE(
    "deepep is never slower than alltoall where experts span nodes and tokens have more than the limit") {
  for (const int nodes : {2, 4, 8})
    for (const char* topk : {"8", "16"}) {
      CAPTURE(nodes, topk);
      const std::vector<Override> overrides{{"model.num_experts_per_tok", topk}};
      const Timeline each =
          simulate(compile(layers_of_v3("alltoall", nodes, overrides)), {.detail = Detail::totals});
      const Timeline once =
          simulate(compile(layers_of_v3("deepep", nodes, overrides)), {.detail = Detail::totals});
      CHECK(once.step <= each.step);
    }
}

TEST_CASE("the engines agree on every dispatcher, even and uneven") {
  for (const std::string dispatcher : {"alltoall", "allgather", "deepep", "einsum"})
    for (const char* load : {"1", "1.5"}) {
      CAPTURE(dispatcher, load);
      std::vector<Override> overrides{{"moe.load_imbalance", load}};
      if (dispatcher == "einsum") overrides.push_back({"moe.capacity_factor", "1"});
      const Plan plan = compile(layers_of_v3(dispatcher, 2, overrides));
      const Timeline fast = simulate(plan, {.detail = Detail::totals});
      const Timeline shared = simulate(plan, {.detail = Detail::totals, .engine = EngineChoice::simgrid});
      CHECK(static_cast<double>(shared.step) == Approx(static_cast<double>(fast.step)).epsilon(0.001));
    }
}

TEST_CASE("a busy expert rank shows in time and memory with every dispatcher") {
  for (const char* dispatcher : {"alltoall", "allgather", "deepep"}) {
    CAPTURE(dispatcher);
    const auto run = [&](const char* load) {
      const Plan plan = compile(layers_of_v3(dispatcher, 2, {{"moe.load_imbalance", load}}));
      return summarize(plan, simulate(plan, {.detail = Detail::totals}));
    };
    const Summary even = run("1"), busy = run("2");
    CHECK(busy.step_time_s > even.step_time_s);
    CHECK(busy.stages.at(0).peak_memory_bytes > even.stages.at(0).peak_memory_bytes);
  }
}

TEST_CASE("allgather holds the tokens of all ranks: more memory than the copies that alltoall brings") {
  const auto peak = [](const char* dispatcher) {
    const Plan plan = compile(layers_of_v3(dispatcher, 8));
    return summarize(plan, simulate(plan, {.detail = Detail::totals})).stages.at(0).peak_memory_bytes;
  };
  CHECK(peak("allgather") > peak("alltoall"));
}

TEST_CASE("einsum dispatches by five products with masks of 2 x 512 places, and keeps the masks") {
  const auto layers = [](const char* dispatcher, const char* group) {
    return job_from(
        std::string(
            "simrun: 1\n"
            "model: {model_type: gpt, num_layers: 2, hidden_size: 1024, num_attention_heads: 16, "
            "vocab_size: 1024, num_experts: 8, moe_router_topk: 2, max_position_embeddings: 1024}\n"
            "training: {seq_length: 1024, micro_batch_size: 2, global_batch_size: 4, precision: fp16}\n"
            "parallelism: {expert_model_parallel_size: 2}\n"
            "moe: {capacity_factor: 1, token_dispatcher: ") +
        dispatcher + group + "}\ncluster: {from: dgx_a100, nodes: 1, gpus_per_node: 2}\n");
  };
  const Plan rows = compile(layers("alltoall", "")), masks = compile(layers("einsum", ", group_size: 512"));
  CHECK(lint(masks) == std::vector<std::string>{});
  // 2 layers x 2 GPUs x 5 products of 2,048 tokens x 1,024 places x 1,024.
  CHECK(hardware_flops(masks) - hardware_flops(rows) == 2.0 * 2 * 5 * 2 * 2048 * 1024 * 1024);
  // Fewer than 2,048 tokens per group: as many as a rank has.
  CHECK(hardware_flops(compile(layers("einsum", ", group_size: 4096"))) - hardware_flops(rows) ==
        2.0 * 2 * 5 * 2 * 2048 * 4096 * 1024);
  const Summary of_rows = summarize(rows, simulate(rows)), of_masks = summarize(masks, simulate(masks));
  // 43 GFLOP of a GPU at no more than 312 TFLOP/s.
  CHECK(of_masks.step_time_s - of_rows.step_time_s > 5 * 2 * 2 * 2048.0 * 1024 * 1024 / 312e12);
  // Two layers' two masks of 2,048 x 1,024 fp16 numbers: 16 MiB more of activations, less what alltoall
  // keeps.
  const auto more = static_cast<double>(of_masks.peak_memory_bytes - of_rows.peak_memory_bytes);
  CHECK(more >= 0.99 * 2 * 2 * 2048 * 1024 * 2);
  CHECK(of_masks.model_flops_per_step == of_rows.model_flops_per_step);
  const std::string bytes = serialize(masks);
  CHECK(bytes[8] == 11);  // readers of version 10 know no masks
  CHECK(parse_plan(bytes, "masks.plan") == masks);
}

}  // namespace simrun
