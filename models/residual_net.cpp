#include "models/residual_net.h"

#include "models/classifier.h"
#include "models/conv_layers.h"
#include "models/graph_builder.h"
#include "models/image_input.h"

namespace simrun {
namespace {

class ResidualNetBuilder {
 public:
  explicit ResidualNetBuilder(const Job& job)
      : job_(job),
        resnet_(*family_as<ResNetConfig>(job.model.family)),
        graph_(job.training.precision),
        layers_(graph_) {}

  Graph build() {
    FeatureMap x = stem();
    std::int32_t layer = 0;
    for (std::size_t s = 0; s < resnet_.stages.size(); ++s) {
      const ResidualStage& stage = resnet_.stages[s];
      const Widths widths{stage.reduced > 0 ? layers_.channels(stage.reduced) : DimensionId{0},
                          layers_.channels(stage.inner), layers_.channels(stage.output)};
      for (std::int64_t block = 0; block < stage.blocks; ++block) {
        graph_.enter_layer(layer++);
        x = stage.reduced > 0 ? bottleneck(x, widths, block == 0 && s > 0 ? 2 : 1)
                              : basic(x, widths, block == 0 && s > 0 ? 2 : 1);
      }
    }
    graph_.leave_layers();
    add_classifier(graph_, job_, layers_.global_average("average_pool", x), {x.batch, x.channels});
    return graph_.take();
  }

 private:
  struct Widths {
    DimensionId reduced = 0, inner = 0, output = 0;
  };

  FeatureMap stem() {
    FeatureMap x = add_images(graph_, job_, resnet_.image);
    x = convolution("stem", x, layers_.channels(resnet_.stem_channels), {7, 2});
    return layers_.max_pool("stem_pool", layers_.relu("stem_relu", x), {3, 2});
  }

  FeatureMap convolution(const std::string& name, FeatureMap x, DimensionId channels,
                         ConvolutionShape shape) {
    return layers_.batch_norm(name + "_norm", layers_.convolution(name, x, channels, shape));
  }

  FeatureMap bottleneck(FeatureMap x, const Widths& widths, std::int64_t stride) {
    const std::int64_t first = resnet_.stride_in_reduction ? stride : 1;
    const FeatureMap reduced =
        layers_.relu("conv1_relu", convolution("conv1", x, widths.reduced, {1, first}));
    const FeatureMap inner =
        layers_.relu("conv2_relu", convolution("conv2", reduced, widths.inner, {3, stride / first}));
    return sum(x, convolution("conv3", inner, widths.output, {1, 1}), stride);
  }

  FeatureMap basic(FeatureMap x, const Widths& widths, std::int64_t stride) {
    const FeatureMap inner = layers_.relu("conv1_relu", convolution("conv1", x, widths.inner, {3, stride}));
    return sum(x, convolution("conv2", inner, widths.output, {3, 1}), stride);
  }

  // A projection where the shapes differ (He et al. 2016, section 3.3, option B).
  FeatureMap sum(FeatureMap x, FeatureMap y, std::int64_t stride) {
    const bool projects = stride > 1 || graph_.size(x.channels) != graph_.size(y.channels);
    const FeatureMap shortcut = projects ? convolution("shortcut", x, y.channels, {1, stride}) : x;
    return layers_.relu("block_relu", layers_.add("block_add", y, shortcut));
  }

  const Job& job_;
  const ResNetConfig resnet_;
  GraphBuilder graph_;
  ConvLayers layers_;
};

}  // namespace

Graph residual_net_graph(const Job& job) { return ResidualNetBuilder(job).build(); }

}  // namespace simrun
