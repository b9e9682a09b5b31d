#include <limits>

#include "backend/cpu/kernels.h"

// Pooling of [batch, height, width, channels]: maxima of windows, or the mean of an image.
namespace simrun::cpu {
namespace {

struct Image {
  std::int64_t batch, height, width, channels;
  std::int64_t pixels() const { return height * width; }
};

Image image_of(const Argument& x) {
  return {x.part[0].extent, x.part[1].extent, x.part[2].extent, x.part[3].extent};
}

// The pixels that a window at (row, column) of the output sees.
struct Window {
  std::int64_t top, bottom, left, right;
};
Window window_at(const KernelCall& call, const Image& of, std::int64_t row, std::int64_t column) {
  const auto size = static_cast<std::int64_t>(call.what.constants.at(0));
  const auto stride = static_cast<std::int64_t>(call.what.constants.at(1));
  const std::int64_t top = row * stride - (size - 1) / 2, left = column * stride - (size - 1) / 2;
  return {std::max<std::int64_t>(top, 0), std::min(top + size, of.height), std::max<std::int64_t>(left, 0),
          std::min(left + size, of.width)};
}

template <class Real>
void maximum_of(const Image& of, const Window& window, const Real* x, Real* y, std::int64_t* indices) {
  std::fill_n(y, of.channels, -std::numeric_limits<Real>::infinity());
  for (std::int64_t row = window.top; row < window.bottom; ++row)
    for (std::int64_t column = window.left; column < window.right; ++column) {
      const std::int64_t pixel = row * of.width + column;
      for (std::int64_t c = 0; c < of.channels; ++c) {
        const Real value = x[pixel * of.channels + c];
        if (!(value > y[c])) continue;  // the first of equal ones
        y[c] = value;
        indices[c] = pixel;
      }
    }
}

template <class Real>
void max_pool(const KernelCall& call) {
  const Image in = image_of(call.inputs[0]), out = image_of(call.outputs[0]);
  auto* indices = static_cast<std::int64_t*>(call.outputs[1].data);
  Real* y = reals<Real>(call.outputs[0]);
  for (std::int64_t b = 0; b < in.batch; ++b)
    for (std::int64_t row = 0; row < out.height; ++row)
      for (std::int64_t column = 0; column < out.width; ++column) {
        const Real* x = reals<Real>(call.inputs[0]) + b * in.pixels() * in.channels;
        maximum_of(in, window_at(call, in, row, column), x, y, indices);
        y += out.channels;
        indices += out.channels;
      }
}

template <class Real>
void max_pool_backward(const KernelCall& call) {
  const Image in = image_of(call.outputs[0]), out = image_of(call.inputs[0]);
  const auto* indices = static_cast<const std::int64_t*>(call.inputs[1].data);
  const Real* gradient = reals<Real>(call.inputs[0]);
  Real* dx = reals<Real>(call.outputs[0]);
  std::fill_n(dx, elements(call.outputs[0].part), Real{0});
  for (std::int64_t b = 0; b < out.batch; ++b, dx += in.pixels() * in.channels)
    for (std::int64_t pixel = 0; pixel < out.pixels(); ++pixel)
      for (std::int64_t c = 0; c < out.channels; ++c) dx[*indices++ * in.channels + c] += *gradient++;
}

template <class Real>
void average_pool(const KernelCall& call) {
  const Image in = image_of(call.inputs[0]);
  const Real* x = reals<Real>(call.inputs[0]);
  Real* y = reals<Real>(call.outputs[0]);
  for (std::int64_t b = 0; b < in.batch; ++b, y += in.channels) {
    std::fill_n(y, in.channels, Real{0});
    for (std::int64_t pixel = 0; pixel < in.pixels(); ++pixel, x += in.channels)
      for (std::int64_t c = 0; c < in.channels; ++c) y[c] += x[c];
    for (std::int64_t c = 0; c < in.channels; ++c) y[c] /= static_cast<Real>(in.pixels());
  }
}

template <class Real>
void average_pool_backward(const KernelCall& call) {
  const Image in = image_of(call.outputs[0]);
  const Real* gradient = reals<Real>(call.inputs[0]);
  Real* dx = reals<Real>(call.outputs[0]);
  for (std::int64_t b = 0; b < in.batch; ++b, gradient += in.channels)
    for (std::int64_t pixel = 0; pixel < in.pixels(); ++pixel)
      for (std::int64_t c = 0; c < in.channels; ++c) *dx++ = gradient[c] / static_cast<Real>(in.pixels());
}

}  // namespace

template <class Real>
void run_pool(const KernelCall& call) {
  call.what.function == Function::max_pool ? max_pool<Real>(call) : average_pool<Real>(call);
}

template <class Real>
void run_pool_backward(const KernelCall& call) {
  call.what.function == Function::max_pool ? max_pool_backward<Real>(call)
                                           : average_pool_backward<Real>(call);
}

template void run_pool<float>(const KernelCall&);
template void run_pool<double>(const KernelCall&);
template void run_pool_backward<float>(const KernelCall&);
template void run_pool_backward<double>(const KernelCall&);

}  // namespace simrun::cpu
