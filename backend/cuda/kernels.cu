#include <algorithm>

#include "backend/cuda/kernels.h"

// The functors of rows/*.h as grids. The whole of the device's own code that only a GPU can run: how lanes
// meet and add up, and how many of them there are.
namespace simrun::cuda {
namespace {

constexpr int warp = 32;
constexpr int lanes_of_row = 128;
constexpr int threads_of_block = 256;
constexpr std::int64_t most_blocks = 1 << 20;  // the rest by strides

// One thread of a block that shares a row.
template <class Math>
class BlockLane {
 public:
  __device__ explicit BlockLane(Math* scratch) : scratch_(scratch) {}
  __device__ std::int64_t index() const { return threadIdx.x; }
  __device__ std::int64_t count() const { return blockDim.x; }
  __device__ void meet() const { __syncthreads(); }
  // Butterflies within warps, then over warps in order: the same bits in every lane and every run.
  template <class Number>
  __device__ Number sum(Number x) const {
    for (int distance = warp / 2; distance > 0; distance /= 2) x += __shfl_xor_sync(0xffffffffu, x, distance);
    return over_warps(x, [](Number a, Number b) { return a + b; });
  }
  template <class Number>
  __device__ Number maximum(Number x) const {
    for (int distance = warp / 2; distance > 0; distance /= 2) {
      const Number other = __shfl_xor_sync(0xffffffffu, x, distance);
      x = x < other ? other : x;
    }
    return over_warps(x, [](Number a, Number b) { return a < b ? b : a; });
  }
  __device__ Math* scratch() const { return scratch_; }

 private:
  template <class Number, class Join>
  __device__ Number over_warps(Number x, Join join) const {
    __shared__ Number of_warp[lanes_of_row / warp];
    if (threadIdx.x % warp == 0) of_warp[threadIdx.x / warp] = x;
    __syncthreads();
    Number result = of_warp[0];
    for (int w = 1; w < lanes_of_row / warp; ++w) result = join(result, of_warp[w]);
    __syncthreads();  // the next sum writes there again
    return result;
  }
  Math* scratch_;
};

template <class Kernel>
__global__ void run_elements(Kernel kernel) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < kernel.count;
       i += stride)
    kernel(i);
}

template <class Kernel, class Math>
__global__ void __launch_bounds__(lanes_of_row) run_rows(Kernel kernel) {
  extern __shared__ double scratch[];  // aligned for any Math
  BlockLane<Math> lane(reinterpret_cast<Math*>(scratch));
  for (std::int64_t row = blockIdx.x; row < kernel.count; row += gridDim.x) {
    kernel(row, lane);
    lane.meet();  // the next row has the same scratch
  }
}

template <class Math>
struct Launcher {
  cudaStream_t stream;

  template <class Kernel>
  cudaError_t operator()(const Kernel& kernel) const {
    if (kernel.count == 0) return cudaSuccess;
    if constexpr (IsOverRows<Kernel>::value) {
      const auto blocks = static_cast<unsigned>(std::min(kernel.count, most_blocks));
      const auto bytes = static_cast<std::size_t>(kernel.scratch) * sizeof(Math);
      run_rows<Kernel, Math><<<blocks, lanes_of_row, bytes, stream>>>(kernel);
    } else {
      const std::int64_t blocks = (kernel.count + threads_of_block - 1) / threads_of_block;
      run_elements<<<static_cast<unsigned>(std::min(blocks, most_blocks)), threads_of_block, 0, stream>>>(
          kernel);
    }
    return cudaGetLastError();
  }
  cudaError_t operator()(const Product&) const { return cudaErrorInvalidValue; }
};

}  // namespace

template <class Math>
cudaError_t launch_kernel(const KernelLaunch<Math>& launch, cudaStream_t stream) {
  return std::visit(Launcher<Math>{stream}, launch);
}

template cudaError_t launch_kernel(const KernelLaunch<float>&, cudaStream_t);
template cudaError_t launch_kernel(const KernelLaunch<double>&, cudaStream_t);

}  // namespace simrun::cuda
