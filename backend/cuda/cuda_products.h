#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>

#include "backend/cuda/kernel_launch.h"

namespace simrun::cuda {

// Matrix products by cublasLt, on one stream. Float is computed as float (no TF32, no bf16 pieces), bf16
// added up in float. The algorithm of a shape is chosen once and kept: the same bits in every step.
template <class Math>
class CublasProducts {
 public:
  // Throws std::runtime_error with the library's words, as all here does.
  explicit CublasProducts(cudaStream_t stream);
  ~CublasProducts();
  CublasProducts(const CublasProducts&) = delete;
  CublasProducts& operator=(const CublasProducts&) = delete;

  void run(const Product& product);

 private:
  // All that an algorithm is chosen by.
  using Key = std::array<std::int64_t, 18>;
  struct Prepared;
  static Key key_of(const Product& product);
  const Prepared& prepared(const Product& product);

  const cudaStream_t stream_;
  cublasLtHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
  std::map<Key, std::unique_ptr<Prepared>> known_;
};

}  // namespace simrun::cuda
