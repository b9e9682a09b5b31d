#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backend/execute.h"
#include "tests/backend/scalar_model.h"
#include "tests/backend/scalar_tape.h"

namespace simrun {

// The parameters of a model as numbers of a tape, and one step of it written down by somebody else.
class TapedModel {
 public:
  using Number = ScalarTape::Number;

  TapedModel(const Plan& plan, const Execution& run, std::uint64_t seed);

  ScalarTape& tape() { return tape_; }
  const std::vector<Number>& parameter(std::int32_t layer, const std::string& name) const {
    return parameters_.at({layer, name});
  }
  // log(sum of exponentials) - the label's score
  Number cross_entropy(const std::vector<Number>& scores, std::size_t label);
  Number sum(const std::vector<Number>& numbers);
  Number dot(const std::vector<Number>& numbers, const std::vector<Number>& weights, std::size_t first,
             std::size_t stride);

  // The run's loss, and every gradient, are those of this one to 1e-10.
  void check(const Plan& plan, const Execution& run, Number loss);

 private:
  ScalarTape tape_;
  std::map<ParameterKey, std::vector<Number>> parameters_;
};

}  // namespace simrun
