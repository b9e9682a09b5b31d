#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/cpu/kernels.h"
#include "schedules/adafactor_parameters.h"
#include "schedules/update_operands.h"

// Adafactor (Shazeer and Stern 2018, arXiv 1804.04235, algorithms 4 and 5) without a first moment, of what a
// rank has of a bucket: all of it, or the elements of a shard. Of a matrix that ranks divide, each puts its
// summands and its share of the decayed moments into the sums that are all-reduced, which then are the new
// moments; the last kernel keeps the rank's.
namespace simrun::cpu {
namespace {

constexpr double least_square = 1e-30;  // epsilon_1
constexpr double most_update = 1;       // d: of an update's root mean square

// Second moments of the rows, or of the columns, of one matrix, or of a vector's elements.
template <class Real>
struct Moments {
  Real* kept = nullptr;  // of [first, end), for the run
  std::int64_t first = 0, end = 0;
  Real* summed = nullptr;  // of all, within the step; nullptr: nothing is summed over ranks and all are kept
  std::int64_t copies = 1;

  double at(std::int64_t i) const { return static_cast<double>(summed != nullptr ? summed[i] : kept[i]); }
  void update(std::int64_t i, double decay, double mean) {
    double moment = (1 - decay) * mean;
    if (first <= i && i < end)
      moment += decay * static_cast<double>(kept[i - first]) / static_cast<double>(copies);
    (summed != nullptr ? summed[i] : kept[i]) = static_cast<Real>(moment);
  }
  void keep() const {
    if (summed != nullptr && first < end) std::copy(summed + first, summed + end, kept);
  }
};

// One matrix of the bucket, or one vector.
template <class Real>
struct Factored {
  FactoredParameter of;
  std::int64_t begin = 0;  // element of the bucket
  Moments<Real> by_row, by_column;
  Real* norm = nullptr;

  std::int64_t columns() const { return of.is_vector() ? 1 : of.columns; }
  double whole_elements() const { return static_cast<double>(of.whole_rows * of.whole_columns); }
};

// What a kernel reads and writes besides gradients and weights. A bucket of vectors has no means by column.
template <class Real>
struct Operands {
  std::vector<FactoredParameter> parameters;
  DimPart shard;  // elements of the bucket that the rank has
  Real *by_row = nullptr, *by_column = nullptr;
  std::vector<Real*> sums, norms;
};

// `more` buffers of `operands` from the one at `first` on.
template <class Real>
std::vector<Real*> buffers(const std::vector<Argument>& operands, std::size_t first, std::size_t more) {
  std::vector<Real*> result;
  for (std::size_t i = 0; i < more; ++i) result.push_back(reals<Real>(operands.at(first + i)));
  return result;
}

struct Counts {
  std::size_t sums = 0, norms = 0;  // buffers
};
Counts counts_of(const std::vector<FactoredParameter>& parameters) {
  Counts counts;
  for (const FactoredParameter& of : parameters) {
    counts.sums = std::max(counts.sums, static_cast<std::size_t>(std::max(of.row_sums, of.column_sums) + 1));
    counts.norms = std::max(counts.norms, static_cast<std::size_t>(of.norms + 1));
  }
  return counts;
}

// The norm of all gradients stands behind all other inputs.
std::size_t inputs_without_norm(const KernelCall& call) {
  return call.inputs.size() - (call.what.constants[0] > 0 ? 1 : 0);
}

template <class Real>
Operands<Real> operands_of(const KernelCall& call, const std::vector<Argument>& state, std::size_t first) {
  Operands<Real> operands;
  operands.parameters = factored_parameters(call.what);
  operands.shard = call.inputs[0].part[0];
  operands.by_row = reals<Real>(state.at(first));
  if (state.size() > first + 1 && state[first + 1].buffer->category == Category::optimizer)
    operands.by_column = reals<Real>(state[first + 1]);
  return operands;
}

// Rows of a parameter, or elements of all vectors, of which every shard keeps as many, the last perhaps
// fewer: [begin, end) of them lie at `at` in its state.
struct Kept {
  std::int64_t begin = 0, end = 0, at = 0;
};
std::int64_t each_keeps(std::int64_t rows, const DimPart& shard) {
  const std::int64_t shards = shard.whole / shard.extent;
  return (rows + shards - 1) / shards;
}
Kept kept_of(std::int64_t rows, const DimPart& shard, std::int64_t at) {
  const std::int64_t each = each_keeps(rows, shard), index = shard.first / shard.extent;
  return {std::min(index * each, rows), std::min((index + 1) * each, rows), at};
}

// All matrices and vectors of a bucket in the order of its elements.
template <class Real>
class Walk {
 public:
  explicit Walk(Operands<Real> operands) : with_(std::move(operands)) {
    std::int64_t at = 0, elements = 0;
    for (const FactoredParameter& of : with_.parameters)
      if (of.is_vector())
        elements += of.rows * of.columns;
      else
        at += each_keeps(of.matrices * of.rows, with_.shard);
    vectors_ = kept_of(elements, with_.shard, at);
  }

