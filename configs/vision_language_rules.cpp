// The rules of configs/job_rules.h that are about a vision tower before a decoder.
#include <fmt/format.h>

#include "configs/job_rules.h"
#include "configs/limits.h"
#include "configs/nearest.h"

namespace simrun {
namespace {

void check_images(Reading& reading, const Job& job, const VisionLanguageConfig& model) {
  const Training& training = job.training;
  if (training.images_per_sample == 0 || training.seq_length == 0) return;
  const std::int64_t tokens = training.images_per_sample * model.tokens_of_image();
  if (tokens < training.seq_length) return;
  reading.problem("training.seq_length",
                  fmt::format("seq_length {} counts images' tokens, and {} of {} leave none for text",
                              training.seq_length, training.images_per_sample, model.tokens_of_image()),
                  fmt::format("{} and more do.", tokens + 1));
}

void check_splits(Reading& reading, const Job& job, const VisionTowerConfig& tower) {
  const std::int64_t tp = job.parallelism.tensor_model_parallel_size;
  if (tp == 0) return;
  const auto check = [&](std::int64_t count, const char* what) {
    if (count == 0 || count % tp == 0) return;
    reading.problem(
        "parallelism.tensor_model_parallel_size",
        fmt::format("{} {} of the vision tower do not split into tensor parallel {}", count, what, tp),
        nearest_divisors(count, tp));
  };
  check(tower.num_attention_heads, "attention heads");
  check(tower.ffn_hidden_size, "feed-forward columns");
}

// As job_rules.cpp counts a decoder: 32 bytes per parameter, every activation of a step at 8 bytes.
void check_tower_size(Reading& reading, const Job& job, const VisionTowerConfig& tower) {
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  const double hidden = number(tower.hidden_size), ffn = number(tower.ffn_hidden_size);
  const double tokens = number(tower.patches()) + 1;
  const double pixels = number(tower.patch_size) * number(tower.patch_size) * number(tower.channels);
  const double text = number(job.model.hidden_size);
  const double parameters = number(tower.layers) * hidden * (4 * hidden + 2 * ffn + 16) +
                            hidden * (tokens + pixels) + text * (hidden + text);
  const double per_token =
      number(tower.layers) * (24 * hidden + 4 * ffn + 4 * number(tower.num_attention_heads) * tokens) +
      pixels + 4 * text;
  const double images = number(job.training.global_batch_size) * number(job.training.images_per_sample);
  const auto check = [&](const char* path, double count, const char* what) {
    if (count > limits::countable)
      reading.problem(path, fmt::format("too large to count: {} come to {:.1e}", what, count));
  };
  check("model", 32 * parameters, "the bytes of the vision tower's parameters and optimizer state");
  check("training", 8 * images * tokens * per_token, "the bytes of a step's activations of images");
}

}  // namespace

void check_vision_tower(Reading& reading, const Job& job) {
  const auto* model = family_as<VisionLanguageConfig>(job.model.family);
  if (model == nullptr || model->tower.patch_size == 0) return;
  check_images(reading, job, *model);
  check_splits(reading, job, model->tower);
  check_tower_size(reading, job, model->tower);
  if (job.training.documents)
    reading.problem("training.documents",
                    fmt::format("documents are not supported with {} yet", job.model.model_type));
}

}  // namespace simrun
