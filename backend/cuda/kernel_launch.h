#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>
#include <variant>

#include "backend/cuda/rows/activations.h"
#include "backend/cuda/rows/attention.h"
#include "backend/cuda/rows/maps.h"
#include "backend/cuda/rows/norms.h"
#include "backend/cuda/rows/softmax.h"
#include "backend/cuda/rows/sums.h"
#include "backend/cuda/rows/tokens.h"
#include "backend/cuda/rows/updates.h"

// All that the device is ever asked to do to numbers: one matrix product or one kernel. C++17, for nvcc.
namespace simrun::cuda {

// One factor of a product: `batch` row-major matrices, `stride` elements apart, rows `ld` apart. Transposed:
// the matrix is the transpose of what is stored.
struct Factor {
  void* data = nullptr;
  bool is_bf16 = false;
  bool transposed = false;
  std::int64_t ld = 0, stride = 0;
};

// D[i] = A[i] B[i] + beta D[i], A m x k, B k x n.
struct Product {
  std::int64_t batch = 1, m = 1, n = 1, k = 1;
  Factor a, b, d;
  double beta = 0;
};

template <class Math>
using KernelLaunch =
    std::variant<Product, FillElement<Math>, CopyElement<Math>, ScaleElement<Math>, RoundElement,
                 AddElement<Math>, AddBackwardElement<Math>, SumElement<Math>, LogLossElement<Math>,
                 RopeElement<Math>, ActivationElement<Math>, ActivationBackwardElement<Math>,
                 SoftCapElement<Math>, ReluBackwardElement<Math>, NormRow<Math>, NormBackwardRow<Math>,
                 NormWeightElement<Math>, ColumnSumElement<Math>, PartSumElement<Math>, ReduceRow<Math>,
                 SquaresRow<Math>, TotalRow<Math>, InputElement, GatherElement<Math>, ChainElement,
                 ScatterElement<Math>, CrossEntropyRow<Math>, CrossEntropyBackwardElement<Math>,
                 UpdateElement<Math>, AttentionRow<Math>, ProbabilitiesRow<Math>, AttentionDeltaRow<Math>,
                 QueryGradientRow<Math>, KeyGradientRow<Math>, SoftmaxRow<Math>, SoftmaxBackwardRow<Math>>;

// Whether a kernel is over rows, which lanes share, or over elements.
template <class Kernel, class = void>
struct IsOverRows : std::false_type {};
template <class Kernel>
struct IsOverRows<Kernel, std::void_t<decltype(std::declval<Kernel>().scratch)>> : std::true_type {};

}  // namespace simrun::cuda
