#include "backend/cuda/cuda_products.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <type_traits>

#include "backend/cuda/cuda_check.h"

namespace simrun::cuda {
namespace {

// What cuBLAS asks for on Hopper (documentation of cublasSetWorkspace).
constexpr std::size_t workspace_bytes = std::size_t{32} << 20;

void check_blas(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw std::runtime_error(fmt::format("{}: {} ({}): {}", what, cublasLtGetStatusName(status),
                                         static_cast<int>(status), cublasLtGetStatusString(status)));
}

template <class Math>
cudaDataType type_of(bool is_bf16) {
  if (is_bf16) return CUDA_R_16BF;
  return std::is_same_v<Math, double> ? CUDA_R_64F : CUDA_R_32F;
}

// The largest power of two up to 256 that divides an address.
std::uint32_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  std::uint32_t alignment = 256;
  while (address % alignment != 0) alignment /= 2;
  return alignment;
}

}  // namespace

// cublasLt is column-major, where a row-major matrix is its transpose: D^T = B^T A^T, so B comes first.
template <class Math>
struct CublasProducts<Math>::Prepared {
  cublasLtMatmulDesc_t what = nullptr;
  cublasLtMatrixLayout_t first = nullptr, second = nullptr, to = nullptr;
  cublasLtMatmulAlgo_t algorithm{};

  Prepared() = default;
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;
  ~Prepared() {
    for (const cublasLtMatrixLayout_t layout : {first, second, to})
      if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
    if (what != nullptr) cublasLtMatmulDescDestroy(what);
  }

  void describe(const Product& p) {
    const bool is_double = std::is_same_v<Math, double>;
    check_blas(cublasLtMatmulDescCreate(&what, is_double ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                        is_double ? CUDA_R_64F : CUDA_R_32F),
               "cublasLtMatmulDescCreate");
    transpose(CUBLASLT_MATMUL_DESC_TRANSA, p.b.transposed);
    transpose(CUBLASLT_MATMUL_DESC_TRANSB, p.a.transposed);
    first = layout(p.b, p.k, p.n, p.batch);
    second = layout(p.a, p.m, p.k, p.batch);
    to = layout(p.d, p.m, p.n, p.batch);
  }

  // By cublasLt's own ranking: the first that it believes to be fastest.
  void choose(cublasLtHandle_t handle, const Product& p) {
    cublasLtMatmulPreference_t wishes = nullptr;
    check_blas(cublasLtMatmulPreferenceCreate(&wishes), "cublasLtMatmulPreferenceCreate");
    const auto wish = [&](cublasLtMatmulPreferenceAttributes_t which, const auto& value) {
      check_blas(cublasLtMatmulPreferenceSetAttribute(wishes, which, &value, sizeof value),
                 "cublasLtMatmulPreferenceSetAttribute");
    };
    wish(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
    wish(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(p.b.data));
    wish(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(p.a.data));
    wish(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(p.d.data));
    wish(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(p.d.data));
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle, what, first, second, to, to, wishes, 1, &found, &count);
    cublasLtMatmulPreferenceDestroy(wishes);
    check_blas(status == CUBLAS_STATUS_SUCCESS && count == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : status,
               "cublasLtMatmulAlgoGetHeuristic");
    algorithm = found.algo;
  }

 private:
  void transpose(cublasLtMatmulDescAttributes_t which, bool on) const {
    const cublasOperation_t operation = on ? CUBLAS_OP_T : CUBLAS_OP_N;
    check_blas(cublasLtMatmulDescSetAttribute(what, which, &operation, sizeof operation),
               "cublasLtMatmulDescSetAttribute");
  }
  // Of a factor of `rows` x `columns`, as stored: row-major, so its rows are cublasLt's columns.
  static cublasLtMatrixLayout_t layout(const Factor& factor, std::int64_t rows, std::int64_t columns,
                                       std::int64_t batch) {
    if (factor.transposed) std::swap(rows, columns);
    cublasLtMatrixLayout_t result = nullptr;
    check_blas(cublasLtMatrixLayoutCreate(&result, type_of<Math>(factor.is_bf16),
                                          static_cast<std::uint64_t>(columns),
                                          static_cast<std::uint64_t>(rows), factor.ld),
               "cublasLtMatrixLayoutCreate");
    const auto count = static_cast<std::int32_t>(batch);
    const auto set = [&](cublasLtMatrixLayoutAttribute_t which, const auto& value) {
      check_blas(cublasLtMatrixLayoutSetAttribute(result, which, &value, sizeof value),
                 "cublasLtMatrixLayoutSetAttribute");
    };
    set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, count);
    set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, factor.stride);
    return result;
  }
};

template <class Math>
CublasProducts<Math>::CublasProducts(cudaStream_t stream) : stream_(stream) {
  check_blas(cublasLtCreate(&handle_), "cublasLtCreate");
  check(cudaMalloc(&workspace_, workspace_bytes), "cudaMalloc of cublasLt's workspace");
}

template <class Math>
CublasProducts<Math>::~CublasProducts() {
  known_.clear();
  cudaFree(workspace_);
  cublasLtDestroy(handle_);
}

template <class Math>
typename CublasProducts<Math>::Key CublasProducts<Math>::key_of(const Product& p) {
  Key key{p.batch, p.m, p.n, p.k, p.beta == 0 ? 0 : 1, p.d.is_bf16 ? 1 : 0, p.d.ld, p.d.stride};
  std::size_t at = 8;
  for (const Factor* factor : {&p.a, &p.b}) {
    key[at++] = (factor->is_bf16 ? 2 : 0) + (factor->transposed ? 1 : 0);
    key[at++] = factor->ld;
    key[at++] = factor->stride;
    key[at++] = alignment_of(factor->data);
  }
  key[at] = alignment_of(p.d.data);
  return key;
}

template <class Math>
const typename CublasProducts<Math>::Prepared& CublasProducts<Math>::prepared(const Product& product) {
  std::unique_ptr<Prepared>& known = known_[key_of(product)];
  if (!known) {
    auto made = std::make_unique<Prepared>();
    made->describe(product);
    made->choose(handle_, product);
    known = std::move(made);
  }
  return *known;
}

template <class Math>
void CublasProducts<Math>::run(const Product& p) {
  if (p.batch * p.m * p.n == 0) return;
  if (p.batch > std::numeric_limits<std::int32_t>::max())
    throw std::runtime_error("a batch of too many products");
  const Prepared& with = prepared(p);
  const Math one = 1, beta = static_cast<Math>(p.beta);
  check_blas(
      cublasLtMatmul(handle_, with.what, &one, p.b.data, with.first, p.a.data, with.second, &beta, p.d.data,
                     with.to, p.d.data, with.to, &with.algorithm, workspace_, workspace_bytes, stream_),
      "cublasLtMatmul");
}

template class CublasProducts<float>;
template class CublasProducts<double>;

}  // namespace simrun::cuda
