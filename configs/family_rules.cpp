// The rules of configs/job_rules.h that are about families other than decoder-only transformers.
#include <fmt/format.h>

#include <algorithm>

#include "configs/job_rules.h"
#include "configs/limits.h"
#include "configs/nearest.h"

namespace simrun {
namespace {

// Channels of the widest feature map, and the elements of the largest weight.
struct Widest {
  double channels = 0, weight = 0;
};

Widest widest_of(const ModelFamily& family) {
  Widest widest;
  if (const auto* resnet = family_as<ResNetConfig>(family)) {
    widest.channels = static_cast<double>(std::max(resnet->stem_channels, resnet->image.channels));
    for (const ResidualStage& stage : resnet->stages)
      widest.channels = std::max({widest.channels, static_cast<double>(stage.inner),
                                  static_cast<double>(stage.output), static_cast<double>(stage.reduced)});
    widest.weight = 49 * widest.channels * widest.channels;
  } else if (const auto* vgg = family_as<VggConfig>(family)) {
    widest.channels = std::max<double>(512, static_cast<double>(vgg->image.channels));
    const auto side = static_cast<double>(vgg->image.size) / 32;
    const auto wide = static_cast<double>(vgg->wide_features);
    widest.weight = wide * (512 * side * side + wide);
  }
  return widest;
}

}  // namespace

void check_decoder_sequence(Reading& reading, const Job& job) {
  const bool is_decoder = std::holds_alternative<std::monostate>(job.model.family);
  if (!is_decoder && job.parallelism.context_parallel_size > 1)
    reading.problem("parallelism.context_parallel_size",
                    fmt::format("context parallelism of {} is not supported yet", job.model.model_type));
  const std::int64_t sequence = job.training.decoder_seq_length;
  const std::int64_t tp = job.parallelism.tensor_model_parallel_size;
  const char* const path = "training.decoder_seq_length";
  const std::int64_t positions = job.model.max_position_embeddings;
  if (positions > 0 && sequence > positions)
    reading.problem(path, fmt::format("decoder_seq_length {} is longer than the model's {} positions",
                                      sequence, positions));
  if (job.parallelism.sequence_parallel && sequence > 0 && tp > 0 && sequence % tp != 0)
    reading.problem(
        path,
        fmt::format("sequence_parallel: decoder_seq_length {} does not split into tensor parallel {}",
                    sequence, tp),
        nearest_multiples(sequence, tp, longest_sequence(reading, job)));
}

void check_image_sizes(Reading& reading, const Job& job) {
  const ImageConfig* image = image_of(job.model.family);
  if (image == nullptr) return;
  const Widest widest = widest_of(job.model.family);
  const auto layers = static_cast<double>(job.model.num_layers) + 2;
  const auto side = static_cast<double>(image->size);
  const double images = 8 * static_cast<double>(job.training.global_batch_size) * side * side *
                        (layers * 8 * widest.channels + static_cast<double>(image->channels));
  const double classes = widest.channels * static_cast<double>(image->classes);
  const double parameters = 32 * (layers * 4 * widest.weight + classes);
  const auto check = [&](const char* path, double count, const char* what) {
    if (count > limits::countable)
      reading.problem(path, fmt::format("too large to count: {} come to {:.1e}", what, count));
  };
  check("training", images, "the bytes of a step's feature maps");
  check("model", parameters, "the bytes of parameters and optimizer state");
}

}  // namespace simrun
