#include "configs/job_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "configs/limits.h"
#include "configs/moe_rules.h"
#include "configs/nearest.h"
#include "configs/node_groups.h"

namespace simrun {
namespace {

bool is_multiple(std::int64_t value, std::int64_t of) { return value == 0 || of == 0 || value % of == 0; }

// "tensor 4 x pipeline 2 = 8", with the context-parallel size where there is one.
struct MeshRanks {
  std::int64_t ranks = 1;
  std::string words;
};
MeshRanks mesh_ranks(const Parallelism& parallelism) {
  const std::int64_t cp = parallelism.context_parallel_size;
  MeshRanks mesh{parallelism.tensor_model_parallel_size * cp,  // at most 1e14
                 fmt::format("tensor {}", parallelism.tensor_model_parallel_size)};
  if (cp > 1) mesh.words += fmt::format(" x context {}", cp);
  if (mesh.ranks <= limits::world) {  // else it is too much already
    mesh.ranks *= parallelism.pipeline_model_parallel_size;
    mesh.words += fmt::format(" x pipeline {}", parallelism.pipeline_model_parallel_size);
  }
  mesh.words += fmt::format(" = {}", mesh.ranks);
  return mesh;
}

// Whose GPUs divide by the mesh.
std::int64_t fewest_nodes(const Job& job, std::int64_t mesh) {
  return std::max<std::int64_t>(mesh / std::gcd(mesh, job.cluster.gpus_per_node), 1);
}

// Numbers of nodes whose GPUs divide by the mesh; with servers, which take GPUs away, numbers of GPUs.
std::string dividing_hint(const Job& job, std::int64_t mesh) {
  if (job.server_gpus() > 0) return nearest_multiples(job.world_size() - job.server_gpus(), mesh);
  const std::int64_t step = fewest_nodes(job, mesh);
  const std::int64_t below = job.cluster.nodes / step * step;
  return below == 0 ? fmt::format("{} nodes do.", step)
                    : fmt::format("{} and {} nodes do.", below, below + step);
}

// The same of a cluster that is too small; data parallel then follows from the nodes, and must divide the
// batch.
std::string growing_hint(const Job& job, std::int64_t mesh) {
  const std::string nodes = dividing_hint(job, mesh);
  if (job.server_gpus() > 0 || job.training.micro_batch_size == 0) return nodes;
  const std::int64_t step = fewest_nodes(job, mesh);
  const std::int64_t sequences = step * job.cluster.gpus_per_node / mesh * job.training.micro_batch_size;
  if (job.training.global_batch_size % sequences == 0) return nodes;
  return fmt::format("{} nodes do, with a global_batch_size that divides by {}.", step, sequences);
}

// Data parallel = GPUs / (tp x cp x pp).
void derive_data_parallel(Reading& reading, Job& job) {
  Parallelism& parallelism = job.parallelism;
  const std::int64_t written = parallelism.data_parallel_size;
  parallelism.data_parallel_size = 0;
  const std::int64_t tp = parallelism.tensor_model_parallel_size;
  const std::int64_t cp = parallelism.context_parallel_size;
  const std::int64_t pp = parallelism.pipeline_model_parallel_size;
  const std::int64_t servers = job.server_gpus();
  if (job.world_size() > limits::world)
    return reading.problem("cluster.nodes",
                           fmt::format("{} GPUs are more than simrun's {}", job.world_size(), limits::world));
  if (job.world_size() <= servers) return;  // configs/parameter_server_rules.cpp says so
  const std::int64_t world = job.world_size() - servers;
  if (tp == 0 || cp == 0 || pp == 0) return;
  parallelism.data_parallel_size = written;
  if (derive_stage_sizes(reading, job)) return;
  parallelism.data_parallel_size = 0;
  const auto [mesh, shape] = mesh_ranks(parallelism);
  const std::string cluster =
      fmt::format("{} GPUs ({} nodes x {}{})", world, job.cluster.nodes, job.cluster.gpus_per_node,
                  servers == 0 ? "" : fmt::format(" less {} servers", servers));
  if (mesh > world)
    return reading.problem("cluster.nodes", fmt::format("{} is smaller than the mesh: {}", cluster, shape),
                           growing_hint(job, mesh));
  if (world % mesh != 0)
    return reading.problem("cluster.nodes", fmt::format("{} do not divide by {}", cluster, shape),
                           dividing_hint(job, mesh));
  parallelism.data_parallel_size = world / mesh;
  if (written > 0 && written != parallelism.data_parallel_size)
    reading.problem(
        "parallelism.data_parallel_size",
        fmt::format("data_parallel_size is {}: {} / ({})", parallelism.data_parallel_size, cluster, shape),
        "leave it out; it is derived.");
  if (written == 0)
    reading.record("parallelism.data_parallel_size", fmt::format("{}", parallelism.data_parallel_size),
                   "derived");
}

void check_batch(Reading& reading, const Job& job) {
  const Training& training = job.training;
  const std::int64_t dp = job.parallelism.data_parallel_size;
  if (dp == 0 || training.micro_batch_size == 0 || training.global_batch_size == 0) return;
  const std::int64_t step = training.micro_batch_size * dp;
  if (training.global_batch_size % step != 0) {
    const double quotient = static_cast<double>(training.global_batch_size) / static_cast<double>(step);
    return reading.problem(
        "training.global_batch_size",
        fmt::format(
            "{} sequences do not split into micro_batch_size {} x data parallel {} ({} / {} = {:.4g})",
            training.global_batch_size, training.micro_batch_size, dp, training.global_batch_size, step,
            quotient),
        nearest_multiples(training.global_batch_size, step));
  }
  const std::int64_t microbatches = job.microbatches();
  const std::int64_t stages =
      job.parallelism.pipeline_model_parallel_size * job.parallelism.virtual_pipeline_model_parallel_size;
  if (microbatches > limits::microbatches ||
      microbatches > limits::passes / std::max<std::int64_t>(stages, 1))
    reading.problem("training.global_batch_size",
                    fmt::format("{} microbatches x {} pipeline stages are more than simrun's {} passes",
                                microbatches, stages, limits::passes));
}

void check_tensor_size(Reading& reading, const Job& job, const std::string& path, std::int64_t tp) {
  const ModelConfig& model = job.model;
  if (tp == 0) return;
  if (!is_multiple(model.num_attention_heads, tp))
    reading.problem(
        path,
        fmt::format("{} attention heads do not split into tensor parallel {}", model.num_attention_heads, tp),
        nearest_divisors(model.num_attention_heads, tp));
  const bool copies_heads = model.num_key_value_heads > 0 && tp > model.num_key_value_heads &&
                            model.num_key_value_heads < model.num_attention_heads;
  if (copies_heads && (model.qk_norm == QkNorm::of_all_heads || model.qk_norm == QkNorm::by_head))
    return reading.problem(path,
                           fmt::format("norms that weight each of {} key-value heads do not go with copies "
                                       "of them on tensor parallel {}",
                                       model.num_key_value_heads, tp),
                           fmt::format("at most {}.", model.num_key_value_heads));
  if (copies_heads && tp % model.num_key_value_heads != 0)
    reading.problem(path,
                    fmt::format("tensor parallel {} gives its ranks unequal copies of {} key-value heads", tp,
                                model.num_key_value_heads),
                    nearest_multiples(tp, model.num_key_value_heads));
  else if (copies_heads && !is_multiple(2 * model.num_key_value_heads * model.head_dim, tp))
    reading.problem(path,
                    fmt::format("the {} rows of keys and values do not split into tensor parallel {}",
                                2 * model.num_key_value_heads * model.head_dim, tp),
                    nearest_divisors(2 * model.num_key_value_heads * model.head_dim, tp));
  if (copies_heads) check_adapters_of_copies(reading, job, "tensor parallel of");
  if (!copies_heads && model.num_key_value_heads != model.num_attention_heads &&
      !is_multiple(model.num_key_value_heads, tp))
    reading.problem(
        path,
        fmt::format("{} key-value heads do not split into tensor parallel {}", model.num_key_value_heads, tp),
        nearest_divisors(model.num_key_value_heads, tp));
  if (!is_multiple(model.ffn_hidden_size, tp))
    reading.problem(
        path,
        fmt::format("feed-forward size {} does not split into tensor parallel {}", model.ffn_hidden_size, tp),
        nearest_divisors(model.ffn_hidden_size, tp));
  if (job.parallelism.sequence_parallel && !is_multiple(job.training.seq_length, tp))
    reading.problem("training.seq_length",
                    fmt::format("sequence_parallel: seq_length {} does not split into tensor parallel {}",
                                job.training.seq_length, tp),
                    nearest_multiples(job.training.seq_length, tp, longest_sequence(reading, job)));
}

void check_tensor_parallel(Reading& reading, const Job& job) {
  const Parallelism& parallelism = job.parallelism;
  if (!parallelism.has_unlike_stages())
    return check_tensor_size(reading, job, "parallelism.tensor_model_parallel_size",
                             parallelism.tensor_model_parallel_size);
  const std::set<std::int64_t> sizes(parallelism.stage_tensor_sizes.begin(),
                                     parallelism.stage_tensor_sizes.end());
  for (const std::int64_t size : sizes)
    check_tensor_size(reading, job, "parallelism.stage_tensor_model_parallel_sizes", size);
}

void check_model(Reading& reading, Job& job) {
  ModelConfig& model = job.model;
  if (model.num_key_value_heads > 0 && !is_multiple(model.num_attention_heads, model.num_key_value_heads))
    reading.problem("model.num_attention_heads",
                    fmt::format("{} attention heads do not split into {} key-value heads",
                                model.num_attention_heads, model.num_key_value_heads),
                    nearest_multiples(model.num_attention_heads, model.num_key_value_heads));
  const bool has_table = model.position_embedding == PositionEmbedding::learned_absolute;
  const bool is_gpt = model.model_type == "gpt";
  const std::int64_t sequence = job.training.seq_length;
  if (is_gpt && !reading.positions.contains("model.max_position_embeddings")) {
    model.max_position_embeddings = sequence;
    reading.record("model.max_position_embeddings", fmt::format("{}", sequence), "default");
  }
  if ((is_gpt || has_table) && model.max_position_embeddings > 0 && sequence > model.max_position_embeddings)
    reading.problem("training.seq_length",
                    fmt::format("seq_length {} is longer than the model's {} positions", sequence,
                                model.max_position_embeddings));
  if (!has_table) model.max_position_embeddings = 0;
}

void check_gpu(Reading& reading, const Job& job) {
  if (!reading.positions.contains("training.precision") || job.training.fp8) return;
  const GpuKinds kinds(job.cluster);
  for (std::size_t kind = 0; kind < kinds.count(); ++kind) {
    const Gpu& gpu = kinds.gpu(kind);
    if (gpu.peak_flops.empty() || gpu.peak_flops.contains(job.training.precision)) continue;
    std::string known;
    for (const auto& [dtype, flops] : gpu.peak_flops)
      known += (known.empty() ? "" : ", ") + std::string(to_string(dtype));
    reading.problem("training.precision",
                    fmt::format("{} has no peak_flops for {}", gpu.name, to_string(job.training.precision)),
                    fmt::format("it has {}.", known));
  }
}

// Everything that is counted in 64 bits downstream, bounded from above in floating point.
void check_countable(Reading& reading, const Job& job) {
  const ModelConfig& model = job.model;
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  const double layers = number(model.num_layers + model.num_nextn_predict_layers);
  const double hidden = number(model.hidden_size);
  const double ffn = number(model.ffn_hidden_size);
  const double heads = number(model.num_attention_heads);
  const double attention = (heads + 2 * number(model.num_key_value_heads)) * number(model.head_dim);
  const double vocabulary =
      number(model.vocab_size) + 128 * number(job.parallelism.tensor_model_parallel_size);
  const ExpertConfig& experts = model.experts;
  const double expert_ffn = number(experts.ffn_hidden_size);
  const double routed = number(experts.topk) * std::max(job.moe.capacity_factor, 1.0);
  const double shared = number(experts.shared_ffn_hidden_size);
  const double sequence = number(job.training.seq_length) + number(job.training.decoder_seq_length);
  const double batch = number(job.training.global_batch_size);
  const double one = number(job.training.micro_batch_size);

  // 32 bytes per parameter: weight, gradient, main copy and two moments, all in fp64.
  const double expert_parameters =
      layers * (hidden + 1) * (number(experts.count) * (3 * expert_ffn + 2) + 3 * shared);
  const MambaConfig& mamba = model.mamba;
  const double groups = number(mamba.num_groups), channels = number(mamba.num_heads) * number(mamba.head_dim);
  const DeltaNetConfig& delta = model.delta_net;
  // Of Gated DeltaNet also what its backward pass is kept: per value head a query, a key and a row of a
  // chunk.
  const double scanned =
      3 * channels + 2 * groups * number(mamba.state_dim) + number(mamba.num_heads) +
      3 * number(delta.convolved()) +
      number(delta.num_value_heads) * (2 * number(delta.key_head_dim) + number(DeltaNetConfig::chunk) + 5);
  const double parameters = expert_parameters + layers * hidden * (2 * attention + 3 * ffn + scanned + 16) +
                            hidden * (2 * vocabulary + number(model.max_position_embeddings));
  // Every activation of a whole step on one rank, and scores that are written to memory, at 8 bytes.
  const double scores = job.training.attention == AttentionKernel::unfused ? 4 * heads * sequence : 0;
  const double per_token =
      layers * (16 * hidden + 4 * ffn + 4 * attention + 2 * scanned + scores) + 4 * vocabulary +
      layers * (routed * (4 * hidden + 4 * expert_ffn) + 4 * shared + 4 * number(experts.count));
  const double widest = std::max(
      {vocabulary, ffn, attention, scanned, hidden, 2 * routed * expert_ffn, shared, number(experts.count)});
  const double flops = one * sequence * (4 * hidden * widest + 8 * attention * sequence);
  const double rows = std::max({widest, 4 * hidden, routed * hidden, scores / 4});
  const auto check = [&](const char* path, double count, double most, const char* what) {
    if (count > most)
      reading.problem(path, fmt::format("too large to count: {} come to {:.1e}", what, count));
    return count <= most;
  };
  if (check("model", 32 * parameters, limits::countable, "the bytes of parameters and optimizer state"))
    check("model", parameters, limits::elements, "the parameters");
  check("training", 8 * batch * sequence * per_token, limits::countable, "the bytes of a step's activations");
  if (check("training", flops, limits::countable, "the FLOPs of one operator"))
    check("training", one * sequence * rows, limits::elements, "the elements of one tensor");
}

void derive_bucket_size(Reading& reading, Job& job) {
  if (reading.positions.contains("optimizer.bucket_size") ||
      reading.positions.contains("optimizer.bucket_bytes") || job.parallelism.data_parallel_size == 0)
    return;
  job.optimizer.bucket_size = default_bucket_size(job.parallelism.data_parallel_size);
  reading.record("optimizer.bucket_size", fmt::format("{}", job.optimizer.bucket_size), "default");
}

// The layers are counted by their stages.
void check_layer_lists(Reading& reading, const Job& job) {
  const std::int64_t layers = layers_in(job.parallelism.stages);
  check_layer_list(reading, "recompute.layers", job.recompute.layers, layers);
  check_layer_list(reading, "optimizer.zero_3_layers", job.optimizer.zero_3_layers, layers);
}

}  // namespace

// The packed q, k, v of copied heads have no part that is q, k or v before they are gathered.
void check_adapters_of_copies(Reading& reading, const Job& job, const char* most) {
  if (!job.training.lora) return;
  for (const std::string& target : job.training.lora->targets)
    if (target == "q" || target == "k" || target == "v")
      reading.problem("training.lora.targets",
                      fmt::format("an adapter of {} alone needs {} at most the {} key-value heads", target,
                                  most, job.model.num_key_value_heads),
                      "qkv takes one of all three.");
}

std::int64_t longest_sequence(const Reading& reading, const Job& job) {
  const std::int64_t positions = job.model.max_position_embeddings;
  const bool follows = job.model.model_type == "gpt" &&  // its default is the sequence itself
                       !reading.positions.contains("model.max_position_embeddings");
  return positions > 0 && !follows ? positions : limits::sequence.most;
}

void apply_job_rules(const std::string& layout, Reading& reading, Job& job) {
  check_model(reading, job);
  derive_data_parallel(reading, job);
  apply_moe_rules(reading, job);
  derive_bucket_size(reading, job);
  apply_sharding_rules(reading, job);
  apply_parameter_server_rules(reading, job);
  apply_offload_rules(reading, job);
  check_rank_placement(job, reading);
  check_batch(reading, job);
  apply_replica_rules(reading, job);
  check_tensor_parallel(reading, job);
  check_stage_sizes(reading, job);
  check_context_parallel(reading, job);
  check_recurrent_layers(reading, job);
  apply_pipeline_rules(layout, reading, job);
  apply_recompute_rules(reading, job);
  check_layer_lists(reading, job);
  apply_document_rules(reading, job);
  check_gpu(reading, job);
  apply_fp8_rules(reading, job);
  check_countable(reading, job);
  check_decoder_sequence(reading, job);
  check_image_sizes(reading, job);
  check_vision_tower(reading, job);
}

}  // namespace simrun
