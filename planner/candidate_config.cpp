#include "planner/candidate_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "configs/job_yaml.h"
#include "configs/pipeline_layout.h"

namespace simrun {
namespace {

constexpr const char* found_by = "simrun --plan";

ConfigNode plain_scalar(std::string text, bool quoted = false) {
  ConfigNode node;
  node.kind = ConfigNode::Kind::scalar;
  node.text = std::move(text);
  node.quoted = quoted;
  node.position = node.key_position = {found_by, 0, 0};
  return node;
}

void erase_key(ConfigNode& root, const std::string& section, const std::string& key) {
  if (ConfigNode* of = root.find(section))
    std::erase_if(of->children, [&](const ConfigNode& child) { return child.key == key; });
}

void erase_section(ConfigNode& root, const std::string& section) {
  std::erase_if(root.children, [&](const ConfigNode& child) { return child.key == section; });
}

void put_recompute(ConfigNode& root, const Job& candidate) {
  const RecomputeConfig& recompute = candidate.recompute;
  erase_section(root, "recompute");
  if (recompute.granularity == RecomputeGranularity::none) return;
  const bool is_full = recompute.granularity == RecomputeGranularity::full;
  put_scalar(root, "recompute.granularity", plain_scalar(is_full ? "full" : "selective"));
  if (is_full) return;
  ConfigNode list;
  list.kind = ConfigNode::Kind::sequence;
  list.position = list.key_position = {found_by, 0, 0};
  list.key = recompute.saved.empty() ? "modules" : "saved";
  for (const std::string& module : recompute.modules) list.children.push_back(plain_scalar(module));
  for (const ScopePattern& scope : recompute.saved) list.children.push_back(plain_scalar(scope.text, true));
  root.find("recompute")->children.push_back(std::move(list));
}

void put_sharding(ConfigNode& root, const Job& job, const Candidate& candidate) {
  put_scalar(root, "optimizer.zero_stage", plain_scalar(fmt::format("{}", candidate.zero_stage)));
  const OptimizerConfig optimizer = with_candidate(job, candidate).optimizer;
  // What the job's own stage implies of them, this one may not.
  const auto put_unless = [&](bool implied, const char* key, bool value) {
    if (implied)
      erase_key(root, "optimizer", key);
    else if (value)
      put_scalar(root, std::string("optimizer.") + key, plain_scalar("true"));
  };
  put_unless(candidate.zero_stage >= 2, "overlap_grad_reduce", optimizer.overlap_grad_reduce);
  put_unless(!may_overlap_gathers(job, candidate), "overlap_param_gather", optimizer.overlap_param_gather);
  if (!has_instances(job, candidate)) erase_key(root, "optimizer", "num_distributed_optimizer_instances");
  if (candidate.zero_stage > 0) erase_key(root, "optimizer", "all_reduce");
  erase_key(root, "optimizer", "zero_3_layers");
  if (candidate.zero_stage < 2) erase_key(root, "optimizer", "no_sync");
  if (candidate.zero_stage < 3)
    for (const char* key : {"reshard_after_forward", "reshard_after_backward"})
      erase_key(root, "optimizer", key);
}

// REQUIRES: the sections parallelism and optimizer.
void put_tuning(ConfigNode& root, const SplitTuning& tuning) {
  if (!tuning.rank_order.empty()) put_scalar(root, "parallelism.rank_order", plain_scalar(tuning.rank_order));
  if (tuning.bucket_size > 0)
    put_scalar(root, "optimizer.bucket_size", plain_scalar(fmt::format("{}", tuning.bucket_size)));
  if (tuning.gathered_stay > 0) put_scalar(root, "optimizer.reshard_after_forward", plain_scalar("false"));
  if (tuning.gathered_stay > 1) put_scalar(root, "optimizer.reshard_after_backward", plain_scalar("false"));
}

}  // namespace

namespace {

void put_list(ConfigNode& root, const std::string& section, const std::string& key,
              const std::vector<std::int64_t>& values) {
  if (values.empty()) return;
  ConfigNode list;
  list.kind = ConfigNode::Kind::sequence;
  list.position = list.key_position = {found_by, 0, 0};
  list.key = key;
  for (const std::int64_t value : values) list.children.push_back(plain_scalar(fmt::format("{}", value)));
  erase_key(root, section, key);
  root.find(section)->children.push_back(std::move(list));
}

// REQUIRES: the section parallelism.
void put_exchange(ConfigNode& root, const Candidate& candidate) {
  const AttentionExchange& exchange = candidate.exchange;
  if (!exchange.kind) return;
  const bool is_hybrid = *exchange.kind == ContextExchange::a2a_p2p;
  put_scalar(root, "parallelism.cp_comm_type", plain_scalar(exchange_word(*exchange.kind)));
  if (is_hybrid)
    put_list(root, "parallelism", "hierarchical_context_parallel_sizes",
             {exchange.a2a_size, candidate.context / exchange.a2a_size});
}

// REQUIRES: the sections training and parallelism.
void put_balance(ConfigNode& root, const DeviceBalance& balance) {
  if (!balance.layout.empty())
    put_scalar(root, "parallelism.pipeline_model_parallel_layout", plain_scalar(balance.layout, true));
  if (balance.micro_batch > 0)
    put_scalar(root, "training.micro_batch_size", plain_scalar(fmt::format("{}", balance.micro_batch)));
  put_list(root, "training", "replica_micro_batch_sizes", balance.replicas);
  if (!balance.rank_map.empty()) erase_key(root, "parallelism", "rank_order");
  put_list(root, "parallelism", "rank_map", balance.rank_map);
  put_list(root, "parallelism", "stage_data_parallel_sizes", balance.stage_data);
}

}  // namespace

ConfigNode with_candidate(ConfigNode root, const Job& job, const Candidate& candidate) {
  if (candidate.is_as_written) {
    if (root.find("parallelism") == nullptr &&
        (!candidate.balance.layout.empty() || !candidate.balance.rank_map.empty()))
      put_scalar(root, "parallelism.tensor_model_parallel_size",
                 plain_scalar(fmt::format("{}", job.parallelism.tensor_model_parallel_size)));
    put_balance(root, candidate.balance);
    return root;
  }
  const auto put = [&](const char* key, std::int64_t value) {
    put_scalar(root, std::string("parallelism.") + key, plain_scalar(fmt::format("{}", value)));
  };
  for (const char* key :
       {"pipeline_model_parallel_layout", "microbatch_group_size_per_vp_stage", "pipeline_memory_limit",
        "data_parallel_size", "pipeline_schedule", "stage_tensor_model_parallel_sizes",
        "stage_data_parallel_sizes", "stage_broadcast_chunks"})
    erase_key(root, "parallelism", key);
  put("tensor_model_parallel_size", candidate.tensor);
  put("context_parallel_size", candidate.context);
  put("pipeline_model_parallel_size", candidate.pipeline);
  put("virtual_pipeline_model_parallel_size", candidate.virtual_stages);
  if (job.model.experts.count > 0) {
    put("expert_model_parallel_size", candidate.expert);
    put("expert_tensor_parallel_size", candidate.expert_tensor);
  }
  put_scalar(root, "parallelism.sequence_parallel",
             plain_scalar(takes_sequence_parallel(job, candidate) ? "true" : "false"));
  put_exchange(root, candidate);
  if (!candidate.schedule.empty())
    put_scalar(root, "parallelism.pipeline_schedule", plain_scalar(candidate.schedule));
  const std::int64_t stages = candidate.pipeline * candidate.virtual_stages;
  if (stages > 1 && (job.model.num_layers % stages != 0 || job.model.num_nextn_predict_layers > 0))
    put_scalar(root, "parallelism.pipeline_model_parallel_layout",
               plain_scalar(pipeline_layout_text(balanced_stages(job, stages)), true));
  put_scalar(root, "training.micro_batch_size", plain_scalar(fmt::format("{}", candidate.micro_batch)));
  erase_key(root, "training", "replica_micro_batch_sizes");
  put_sharding(root, job, candidate);
  put_recompute(root, with_candidate(job, candidate));
  put_tuning(root, candidate.tuning);
  put_balance(root, candidate.balance);
  return root;
}

}  // namespace simrun
