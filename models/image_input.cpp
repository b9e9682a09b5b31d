#include "models/image_input.h"

namespace simrun {

FeatureMap add_images(GraphBuilder& graph, const Job& job, const ImageConfig& image) {
  FeatureMap images;
  images.batch = graph.dimension("batch", job.training.micro_batch_size * job.parallelism.data_parallel_size);
  images.height = graph.dimension("height", image.size);
  images.width = graph.dimension("width", image.size);
  images.channels = graph.dimension("channels", image.channels);
  images.tensor = graph.tensor("images", {images.batch, images.height, images.width, images.channels},
                               job.training.precision, TensorKind::index);
  graph.add("images", Opcode::input, Function::none, {}, {images.tensor});
  return images;
}

}  // namespace simrun
