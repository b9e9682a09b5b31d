#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "backend/tensor_part.h"
#include "models/philox.h"
#include "schedules/plan.h"

namespace simrun {

class ByteReader;
class ByteWriter;

// Values of the unsharded model's parameters (or of their gradients), put together from what ranks hold.
class ParameterValues {
 public:
  struct Tensor {
    std::string name;                   // "layer 3 qkv_weight"
    std::vector<std::int64_t> extents;  // without padding
    std::vector<double> values;         // none until a rank has told some
    std::vector<bool> known;
  };

  ParameterValues() = default;
  explicit ParameterValues(const Plan& plan);

  // Elements [first, first + values.size()) of a rank's part of a parameter, in storage order; padding is
  // passed over. An element that another rank has told before must agree: see replica_difference().
  void record(const Buffer& view, const TensorPart& part, std::int64_t first,
              const std::vector<double>& values);

  // To another process, which adds what it has not (backend/observation_bytes.cpp).
  void write(ByteWriter& writer) const;
  void merge(ByteReader& reader);

  // By ModelParameter::id, which follows the forward pass.
  const std::map<Index, Tensor>& tensors() const { return tensors_; }
  // The largest difference between what two ranks said of one element, by the tensor's largest value.
  double replica_difference() const { return replica_difference_; }

 private:
  std::map<Index, Tensor> tensors_;
  double replica_difference_ = 0;
};

// Place of an element of a rank's part in the whole tensor without padding, row-major; -1: it is padding.
// `extents`: of the whole without padding.
std::int64_t whole_index(const TensorPart& part, const std::vector<std::int64_t>& extents,
                         std::int64_t local_index);

// The whole extents of a buffer's dimensions without padding, as far as the model has them.
std::vector<std::int64_t> whole_extents(const Plan& plan, const Buffer& buffer, const TensorPart& part);

// Values of a parameter before the first step, by whole_index(): names with `norm` and `weight` are 1 +
// noise, all else is noise, normal with deviation 0.02 (GPT-2's). Biases too: a bias added twice must be
// seen.
class InitialValues {
 public:
  InitialValues(const ModelParameter& parameter, std::uint64_t seed);
  double operator()(std::int64_t whole_index) const;

 private:
  RandomStream stream_;
  double mean_ = 0;
};

// How far two sets of values are apart, tensor by tensor: ||a - b|| / max(||b||, 1e-3 rms sqrt(n)), with the
// root mean square over all elements of b, so that a gradient that is truly zero does not decide. Tensors
// meet by name, their elements in storage order.
struct ValueDifference {
  double error = 0;          // of the worst tensor
  std::string worst;         // its name; empty: all equal
  std::string first;         // the first in backward order beyond the tolerance
  std::int64_t missing = 0;  // elements that one of them lacks
};
ValueDifference compare(const ParameterValues& values, const ParameterValues& reference, double tolerance);

}  // namespace simrun
