#include <catch2/catch.hpp>
#include <cmath>

#include "models/philox.h"
#include "schedules/compile.h"
#include "tests/backend/checked_run.h"
#include "tests/backend/scalar_recorded_step.h"
#include "tests/jobs.h"

// A step of a small ResNet pixel by pixel, after He et al. 2016 (figure 5, bottleneck; projection shortcuts)
// and Ioffe and Szegedy 2015 (algorithm 1), by an implementation that shares nothing with the product but the
// initial values and the images.
namespace simrun {
namespace {

using Number = ScalarTape::Number;

struct Picture {
  int side = 0, channels = 0;
  std::vector<Number> numbers;  // row, column, channel
  Number at(int row, int column, int channel) const {
    return numbers[static_cast<std::size_t>((row * side + column) * channels + channel)];
  }
};
using Pictures = std::vector<Picture>;  // of one microbatch

class ScalarResNet {
 public:
  explicit ScalarResNet(TapedModel& model) : model_(model), tape_(model.tape()) {}

  // `bottlenecks`: (reduced, output channels, stride)
  struct Block {
    int reduced, output, stride;
  };
  std::vector<std::vector<Number>> features(Pictures x, int stem, const std::vector<Block>& blocks) {
    layer_ = -1;
    x = max_pool(relu(normed("stem", convolved("stem", x, stem, 7, 2))));
    for (const Block& block : blocks) {
      ++layer_;
      Pictures y = relu(normed("conv1", convolved("conv1", x, block.reduced, 1, 1)));
      y = relu(normed("conv2", convolved("conv2", y, block.reduced, 3, block.stride)));
      y = normed("conv3", convolved("conv3", y, block.output, 1, 1));
      if (block.stride > 1 || x[0].channels != block.output)
        x = normed("shortcut", convolved("shortcut", x, block.output, 1, block.stride));
      x = relu(added(x, y));
    }
    std::vector<std::vector<Number>> means;
    for (const Picture& picture : x) means.push_back(mean_pixel(picture));
    return means;
  }

 private:
  Pictures convolved(const std::string& name, const Pictures& x, int channels, int kernel, int stride) {
    const std::vector<Number>& weight = model_.parameter(layer_, name + "_weight");
    Pictures out;
    for (const Picture& picture : x) {
      Picture y{(picture.side + stride - 1) / stride, channels, {}};
      for (int row = 0; row < y.side; ++row)
        for (int column = 0; column < y.side; ++column)
          for (int c = 0; c < channels; ++c)
            y.numbers.push_back(window_sum(picture, weight, {row * stride, column * stride, c, kernel}));
      out.push_back(std::move(y));
    }
    return out;
  }

  struct Window {
    int row, column, channel, kernel;  // centred on a pixel of x, for a channel of the output
  };
  Number window_sum(const Picture& x, const std::vector<Number>& weight, const Window& window) {
    const int reach = window.kernel / 2;
    Number sum = tape_.constant(0);
    for (int i = -reach; i <= reach; ++i)
      for (int j = -reach; j <= reach; ++j) {
        const int row = window.row + i, column = window.column + j;
        if (row < 0 || column < 0 || row >= x.side || column >= x.side) continue;
        for (int c = 0; c < x.channels; ++c) {
          const int tap = (window.channel * window.kernel + i + reach) * window.kernel + j + reach;
          const auto at = static_cast<std::size_t>(tap * x.channels + c);
          sum = tape_.plus(sum, tape_.times(x.at(row, column, c), weight.at(at)));
        }
      }
    return sum;
  }

  // Over the whole microbatch.
  Pictures normed(const std::string& name, Pictures x) {
    const std::vector<Number>&weight = model_.parameter(layer_, name + "_norm_weight"),
          &bias = model_.parameter(layer_, name + "_norm_bias");
    const auto channels = static_cast<std::size_t>(x[0].channels);
    for (std::size_t c = 0; c < channels; ++c) {
      std::vector<Number*> values;
      for (Picture& picture : x)
        for (std::size_t i = c; i < picture.numbers.size(); i += channels)
          values.push_back(&picture.numbers[i]);
      const double share = 1.0 / static_cast<double>(values.size());
      Number mean = tape_.constant(0), variance = tape_.constant(0);
      for (const Number* value : values) mean = tape_.plus(mean, tape_.scaled(*value, share));
      for (const Number* value : values) {
        const Number apart = tape_.minus(*value, mean);
        variance = tape_.plus(variance, tape_.scaled(tape_.times(apart, apart), share));
      }
      const Number r = tape_.power(tape_.shifted(variance, 1e-5), -0.5);
      for (Number* value : values)
        *value = tape_.plus(tape_.times(tape_.times(tape_.minus(*value, mean), r), weight[c]), bias[c]);
    }
    return x;
  }