  template <class Visit>
  void for_each(Visit visit) {
    for (const FactoredParameter& of : with_.parameters) {
      const std::int64_t rows = of.count() * of.rows;
      const Kept kept = of.is_vector() ? vectors_ : kept_of(rows, with_.shard, rows_kept_);
      std::int64_t row = of.is_vector() ? elements_of_vectors_ : 0;
      for (std::int64_t m = 0; m < of.count(); ++m, row += of.rows) visit(next(of, kept, row));
      if (of.is_vector())
        elements_of_vectors_ = row;
      else
        rows_kept_ += each_keeps(rows, with_.shard);
    }
  }

 private:
  Factored<Real> next(const FactoredParameter& of, const Kept& kept, std::int64_t row) {
    Factored<Real> matrix{of, begin_, {}, {}, nullptr};
    begin_ += of.elements();
    matrix.by_row.first = std::clamp<std::int64_t>(kept.begin - row, 0, of.rows);
    matrix.by_row.end = std::clamp<std::int64_t>(kept.end - row, 0, of.rows);
    matrix.by_row.kept = with_.by_row + kept.at + std::max<std::int64_t>(row - kept.begin, 0);
    matrix.by_row.copies = of.row_copies;
    matrix.by_row.summed = taken(with_.sums, of.row_sums, of.rows);
    if (!of.is_vector()) {
      matrix.by_column = {with_.by_column + columns_, 0, of.columns, nullptr, of.column_copies};
      matrix.by_column.summed = taken(with_.sums, of.column_sums, of.columns);
      columns_ += of.columns;
    }
    matrix.norm = taken(with_.norms, of.norms, 1);
    return matrix;
  }

  // The next numbers of a buffer; nullptr where there is none.
  static Real* taken(std::vector<Real*>& buffers, std::int64_t number, std::int64_t count) {
    if (number < 0 || buffers.empty()) return nullptr;
    Real*& next = buffers.at(static_cast<std::size_t>(number));
    next += count;
    return next - count;
  }

