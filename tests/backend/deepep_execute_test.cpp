#include <catch2/catch.hpp>
#include <string>

#include "tests/backend/expert_job_check.h"
#include "tests/backend/expert_jobs.h"

// DeepEP's dispatcher: a token goes once to each node and GPU that has any of its experts, with its
// probabilities, and comes back as sums that are weighted where the experts are.
namespace simrun {
namespace {

TinyJob deepep(const char* model, const std::string& parallelism, int nodes, int gpus) {
  return {.model = model,
          .parallelism = parallelism,
          .more = "moe: {token_dispatcher: deepep}\n",
          .gpus = gpus,
          .nodes = nodes};
}

}  // namespace

TEST_CASE("tokens that go once to each node and GPU of their experts give what one rank computes", "[long]") {
  for (const char* model : {tiny_mixtral, tiny_qwen, tiny_deepseek, tiny_switch})
    for (const int ranks : {2, 4})
      for (const int nodes : {1, 2, 4}) {
        if (nodes > ranks) continue;
        CAPTURE(nodes);
        const std::string ep = "{expert_model_parallel_size: " + std::to_string(ranks) + "}";
        check_expert_job(deepep(model, ep, nodes, 4 / nodes));
      }
}

TEST_CASE("deepep beside tensor, expert tensor, context and pipeline parallelism", "[long]") {
  const char* const layouts[] = {
      "{expert_model_parallel_size: 8}",
      "{expert_model_parallel_size: 4, tensor_model_parallel_size: 2, sequence_parallel: true, "
      "expert_tensor_parallel_size: 1}",
      "{expert_model_parallel_size: 8, tensor_model_parallel_size: 4, sequence_parallel: true, "
      "expert_tensor_parallel_size: 1}",
      "{expert_model_parallel_size: 4, tensor_model_parallel_size: 2, sequence_parallel: true}",
      "{expert_model_parallel_size: 2, expert_tensor_parallel_size: 4}",
      "{expert_model_parallel_size: 4, expert_tensor_parallel_size: 2}",
      "{expert_model_parallel_size: 8, context_parallel_size: 2}",
      "{expert_model_parallel_size: 4, pipeline_model_parallel_size: 2}",
      "{expert_model_parallel_size: 4, pipeline_model_parallel_size: 2, pipeline_schedule: zb_h1}"};
  for (const char* model : {tiny_mixtral, tiny_deepseek})
    for (const char* layout : layouts) {
      CAPTURE(layout);
      check_expert_job(deepep(model, layout, 2, 4));
    }
  check_expert_job(deepep(
      tiny_mixtral,
      "{expert_model_parallel_size: 2, pipeline_model_parallel_size: 2, pipeline_schedule: dualpipe}", 2, 2));
}

TEST_CASE("deepep under sharded optimizers, recompute, frozen parts and adapters", "[long]") {
  for (const char* optimizer : {"{zero_stage: 1}", "{zero_stage: 2}", "{zero_stage: 3}"}) {
    TinyJob job = deepep(tiny_deepseek, "{expert_model_parallel_size: 4}", 2, 4);
    job.optimizer = optimizer;
    check_expert_job(job);
  }
  for (const char* recompute :
       {"{granularity: full}", "{granularity: selective, modules: [moe]}",
        "{granularity: selective, modules: [moe_act]}", "{granularity: selective, saved: [attention]}"}) {
    TinyJob job = deepep(tiny_deepseek, "{expert_model_parallel_size: 4}", 2, 2);
    job.more += "recompute: " + std::string(recompute) + "\n";
    check_expert_job(job);
  }
  TinyJob adapters = deepep(tiny_mixtral, "{expert_model_parallel_size: 4}", 2, 2);
  adapters.training = ", lora: {rank: 2, alpha: 4, targets: [attention_projection, fc1, fc2]}";
  check_expert_job(adapters);
  for (const char* frozen : {"[router]", "[moe]", "[\"layers[0]\", embedding]"}) {
    CAPTURE(frozen);
    const std::string model =
        std::string(tiny_mixtral)
            .insert(std::string(tiny_mixtral).rfind('}'), ", frozen: " + std::string(frozen));
    check_expert_job(deepep(model.c_str(), "{expert_model_parallel_size: 4}", 2, 2));
  }
}

// Rows of GPUs and nodes are as many as tokens chose; a few experts have most of them.
TEST_CASE("memory of deepep follows the rows that nodes, GPUs and experts had, to the byte") {
  check_expert_job(deepep(tiny_qwen, "{expert_model_parallel_size: 4}", 2, 2));
  check_expert_job(deepep(tiny_qwen, "{expert_model_parallel_size: 2}", 2, 1));
}

}  // namespace simrun
