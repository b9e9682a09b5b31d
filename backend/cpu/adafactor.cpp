#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/cpu/kernels.h"
#include "schedules/update_operands.h"

// Adafactor (Shazeer and Stern 2018, arXiv 1804.04235, algorithms 4 and 5) without a first moment, of the
// parameters of one bucket that lies on one rank.
namespace simrun::cpu {
namespace {

constexpr double least_square = 1e-30;  // epsilon_1
constexpr double most_update = 1;       // d: of an update's root mean square

// One matrix of a bucket, or (no columns' means) a vector.
struct Factored {
  std::int64_t begin = 0;  // element of the bucket
  std::int64_t rows = 1, columns = 1;
  std::int64_t first_row = 0, first_column = 0;  // in the state
  bool is_vector = false, columns_first = false;

  std::int64_t at(std::int64_t row, std::int64_t column) const {
    return begin + (columns_first ? column * rows + row : row * columns + column);
  }
};

// Behind the seven numbers of the update come four of each parameter (schedules/adafactor_update.cpp).
std::vector<Factored> factored(const KernelCall& call) {
  std::vector<Factored> result;
  Factored next;
  for (std::size_t c = 7; c + 3 < call.what.constants.size(); c += 4) {
    const auto number = [&](std::size_t i) { return static_cast<std::int64_t>(call.what.constants[c + i]); };
    next.is_vector = number(0) == 0;
    next.rows = number(1);
    next.columns = next.is_vector ? 1 : number(2);
    next.columns_first = number(3) != 0;
    for (std::int64_t matrix = 0; matrix < (next.is_vector ? number(2) : number(0)); ++matrix) {
      result.push_back(next);
      next.begin += next.rows * next.columns;
      next.first_row += next.rows;
      if (!next.is_vector) next.first_column += next.columns;
    }
  }
  return result;
}

double step_decay(const KernelCall& call) { return 1 - std::pow(static_cast<double>(call.step + 1), -0.8); }

// State by row and by column; a bucket of vectors has none by column.
template <class Real>
struct SecondMoments {
  Real* by_row = nullptr;
  Real* by_column = nullptr;
};
template <class Real>
SecondMoments<Real> second_moments(const std::vector<Argument>& operands, std::size_t first) {
  const bool has_columns =
      operands.size() > first + 1 && operands[first + 1].buffer->category == Category::optimizer;
  return {reals<Real>(operands.at(first)), has_columns ? reals<Real>(operands[first + 1]) : nullptr};
}

template <class Real>
double mean_of_rows(const Factored& of, const SecondMoments<Real>& state) {
  double sum = 0;
  for (std::int64_t row = 0; row < of.rows; ++row)
    sum += static_cast<double>(state.by_row[of.first_row + row]);
  return sum / static_cast<double>(of.rows);
}

// Calls visit(element, update) for a matrix' elements: the gradient by the root of its second moment.
template <class Real, class Visit>
void for_each_update(const Factored& of, const SecondMoments<Real>& state, const Real* gradient,
                     Visit visit) {
  const double mean = of.is_vector ? 1 : mean_of_rows(of, state);
  for (std::int64_t row = 0; row < of.rows; ++row)
    for (std::int64_t column = 0; column < of.columns; ++column) {
      double second = static_cast<double>(state.by_row[of.first_row + row]);
      if (!of.is_vector && state.by_column != nullptr)
        second *= static_cast<double>(state.by_column[of.first_column + column]) / mean;
      const std::int64_t i = of.at(row, column);
      visit(i, static_cast<double>(gradient[i]) / std::sqrt(second));
    }
}

}  // namespace

template <class Real>
void run_adafactor_factors(const KernelCall& call) {
  const Real* gradient = reals<Real>(call.inputs[0]);
  const double clip = clip_factor<Real>(call), decay = step_decay(call);
  const SecondMoments<Real> state = second_moments<Real>(call.outputs, 0);
  for (const Factored& of : factored(call)) {
    std::vector<double> rows(static_cast<std::size_t>(of.rows), 0.0);
    std::vector<double> columns(static_cast<std::size_t>(of.columns), 0.0);
    for (std::int64_t row = 0; row < of.rows; ++row)
      for (std::int64_t column = 0; column < of.columns; ++column) {
        const double g = clip * static_cast<double>(gradient[of.at(row, column)]);
        rows[static_cast<std::size_t>(row)] += g * g + least_square;
        columns[static_cast<std::size_t>(column)] += g * g + least_square;
      }
    const auto join = [&](Real* to, const std::vector<double>& sums, std::int64_t summands) {
      if (to == nullptr) return;  // the rank has none of it
      for (std::size_t i = 0; i < sums.size(); ++i)
        to[i] = static_cast<Real>(decay * static_cast<double>(to[i]) +
                                  (1 - decay) * sums[i] / static_cast<double>(summands));
    };
    join(state.by_row + of.first_row, rows, of.columns);
    if (!of.is_vector) join(state.by_column + of.first_column, columns, of.rows);
  }
}

template <class Real>
void run_adafactor_norms(const KernelCall& call) {
  const double clip = clip_factor<Real>(call);
  const SecondMoments<Real> state = second_moments<Real>(call.inputs, 1);
  Real* norms = reals<Real>(call.outputs[0]);
  for (const Factored& of : factored(call)) {
    double sum = 0;
    for_each_update(of, state, reals<Real>(call.inputs[0]),
                    [&](std::int64_t, double update) { sum += clip * update * clip * update; });
    *norms++ = static_cast<Real>(sum);
  }
}

template <class Real>
void run_adafactor(const KernelCall& call) {
  const auto main = main_weights_of(call.plan, call.what);
  const SecondMoments<Real> state = second_moments<Real>(call.outputs, main ? *main + 1 : 1);
  Real* weights = reals<Real>(call.outputs[main.value_or(0)]);
  const double clip = clip_factor<Real>(call);
  const bool has_norm = !call.what.constants.empty() && call.what.constants[0] > 0;
  const Real* norms = reals<Real>(call.inputs.at(call.inputs.size() - (has_norm ? 2 : 1)));
  for (const Factored& of : factored(call)) {
    const double mean_square = static_cast<double>(*norms++) / static_cast<double>(of.rows * of.columns);
    const double share = clip / std::max(1.0, std::sqrt(mean_square) / most_update);
    for_each_update(of, state, reals<Real>(call.inputs[0]), [&](std::int64_t i, double update) {
      const auto w = static_cast<double>(weights[i]);
      weights[i] = static_cast<Real>(w - call.training.learning_rate *
                                             (share * update + call.training.weight_decay * w));
    });
  }
  if (main) std::copy_n(weights, elements(call.outputs[0].part), reals<Real>(call.outputs[0]));
}

template void run_adafactor_factors<float>(const KernelCall&);
template void run_adafactor_factors<double>(const KernelCall&);
template void run_adafactor_norms<float>(const KernelCall&);
template void run_adafactor_norms<double>(const KernelCall&);
template void run_adafactor<float>(const KernelCall&);
template void run_adafactor<double>(const KernelCall&);

}  // namespace simrun::cpu