  Operands<Real> with_;
  Kept vectors_;
  std::int64_t begin_ = 0, columns_ = 0, rows_kept_ = 0, elements_of_vectors_ = 0;
};

// Calls visit(element of the shard, row, column) for what the rank has of a matrix.
template <class Real, class Visit>
void for_each_element(const Factored<Real>& matrix, const DimPart& shard, Visit visit) {
  const std::int64_t end = std::min(matrix.begin + matrix.of.elements(), shard.first + shard.extent);
  const std::int64_t width = matrix.of.columns_first ? matrix.of.rows : matrix.columns();
  for (std::int64_t i = std::max(matrix.begin, shard.first); i < end; ++i) {
    const std::int64_t outer = (i - matrix.begin) / width, inner = (i - matrix.begin) % width;
    if (matrix.of.columns_first)
      visit(i - shard.first, inner, outer);
    else
      visit(i - shard.first, outer, inner);
  }
}

// Of all second moments of a matrix, from the dimension that ranks do not divide.
template <class Real>
double mean_moment(const Factored<Real>& matrix) {
  const bool of_columns = matrix.of.divides_rows;
  const Moments<Real>& moments = of_columns ? matrix.by_column : matrix.by_row;
  const std::int64_t count = of_columns ? matrix.of.columns : matrix.of.rows;
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += moments.at(i);
  return sum / static_cast<double>(of_columns ? matrix.of.whole_columns : matrix.of.whole_rows);
}

// Calls visit(element of the shard, update): the gradient by the root of its second moment.
template <class Real, class Visit>
void for_each_update(const Factored<Real>& matrix, const DimPart& shard, const Real* gradient, Visit visit) {
  const double mean = matrix.of.is_vector() ? 1 : mean_moment(matrix);
  for_each_element(matrix, shard, [&](std::int64_t i, std::int64_t row, std::int64_t column) {
    double second = matrix.by_row.at(row);
    if (!matrix.of.is_vector()) second *= matrix.by_column.at(column) / mean;
    visit(i, static_cast<double>(gradient[i]) / std::sqrt(second));
  });
}

}  // namespace

// in0 = gradients; out = means by row(, by column), then sums.
template <class Real>
void run_adafactor_factors(const KernelCall& call) {
  const Real* gradient = reals<Real>(call.inputs[0]);
  const double clip = clip_factor<Real>(call);
  const double decay = 1 - std::pow(static_cast<double>(call.step + 1), -0.8);
  Operands<Real> with = operands_of<Real>(call, call.outputs, 0);
  const std::size_t sums = counts_of(with.parameters).sums;
  with.sums = buffers<Real>(call.outputs, call.outputs.size() - sums, sums);
  const DimPart shard = with.shard;
  Walk<Real>(with).for_each([&](Factored<Real> matrix) {
    std::vector<double> rows(static_cast<std::size_t>(matrix.of.rows), 0.0);
    std::vector<double> columns(static_cast<std::size_t>(matrix.columns()), 0.0);
    for_each_element(matrix, shard, [&](std::int64_t i, std::int64_t row, std::int64_t column) {
      const double g = clip * static_cast<double>(gradient[i]);
      rows[static_cast<std::size_t>(row)] += g * g + least_square;
      columns[static_cast<std::size_t>(column)] += g * g + least_square;
    });
    const auto join = [&](Moments<Real>& moments, const std::vector<double>& squares, std::int64_t summands) {
      for (std::size_t i = 0; i < squares.size(); ++i)
        moments.update(static_cast<std::int64_t>(i), decay, squares[i] / static_cast<double>(summands));
    };
    join(matrix.by_row, rows, matrix.of.whole_columns);
    if (!matrix.of.is_vector()) join(matrix.by_column, columns, matrix.of.whole_rows);
  });
}

// in0 = gradients, then means and sums; out = sums of squared updates.
template <class Real>
void run_adafactor_norms(const KernelCall& call) {
  const double clip = clip_factor<Real>(call);
  Operands<Real> with = operands_of<Real>(call, call.inputs, 1);
  const Counts counts = counts_of(with.parameters);
  with.sums = buffers<Real>(call.inputs, inputs_without_norm(call) - counts.sums, counts.sums);
  with.norms = buffers<Real>(call.outputs, 0, counts.norms);
  const DimPart shard = with.shard;
  Walk<Real>(with).for_each([&](const Factored<Real>& matrix) {
    double sum = 0;
    for_each_update(matrix, shard, reals<Real>(call.inputs[0]),
                    [&](std::int64_t, double update) { sum += clip * update * clip * update; });
    *matrix.norm = static_cast<Real>(sum);
  });
}

// The last inputs are sums of squares and squared updates.
template <class Real>
void run_adafactor(const KernelCall& call) {
  const auto main = main_weights_of(call.plan, call.what);
  Operands<Real> with = operands_of<Real>(call, call.outputs, main ? *main + 1 : 1);
  const Counts counts = counts_of(with.parameters);
  const std::size_t norms = inputs_without_norm(call) - counts.norms;
  with.norms = buffers<Real>(call.inputs, norms, counts.norms);
  with.sums = buffers<Real>(call.inputs, norms - counts.sums, counts.sums);
  Real* weights = reals<Real>(call.outputs[main.value_or(0)]);
  const double clip = clip_factor<Real>(call);
  const DimPart shard = with.shard;
  Walk<Real>(with).for_each([&](const Factored<Real>& matrix) {
    const double mean_square = static_cast<double>(*matrix.norm) / matrix.whole_elements();
    const double share = clip / std::max(1.0, std::sqrt(mean_square) / most_update);
    for_each_update(matrix, shard, reals<Real>(call.inputs[0]), [&](std::int64_t i, double update) {
      const auto w = static_cast<double>(weights[i]);
      weights[i] = static_cast<Real>(w - call.training.learning_rate *
                                             (share * update + call.training.weight_decay * w));
    });
    matrix.by_row.keep();
    if (!matrix.of.is_vector()) matrix.by_column.keep();
  });
  if (main) std::copy_n(weights, elements(call.outputs[0].part), reals<Real>(call.outputs[0]));
}

template void run_adafactor_factors<float>(const KernelCall&);
template void run_adafactor_factors<double>(const KernelCall&);
template void run_adafactor_norms<float>(const KernelCall&);
template void run_adafactor_norms<double>(const KernelCall&);
template void run_adafactor<float>(const KernelCall&);
template void run_adafactor<double>(const KernelCall&);

}  // namespace simrun::cpu