  Number larger(Number a, Number b) const { return tape_.value(a) >= tape_.value(b) ? a : b; }

  Pictures relu(Pictures x) {
    for (Picture& picture : x)
      for (Number& number : picture.numbers) number = larger(number, tape_.constant(0));
    return x;
  }

  // Of 3 x 3 pixels around every second one.
  Pictures max_pool(const Pictures& x) {
    Pictures out;
    for (const Picture& picture : x) {
      Picture y{(picture.side + 1) / 2, picture.channels, {}};
      for (int row = 0; row < y.side; ++row)
        for (int column = 0; column < y.side; ++column)
          for (int c = 0; c < y.channels; ++c) {
            Number most = picture.at(2 * row, 2 * column, c);
            for (int i = std::max(2 * row - 1, 0); i <= std::min(2 * row + 1, picture.side - 1); ++i)
              for (int j = std::max(2 * column - 1, 0); j <= std::min(2 * column + 1, picture.side - 1); ++j)
                most = larger(most, picture.at(i, j, c));
            y.numbers.push_back(most);
          }
      out.push_back(std::move(y));
    }
    return out;
  }

  Pictures added(Pictures x, const Pictures& y) {
    for (std::size_t p = 0; p < x.size(); ++p)
      for (std::size_t i = 0; i < x[p].numbers.size(); ++i)
        x[p].numbers[i] = tape_.plus(x[p].numbers[i], y[p].numbers[i]);
    return x;
  }

  std::vector<Number> mean_pixel(const Picture& x) {
    std::vector<Number> means;
    for (int c = 0; c < x.channels; ++c) {
      Number sum = tape_.constant(0);
      for (int row = 0; row < x.side; ++row)
        for (int column = 0; column < x.side; ++column) sum = tape_.plus(sum, x.at(row, column, c));
      means.push_back(tape_.scaled(sum, 1.0 / (x.side * x.side)));
    }
    return means;
  }

  TapedModel& model_;
  ScalarTape& tape_;
  std::int32_t layer_ = -1;
};

}  // namespace

TEST_CASE("a step of a small ResNet is what its formulas say, pixel by pixel") {
  const Plan plan =
      compile(job_from("simrun: 1\n"
                       "model: {model_type: resnet, image_size: 16, num_channels: 2, embedding_size: 3, "
                       "hidden_sizes: [8, 12], depths: [1, 1], num_labels: 5}\n"
                       "training: {global_batch_size: 4, micro_batch_size: 2, precision: fp32}\n"
                       "cluster: {from: dgx_a100, nodes: 1, gpus_per_node: 1}\n"));
  const Execution run = checked_run(plan, ExecutionDevice::cpu_f64, 1);
  TapedModel model(plan, run, 0);
  ScalarTape& tape = model.tape();
  const RandomStream images(0, "images", 0), labels(0, "labels", 0);
  std::vector<Number> losses;
  for (std::int64_t microbatch = 0; microbatch < 2; ++microbatch) {
    Pictures x;
    for (std::int64_t sample = 2 * microbatch; sample < 2 * microbatch + 2; ++sample) {
      Picture picture{16, 2, {}};
      for (std::int64_t i = 0; i < 16 * 16 * 2; ++i)
        picture.numbers.push_back(tape.constant(images.normal(sample * 16 * 16 * 2 + i)));
      x.push_back(std::move(picture));
    }
    const auto features = ScalarResNet(model).features(std::move(x), 3, {{2, 8, 1}, {3, 12, 2}});
    for (std::size_t b = 0; b < 2; ++b) {
      std::vector<Number> scores;
      for (std::size_t c = 0; c < 5; ++c)
        scores.push_back(
            tape.plus(model.dot(features[b], model.parameter(-1, "classifier_weight"), 12 * c, 1),
                      model.parameter(-1, "classifier_bias")[c]));
      losses.push_back(tape.scaled(
          model.cross_entropy(scores, labels.word(2 * microbatch + static_cast<std::int64_t>(b)) % 5), 0.25));
    }
  }
  model.check(plan, run, model.sum(losses));
}

}  // namespace simrun
