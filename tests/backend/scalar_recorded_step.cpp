#include "tests/backend/scalar_recorded_step.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "backend/parameter_values.h"

namespace simrun {

TapedModel::TapedModel(const Plan& plan, const Execution& run, std::uint64_t seed) {
  for (const ModelParameter& parameter : plan.parameters) {
    const InitialValues initial(parameter, seed);
    std::vector<Number>& numbers = parameters_[{parameter.layer, parameter.name}];
    for (std::size_t i = 0; i < run.gradients.tensors().at(parameter.id).values.size(); ++i)
      numbers.push_back(tape_.constant(initial(static_cast<std::int64_t>(i))));
  }
}

TapedModel::Number TapedModel::sum(const std::vector<Number>& numbers) {
  Number total = tape_.constant(0);
  for (const Number number : numbers) total = tape_.plus(total, number);
  return total;
}

TapedModel::Number TapedModel::dot(const std::vector<Number>& numbers, const std::vector<Number>& weights,
                                   std::size_t first, std::size_t stride) {
  Number total = tape_.constant(0);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    total = tape_.plus(total, tape_.times(numbers[i], weights.at(first + i * stride)));
  return total;
}

TapedModel::Number TapedModel::cross_entropy(const std::vector<Number>& scores, std::size_t label) {
  std::vector<Number> exponentials;
  exponentials.reserve(scores.size());
  for (const Number score : scores) exponentials.push_back(tape_.exp(score));
  return tape_.minus(tape_.log(sum(exponentials)), scores.at(label));
}

void TapedModel::check(const Plan& plan, const Execution& run, Number loss) {
  CHECK(run.loss[0] == Approx(tape_.value(loss)).epsilon(1e-12));
  const std::vector<double> gradients = tape_.gradients(loss);
  for (const ModelParameter& parameter : plan.parameters) {
    CAPTURE(parameter.layer, parameter.name);
    const std::vector<double>& ours = run.gradients.tensors().at(parameter.id).values;
    const std::vector<Number>& theirs = parameters_.at({parameter.layer, parameter.name});
    double apart = 0, size = 0;
    for (std::size_t i = 0; i < ours.size(); ++i) {
      const double wanted = gradients[theirs[i].node];
      apart += (ours[i] - wanted) * (ours[i] - wanted);
      size += wanted * wanted;
    }
    CHECK(size > 0);
    CHECK(std::sqrt(apart) <= 1e-10 * std::sqrt(size));
  }
}

}  // namespace simrun
