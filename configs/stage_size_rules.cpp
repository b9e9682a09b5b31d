// Pipeline ranks of unlike size: parallelism.stage_tensor_model_parallel_sizes and stage_data_parallel_sizes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "configs/job_rules.h"
#include "configs/limits.h"
#include "configs/nearest.h"
#include "configs/rank_order.h"

namespace simrun {
namespace {

constexpr const char* tensor_path = "parallelism.stage_tensor_model_parallel_sizes";
constexpr const char* data_path = "parallelism.stage_data_parallel_sizes";

const char* written_path(const Reading& reading) {
  return reading.positions.contains(data_path) ? data_path : tensor_path;
}

bool has_all_ranks(Reading& reading, const char* path, const std::vector<std::int64_t>& sizes,
                   std::int64_t pipeline) {
  if (sizes.empty() || std::cmp_equal(sizes.size(), pipeline)) return true;
  reading.problem(path, fmt::format("{} sizes for {} pipeline ranks", sizes.size(), pipeline),
                  fmt::format("pipeline_model_parallel_size: {} fits them.", sizes.size()));
  return false;
}

// Of stages as large as one another, whose data-parallel sizes are not written.
bool fill_data_sizes(Reading& reading, Job& job) {
  Parallelism& parallelism = job.parallelism;
  if (!parallelism.stage_data_sizes.empty()) return true;
  const std::int64_t world = job.world_size(), pipeline = parallelism.pipeline_model_parallel_size;
  for (const std::int64_t tensor : parallelism.stage_tensor_sizes) {
    if (world % pipeline != 0 || world / pipeline % tensor != 0) {
      reading.problem(tensor_path,
                      fmt::format("{} GPUs do not divide into {} equal stages of tensor parallel {}", world,
                                  pipeline, tensor),
                      "stage_data_parallel_sizes gives stages of unlike size.");
      return false;
    }
    parallelism.stage_data_sizes.push_back(world / pipeline / tensor);
  }
  return true;
}

// Of two sizes the larger is a multiple of the smaller, so that a part of one is whole parts of the other.
void check_chain(Reading& reading, const char* path, std::vector<std::int64_t> sizes) {
  std::sort(sizes.begin(), sizes.end());
  for (std::size_t s = 1; s < sizes.size(); ++s)
    if (sizes[s] % sizes[s - 1] != 0)
      return reading.problem(
          path,
          fmt::format("stages of size {} and of size {} cut each other's parts", sizes[s - 1], sizes[s]),
          "of two sizes the larger must be a multiple of the smaller.");
}

void check_world(Reading& reading, const Job& job) {
  const Parallelism& parallelism = job.parallelism;
  std::int64_t gpus = 0;
  std::string sum;
  for (std::size_t s = 0; s < parallelism.stage_data_sizes.size(); ++s) {
    const std::int64_t tensor = parallelism.stage_tensor_sizes[s], data = parallelism.stage_data_sizes[s];
    gpus += std::min(tensor, limits::world) * std::min(data, limits::world);
    gpus = std::min(gpus, 2 * limits::world);
    if (s < 8) sum += fmt::format("{}{} x {}", s == 0 ? "" : " + ", tensor, data);
  }
  if (parallelism.stage_data_sizes.size() > 8) sum += " + ...";
  if (gpus == job.world_size()) return;
  reading.problem(written_path(reading),
                  fmt::format("the stages have {} = {} GPUs, but the cluster has {} ({} nodes x {})", sum,
                              gpus, job.world_size(), job.cluster.nodes, job.cluster.gpus_per_node));
}

// What counts on pipeline ranks that are alike.
void check_combinations(Reading& reading, const Job& job) {
  const Parallelism& parallelism = job.parallelism;
  const auto refuse = [&](const char* with) {
    reading.problem(written_path(reading),
                    fmt::format("pipeline ranks of unlike size and {} are not supported together", with));
  };
  if (parallelism.context_parallel_size > 1) refuse("context_parallel_size");
  if (job.model.experts.count > 0) refuse("experts");
  if (image_of(job.model.family) != nullptr || family_as<VisionLanguageConfig>(job.model.family) != nullptr ||
      job.training.decoder_seq_length > 0)
    refuse("models other than decoders");
  if (!job.layout.mesh.empty()) refuse("layout.mesh");
  if (!parallelism.rank_map.empty() || parallelism.rank_order != default_rank_order)
    refuse("rank_order or rank_map");
  if (!job.training.replica_micro_batch_sizes.empty()) refuse("replica_micro_batch_sizes");
  if (job.training.documents) refuse("packed documents");
  if (job.training.fp8) refuse("fp8");
  if (job.optimizer.parameter_server) refuse("parameter servers");
  if (job.optimizer.num_distributed_optimizer_instances > 1 ||
      job.optimizer.all_reduce != AllReduceKind::flat)
    refuse("data parallelism that is cut in two");
  if (job.offload.any()) refuse("offload");
  const std::string& schedule = parallelism.pipeline_schedule;
  if (schedule == "dualpipe" || schedule == "chimera" || schedule == "bpipe") refuse(schedule.c_str());
  const Parallelism& of = parallelism;
  const bool reads_words_last = job.model.tie_word_embeddings || job.model.num_nextn_predict_layers > 0;
  if (reads_words_last && (of.stage_tensor_sizes.front() != of.stage_tensor_sizes.back() ||
                           of.stage_data_sizes.front() != of.stage_data_sizes.back()))
    refuse(job.model.tie_word_embeddings
               ? "word embeddings tied between a first and a last rank that differ"
               : "multi-token prediction on a last rank that differs from the first");
}

}  // namespace

bool derive_stage_sizes(Reading& reading, Job& job) {
  Parallelism& parallelism = job.parallelism;
  std::vector<std::int64_t>&tensor = parallelism.stage_tensor_sizes, &data = parallelism.stage_data_sizes;
  const std::int64_t written = parallelism.data_parallel_size;
  const std::int64_t pipeline = parallelism.pipeline_model_parallel_size;
  if (tensor.empty() && data.empty()) return false;
  parallelism.data_parallel_size = 0;
  const bool has_tensor = has_all_ranks(reading, tensor_path, tensor, pipeline);
  const bool has_data = has_all_ranks(reading, data_path, data, pipeline);
  if (tensor.empty()) tensor.assign(data.size(), parallelism.tensor_model_parallel_size);
  if (!has_tensor || !has_data || !fill_data_sizes(reading, job)) {
    tensor.clear();
    data.clear();
    return true;
  }
  check_world(reading, job);
  if (written > 0 && written != data.front())
    reading.problem("parallelism.data_parallel_size",
                    fmt::format("data_parallel_size is {}, that of the first stage", data.front()),
                    "leave it out beside stage_data_parallel_sizes.");
  parallelism.data_parallel_size = data.front();
  reading.record("parallelism.data_parallel_size", fmt::format("{}", data.front()), "of the first stage");
  const auto alike = [](const std::vector<std::int64_t>& sizes) {
    return std::ranges::adjacent_find(sizes, std::not_equal_to<>()) == sizes.end();
  };
  if (alike(tensor) && alike(data)) {
    tensor.clear();
    data.clear();
  }
  return true;
}

void check_stage_sizes(Reading& reading, const Job& job) {
  const Parallelism& parallelism = job.parallelism;
  if (!parallelism.has_unlike_stages()) return;
  check_combinations(reading, job);
  if (parallelism.virtual_pipeline_model_parallel_size > 1)
    reading.problem("parallelism.virtual_pipeline_model_parallel_size",
                    "virtual stages need pipeline ranks of one size");
  if (job.model.num_key_value_heads > 0 && parallelism.largest_tensor_size() > job.model.num_key_value_heads)
    reading.problem(
        tensor_path,
        fmt::format("tensor parallel {} beyond the {} key-value heads needs pipeline ranks of one "
                    "size",
                    parallelism.largest_tensor_size(), job.model.num_key_value_heads));
  check_chain(reading, tensor_path, parallelism.stage_tensor_sizes);
  check_chain(reading, data_path, parallelism.stage_data_sizes);
  const std::int64_t samples = job.training.micro_batch_size * parallelism.data_parallel_size;
  for (const std::int64_t data : parallelism.stage_data_sizes)
    if (samples % data != 0)
      return reading.problem(
          data_path,
          fmt::format(
              "a microbatch of {} sequences (micro_batch_size {} on the first stage's {} data-parallel "
              "ranks) does not split over {}",
              samples, job.training.micro_batch_size, parallelism.data_parallel_size, data),
          nearest_multiples(samples, data));
}

}  // namespace simrun
