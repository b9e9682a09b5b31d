#include "backend/cpu/eigen_products.h"
#include "backend/cpu/kernels.h"

// Convolutions as matrix products: the windows that one row of the output reads, [width', kernel height x
// kernel width x channels], times the weight. No more than one row's windows are unfolded at a time.
namespace simrun::cpu {
namespace {

template <class Real>
using Matrix = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

struct ConvSizes {
  std::int64_t batch, height, width, channels;
  std::int64_t out_height, out_width, out_channels;
  std::int64_t kernel_height, kernel_width;
  std::int64_t stride;

  std::int64_t window() const { return kernel_height * kernel_width * channels; }
  std::int64_t image() const { return height * width * channels; }
  std::int64_t out_row() const { return out_width * out_channels; }
};

ConvSizes conv_sizes(const KernelCall& call, const Argument& x, const Argument& weight, const Argument& y) {
  const auto extent = [](const Argument& of, std::size_t dim) { return of.part[dim].extent; };
  return {extent(x, 0),      extent(x, 1),
          extent(x, 2),      extent(x, 3),
          extent(y, 1),      extent(y, 2),
          extent(y, 3),      extent(weight, 1),
          extent(weight, 2), static_cast<std::int64_t>(call.what.constants.at(0))};
}

// Calls visit(offset in a row's windows, offset in the image) for every pixel that they see; a pixel is
// `channels` elements behind one another. What they see beyond the image is padding.
template <class Visit>
void for_each_pixel(const ConvSizes& s, std::int64_t out_row, Visit visit) {
  const std::int64_t above = (s.kernel_height - 1) / 2, before = (s.kernel_width - 1) / 2;
  for (std::int64_t out = 0; out < s.out_width; ++out)
    for (std::int64_t i = 0; i < s.kernel_height; ++i) {
      const std::int64_t row = out_row * s.stride + i - above;
      if (row < 0 || row >= s.height) continue;
      for (std::int64_t j = 0; j < s.kernel_width; ++j) {
        const std::int64_t column = out * s.stride + j - before;
        if (column < 0 || column >= s.width) continue;
        visit(((out * s.kernel_height + i) * s.kernel_width + j) * s.channels,
              (row * s.width + column) * s.channels);
      }
    }
}

template <class Real>
void unfold(const ConvSizes& s, const Real* image, std::int64_t out_row, Matrix<Real>& windows) {
  windows.setZero();
  for_each_pixel(s, out_row, [&](std::int64_t to, std::int64_t from) {
    std::copy_n(image + from, s.channels, windows.data() + to);
  });
}

template <class Real>
void fold(const ConvSizes& s, const Matrix<Real>& windows, std::int64_t out_row, Real* image) {
  for_each_pixel(s, out_row, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t c = 0; c < s.channels; ++c) image[to + c] += windows.data()[from + c];
  });
}

// Calls visit(sample, output row) with place for its windows.
template <class Real, class Visit>
void for_each_row(const ConvSizes& s, Visit visit) {
  Matrix<Real> windows(s.out_width, s.window());
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t row = 0; row < s.out_height; ++row) visit(b, row, windows);
}

template <class Real>
Eigen::Map<Matrix<Real>> row_of(const ConvSizes& s, const Argument& y, std::int64_t sample,
                                std::int64_t row) {
  return {reals<Real>(y) + (sample * s.out_height + row) * s.out_row(), s.out_width, s.out_channels};
}

template <class Real>
Eigen::Map<Matrix<Real>> filters_of(const ConvSizes& s, const Argument& weight) {
  return {reals<Real>(weight), s.out_channels, s.window()};
}

template <class Real>
void forward(const KernelCall& call) {
  const Argument &x = call.inputs[0], &weight = call.inputs[1], &y = call.outputs[0];
  const ConvSizes s = conv_sizes(call, x, weight, y);
  // Of a sum over ranks that have different channels the first adds it.
  const bool has_bias = call.inputs.size() > 2 && x.part[3].first == 0;
  const Real* bias = has_bias ? reals<Real>(call.inputs[2]) : nullptr;
  for_each_row<Real>(s, [&](std::int64_t b, std::int64_t row, Matrix<Real>& windows) {
    unfold(s, reals<Real>(x) + b * s.image(), row, windows);
    auto out = row_of<Real>(s, y, b, row);
    multiply(as_stored(windows), transposed(filters_of<Real>(s, weight)), out);
    if (bias != nullptr)
      out.rowwise() += Eigen::Map<const Eigen::Matrix<Real, 1, Eigen::Dynamic>>(bias, s.out_channels);
  });
}

template <class Real>
void input_gradient(const KernelCall& call) {
  const Argument &gradient = call.inputs[0], &weight = call.inputs[1], &dx = call.outputs[0];
  const ConvSizes s = conv_sizes(call, dx, weight, gradient);
  if (!adds_to(call, dx)) std::fill_n(reals<Real>(dx), elements(dx.part), Real{0});
  for_each_row<Real>(s, [&](std::int64_t b, std::int64_t row, Matrix<Real>& windows) {
    multiply(as_stored(row_of<Real>(s, gradient, b, row)), as_stored(filters_of<Real>(s, weight)), windows);
    fold(s, windows, row, reals<Real>(dx) + b * s.image());
  });
}

template <class Real>
void weight_gradient(const KernelCall& call) {
  const Argument &x = call.inputs[0], &gradient = call.inputs[1], &dweight = call.outputs[0];
  const ConvSizes s = conv_sizes(call, x, dweight, gradient);
  if (!adds_to(call, dweight)) std::fill_n(reals<Real>(dweight), elements(dweight.part), Real{0});
  for_each_row<Real>(s, [&](std::int64_t b, std::int64_t row, Matrix<Real>& windows) {
    unfold(s, reals<Real>(x) + b * s.image(), row, windows);
    multiply_add(transposed(row_of<Real>(s, gradient, b, row)), as_stored(windows),
                 filters_of<Real>(s, dweight));
  });
}

}  // namespace

template <class Real>
void run_conv(const KernelCall& call) {
  switch (call.what.function) {
    case Function::convolution_input_gradient: return input_gradient<Real>(call);
    case Function::convolution_weight_gradient: return weight_gradient<Real>(call);
    default: return forward<Real>(call);
  }
}

template void run_conv<float>(const KernelCall&);
template void run_conv<double>(const KernelCall&);

}  // namespace simrun::cpu
