#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/device.h"
#include "models/philox.h"

namespace simrun {

// Tensors by name with values, over a small plan of their own.
class KernelBench {
 public:
  struct Tensor {
    Index buffer = 0;
    std::vector<double> values;
    std::vector<std::int64_t> indices;
    std::vector<std::uint8_t> mask;
    std::vector<std::int32_t> choices;     // of an int32 tensor
    SharedRows rows = nullptr;             // of an experts' buffer
    std::map<std::size_t, DimPart> parts;  // by dimension, where it is not whole
  };

  explicit KernelBench(std::unique_ptr<Device> device = make_cpu_device_f64()) : device_(std::move(device)) {
    plan_.job.tokens_per_step = 6;
    plan_.job.microbatches = 1;
  }
  Plan& plan() { return plan_; }

  Index tensor(const std::string& dims, Dtype dtype = Dtype::fp64) {
    Buffer buffer;
    buffer.dtype = dtype;
    for (std::size_t begin = 0; begin < dims.size();) {
      const std::size_t end = std::min(dims.find(' ', begin), dims.size());
      buffer.dims.push_back(dim(dims.substr(begin, end - begin)));
      begin = end + 1;
    }
    plan_.buffers.push_back(buffer);
    Tensor tensor;
    tensor.buffer = static_cast<Index>(plan_.buffers.size() - 1);
    const auto count = static_cast<std::size_t>(plan_.buffers.back().elements());
    const RandomStream random(1, "bench", tensor.buffer);
    for (std::size_t i = 0; i < count; ++i) {
      tensor.values.push_back(random.normal(static_cast<std::int64_t>(i)));
      tensor.indices.push_back(random.word(static_cast<std::int64_t>(i)) % 5);
      tensor.mask.push_back(1);
    }
    tensors_.push_back(tensor);
    return tensor.buffer;
  }
  Tensor& at(Index tensor) { return tensors_[tensor]; }
  std::vector<double>& values(Index tensor) { return tensors_[tensor].values; }
  // Which indices of a dimension it has.
  void set_part(Index tensor, std::size_t dim, const DimPart& part) { tensors_[tensor].parts[dim] = part; }
  const std::vector<std::uint8_t>& mask(Index tensor) const { return tensors_[tensor].mask; }

  Instruction instruction(Opcode opcode, Function function, std::vector<Index> inputs,
                          std::vector<Index> outputs) const {
    Instruction what;
    what.opcode = opcode;
    what.function = function;
    what.inputs = std::move(inputs);
    what.outputs = std::move(outputs);
    what.label = "bench";
    return what;
  }

  void run(const Instruction& what) {
    KernelCall call{plan_, what, {}, {}, 0, 0, training_};
    for (const Index input : what.inputs) call.inputs.push_back(argument(input));
    for (const Index output : what.outputs) call.outputs.push_back(argument(output));
    device_->run(call);
  }

  // Largest difference between the gradient that is there and finite differences, by the largest element:
  // `loss` runs the forward kernel and returns r . outputs.
  double error(Index input, Index gradient, const std::function<double()>& loss) {
    constexpr double step = 1e-4;
    double worst = 0, largest = 1e-3;
    for (std::size_t i = 0; i < values(input).size(); ++i) {
      const double x = values(input)[i];
      const auto at = [&](double shift) {
        values(input)[i] = x + shift;
        return loss();
      };
      // Fourth order: the error of the difference is below 1e-12.
      const double slope = (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step);
      values(input)[i] = x;
      worst = std::max(worst, std::abs(slope - values(gradient)[i]));
      largest = std::max(largest, std::abs(slope));
    }
    return worst / largest;
  }

  double dot(Index a, Index b) {
    double sum = 0;
    for (std::size_t i = 0; i < values(a).size(); ++i) sum += values(a)[i] * values(b)[i];
    return sum;
  }

 private:
  // "hidden:4"
  BufferDim dim(const std::string& text) {
    const std::size_t colon = text.find(':');
    const std::string name = text.substr(0, colon);
    const std::int64_t extent = std::stoll(text.substr(colon + 1));
    auto& names = plan_.dimension_names;
    const auto at = std::find(names.begin(), names.end(), name);
    const auto index = static_cast<std::uint16_t>(at - names.begin());
    if (at == names.end()) {
      names.push_back(name);
      plan_.dimension_sizes.push_back(name == "vocab" ? extent - 1 : extent);  // one column is padding
    }
    return {index, -1, extent};
  }
  Argument argument(Index tensor) {
    const Buffer& buffer = plan_.buffers[tensor];
    Argument argument{&buffer, {}, tensors_[tensor].values.data()};
    if (buffer.dtype == Dtype::int64) argument.data = tensors_[tensor].indices.data();
    if (buffer.dtype == Dtype::uint8) argument.data = tensors_[tensor].mask.data();
    if (buffer.dtype == Dtype::int32) argument.data = tensors_[tensor].choices.data();
    for (const BufferDim& of : buffer.dims) argument.part.push_back({0, of.extent, of.extent});
    argument.rows = tensors_[tensor].rows;
    if (argument.rows != nullptr) {
      argument.part[0] = {0, 1, 1};
      argument.part[1] = {0, argument.rows->size(), argument.rows->size()};
    }
    for (const auto& [dim, part] : tensors_[tensor].parts) argument.part[dim] = part;
    return argument;
  }

  Plan plan_;
  std::vector<Tensor> tensors_;
  Hyperparameters training_;
  std::unique_ptr<Device> device_;
};

// Of a kernel's gradient in f64 from finite differences, by the largest element.
constexpr double gradient_tolerance = 1e-7;

}  // namespace simrun
