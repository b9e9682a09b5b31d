#include "tests/cover/cover_jobs.h"

#include <fmt/format.h>

#include "schedules/pipeline_schedule.h"

namespace simrun {
namespace {

constexpr std::int64_t most_ranks = 16;
constexpr int samples = 16;  // of a step

struct TensorLevel {
  int size;
  bool sequence;
};
constexpr TensorLevel tensors[] = {{1, false}, {2, false}, {2, true}, {4, false}, {4, true}};

struct ContextLevel {
  int size;
  const char* keys;
};
constexpr ContextLevel contexts[] = {
    {1, ""},
    {2, "cp_comm_type: p2p"},
    {2, "cp_comm_type: p2p, context_parallel_layout: contiguous"},
    {2, "cp_comm_type: all_gather"},
    {2, "cp_comm_type: a2a"},
    {4, "cp_comm_type: p2p"},
    {4, "cp_comm_type: all_gather, context_parallel_layout: contiguous"},
    {4, "cp_comm_type: a2a+p2p, hierarchical_context_parallel_sizes: [2, 2]"}};

constexpr const char* overlaps[] = {"", ", overlap_grad_reduce: true",
                                    ", overlap_grad_reduce: true, overlap_param_gather: true",
                                    ", overlap_grad_reduce: true, bucket_size: 2000"};
constexpr const char* recomputes[] = {"", "recompute: {granularity: selective}\n",
                                      "recompute: {granularity: full}\n",
                                      "recompute: {granularity: selective, saved: [core_attn]}\n"};
constexpr int data[] = {1, 2, 4};
constexpr const char* experts[] = {"", ", expert_model_parallel_size: 2", ", expert_tensor_parallel_size: 1",
                                   ", expert_tensor_parallel_size: 2",
                                   ", expert_model_parallel_size: 2, expert_tensor_parallel_size: 1"};

struct PipelineLevel {
  int size;
  std::string schedule;
};

// No pipeline, every schedule of the registry over two ranks, and some over four.
const std::vector<PipelineLevel>& pipelines() {
  static const std::vector<PipelineLevel> levels = [] {
    std::vector<PipelineLevel> made{{1, ""}};
    for (const ScheduleEntry& entry : pipeline_schedules()) made.push_back({2, entry.name});
    made.push_back({2, "auto"});
    for (const char* name : {"1f1b", "bpipe", "zb_h1", "dualpipe", "chimera"}) made.push_back({4, name});
    return made;
  }();
  return levels;
}

std::size_t at(const Combination& combination, Factor factor) {
  return combination[static_cast<std::size_t>(factor)];
}

}  // namespace

const std::vector<CoverModel>& cover_models() {
  static const std::vector<CoverModel> models{
      {.name = "gpt",
       .yaml = "{model_type: gpt, num_layers: 4, hidden_size: 24, num_attention_heads: 4, "
               "ffn_hidden_size: 40, vocab_size: 50, max_position_embeddings: 16",
       .dropout = ", hidden_dropout: 0.1, attention_dropout: 0.1",
       .whole = ", hidden_dropout: 0, attention_dropout: 0",
       .least = 30},
      {.name = "llama",
       .yaml = "{model_type: llama, num_hidden_layers: 4, hidden_size: 24, intermediate_size: 40, "
               "num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 50, max_position_embeddings: 16",
       .dropout = ", attention_dropout: 0.1",
       .whole = "",
       .least = 25},
      {.name = "moe",
       .yaml = "{model_type: mixtral, num_hidden_layers: 4, hidden_size: 24, intermediate_size: 20, "
               "num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 50, max_position_embeddings: 16, "
               "num_local_experts: 4, num_experts_per_tok: 2, router_aux_loss_coef: 0.1",
       .dropout = ", attention_dropout: 0.1",
       .whole = "",
       .least = 25},
      {.name = "mla",
       .yaml = "{model_type: deepseek_v2, num_hidden_layers: 4, hidden_size: 24, intermediate_size: 40, "
               "num_attention_heads: 4, vocab_size: 50, q_lora_rank: 10, kv_lora_rank: 12, "
               "qk_nope_head_dim: 6, qk_rope_head_dim: 4, v_head_dim: 5, n_routed_experts: 4, "
               "num_experts_per_tok: 2, moe_intermediate_size: 8, first_k_dense_replace: 2",
       .dropout = ", attention_dropout: 0.1",
       .whole = "",
       .least = 25},
      {.name = "t5",
       .yaml = "{model_type: t5, num_layers: 2, d_model: 24, d_kv: 5, d_ff: 40, num_heads: 4, "
               "vocab_size: 50, relative_attention_num_buckets: 8, relative_attention_max_distance: 6",
       .dropout = ", dropout_rate: 0.1",
       .whole = ", dropout_rate: 0",
       .least = 15,
       .training = ", seq_length: 16, decoder_seq_length: 8"},
      {.name = "wide_resnet",
       .yaml = "{model_type: wide_resnet, image_size: 64, num_layers: 50, base_channels: 2, width_factor: 2, "
               "widens: 3x3, num_labels: 9",
       .dropout = "",
       .whole = "",
       .least = 12,
       .training = "",
       .in_f32 = false},
      {.name = "gnmt",
       .yaml = "{model_type: gnmt, encoder_layers: 3, decoder_layers: 3, hidden_size: 6, vocab_size: 50",
       .dropout = ", dropout: 0.1",
       .whole = ", dropout: 0",
       .least = 11,
       .training = ", seq_length: 8, decoder_seq_length: 5"},
  };
  return models;
}

std::vector<std::size_t> factor_sizes() {
  std::vector<std::size_t> sizes(factor_count, 2);
  const auto set = [&](Factor factor, std::size_t size) { sizes[static_cast<std::size_t>(factor)] = size; };
  set(Factor::pipeline, pipelines().size());
  set(Factor::model, cover_models().size());
  set(Factor::context, std::size(contexts));
  set(Factor::tensor, std::size(tensors));
  set(Factor::zero, 4);
  set(Factor::overlap, std::size(overlaps));
  set(Factor::data, std::size(data));
  set(Factor::experts, std::size(experts));
  set(Factor::recompute, std::size(recomputes));
  return sizes;
}

std::string name_of(const Combination& combination) {
  const PipelineLevel& pipeline = pipelines()[at(combination, Factor::pipeline)];
  const ContextLevel& context = contexts[at(combination, Factor::context)];
  const TensorLevel& tensor = tensors[at(combination, Factor::tensor)];
  return fmt::format(
      "{} tp{}{} cp{} ({}) pp{} {} dp{}{} zero{}{}{}{} {} micro batch {}",
      cover_models()[at(combination, Factor::model)].name, tensor.size, tensor.sequence ? " sp" : "",
      context.size, context.keys, pipeline.size, pipeline.schedule, data[at(combination, Factor::data)],
      experts[at(combination, Factor::experts)], at(combination, Factor::zero),
      overlaps[at(combination, Factor::overlap)],
      at(combination, Factor::recompute) == 0   ? ""
      : at(combination, Factor::recompute) == 1 ? ", selective recompute"
                                                : ", full recompute",
      at(combination, Factor::dropout) == 0 ? "" : ", dropout",
      at(combination, Factor::type) == 0 ? "f64" : "f32", 1 + at(combination, Factor::micro_batch));
}

CoverJob cover_job(const Combination& combination) {
  const PipelineLevel& pipeline = pipelines()[at(combination, Factor::pipeline)];
  const CoverModel& model = cover_models()[at(combination, Factor::model)];
  const ContextLevel& context = contexts[at(combination, Factor::context)];
  const TensorLevel& tensor = tensors[at(combination, Factor::tensor)];
  const std::int64_t ranks =
      std::int64_t{pipeline.size} * context.size * tensor.size * data[at(combination, Factor::data)];
  const bool drops = at(combination, Factor::dropout) == 1;
  CoverJob job;
  job.in_f32 = at(combination, Factor::type) == 1;
  const int micro_batch = 1 + static_cast<int>(at(combination, Factor::micro_batch));
  if (ranks > most_ranks || (drops && model.dropout.empty())) return job;
  if (job.in_f32 && !model.in_f32) return job;
  std::string parallelism = fmt::format(
      "tensor_model_parallel_size: {}, context_parallel_size: {}, "
      "pipeline_model_parallel_size: {}",
      tensor.size, context.size, pipeline.size);
  if (tensor.sequence) parallelism += ", sequence_parallel: true";
  if (context.size > 1) parallelism += fmt::format(", {}", context.keys);
  if (pipeline.size > 1) {
    parallelism += ", pipeline_schedule: " + pipeline.schedule;
    const ScheduleEntry* entry = find_schedule(pipeline.schedule);
    if (entry != nullptr && entry->default_virtual_stages > 1)
      parallelism += fmt::format(", virtual_pipeline_model_parallel_size: {}", entry->default_virtual_stages);
  }
  parallelism += experts[at(combination, Factor::experts)];
  const std::string rest =
      fmt::format("optimizer: {{zero_stage: {}{}}}\n{}", at(combination, Factor::zero),
                  overlaps[at(combination, Factor::overlap)], recomputes[at(combination, Factor::recompute)]);
  job.yaml = fmt::format(
      "simrun: 1\nmodel: {}{}}}\ntraining: {{precision: fp32, micro_batch_size: {}, global_batch_size: "
      "{}{}}}\n"
      "parallelism: {{{}}}\n{}cluster: {{from: dgx_a100, nodes: {}, gpus_per_node: {}}}\n",
      model.yaml, drops ? model.dropout : model.whole, micro_batch, samples, model.training, parallelism,
      rest, (ranks + 7) / 8, ranks > 8 ? 8 : ranks);
  return job;
}

}  // namespace simrun
