#include "models/vgg.h"

#include <algorithm>

#include "models/classifier.h"
#include "models/conv_layers.h"
#include "models/graph_builder.h"
#include "models/image_input.h"

namespace simrun {
namespace {

class VggBuilder {
 public:
  explicit VggBuilder(const Job& job)
      : job_(job),
        vgg_(*family_as<VggConfig>(job.model.family)),
        graph_(job.training.precision),
        layers_(graph_) {}

  Graph build() {
    FeatureMap x = add_images(graph_, job_, vgg_.image);
    std::int32_t layer = 0;
    std::int64_t width = 64;
    for (const std::int64_t convolutions : vgg_.convolutions) {
      for (std::int64_t c = 0; c < convolutions; ++c) {
        graph_.enter_layer(layer++);
        x = layers_.convolution("conv", x, layers_.channels(width), {3, 1, true});
        x = layers_.relu("relu", x);
        if (c + 1 == convolutions) x = layers_.max_pool("pool", x, {2, 2});
      }
      width = std::min<std::int64_t>(2 * width, 512);
    }
    graph_.leave_layers();
    const DimensionId first = graph_.dimension("features", vgg_.wide_features);
    const DimensionId second = graph_.dimension("features", vgg_.wide_features);
    const TensorId y = wide("fc1", x.tensor, {x.height, x.width, x.channels}, {x.batch, first});
    add_classifier(graph_, job_, wide("fc2", y, {first}, {x.batch, second}), {x.batch, second});
    return graph_.take();
  }

 private:
  TensorId wide(const std::string& name, TensorId x, std::vector<DimensionId> from,
                const std::vector<DimensionId>& to) {
    from.push_back(to.back());
    const TensorId weight = graph_.parameter(name + "_weight", from);
    const TensorId bias = graph_.parameter(name + "_bias", {to.back()});
    const TensorId product = graph_.activation(name, to);
    graph_.add(name, Opcode::gemm, Function::none, {x, weight, bias}, {product});
    const TensorId rectified = graph_.activation(name + "_relu", to);
    graph_.add(name + "_relu", Opcode::map, Function::relu, {product}, {rectified});
    const double dropout = job_.training.hidden_dropout;
    if (dropout == 0) return rectified;
    const TensorId dropped = graph_.activation(name + "_dropout", to);
    const TensorId mask = graph_.tensor(name + "_mask", to, Dtype::uint8, TensorKind::activation);
    graph_.add(name + "_dropout", Opcode::map, Function::add, {rectified}, {dropped, mask}).dropout =
        static_cast<float>(dropout);
    return dropped;
  }

  const Job& job_;
  const VggConfig vgg_;
  GraphBuilder graph_;
  ConvLayers layers_;
};

}  // namespace

Graph vgg_graph(const Job& job) { return VggBuilder(job).build(); }

}  // namespace simrun
