#pragma once

#include <cmath>
#include <limits>

#include "backend/cuda/rows/lanes.h"

// Sums and maxima (REDUCE) and the sum of squares that clips gradients.
namespace simrun::cuda {

// out (+)= sum over chunks of parts[chunk x stride + i], in order.
template <class Math>
struct ColumnSumElement {
  std::int64_t count;
  const Math* parts;
  std::int64_t chunks, stride;
  Reals<Math> to;
  bool adds;
  SIMRUN_HD void operator()(std::int64_t i) const {
    Math sum = adds ? to[i] : 0;
    for (std::int64_t k = 0; k < chunks; ++k) sum += parts[k * stride + i];
    to.set(i, sum);
  }
};

// Sums of a chunk of what is added up for each element of the output: parts [chunk][kept].
template <class Math>
struct PartSumElement {
  std::int64_t count;
  Reals<Math> from;
  Places kept, summed;  // places in `from`, by number of the output's element and of the summed one
  std::int64_t kept_count, summed_count, chunk;
  Math* parts;
  SIMRUN_HD void operator()(std::int64_t at) const {
    const std::int64_t base = kept(at % kept_count), begin = at / kept_count * chunk;
    const std::int64_t end = begin + chunk < summed_count ? begin + chunk : summed_count;
    Math sum = 0;
    for (std::int64_t k = begin; k < end; ++k) sum += from[base + summed(k)];
    parts[at] = sum;
  }
};

// A row is one element of the output: sum or maximum over the others. Only the first `columns` of the last
// dimension, `n` long, take part.
template <class Math>
struct ReduceRow {
  std::int64_t count, scratch;
  Reals<Math> from, to;
  Places kept, summed;
  std::int64_t summed_count, n, columns;
  bool takes_maximum, adds;

  template <class Lane>
  SIMRUN_HD void operator()(std::int64_t row, Lane& lane) const {
    const std::int64_t base = kept(row);
    Math result = takes_maximum ? -std::numeric_limits<Math>::infinity() : 0;
    for (std::int64_t k = lane.index(); k < summed_count; k += lane.count()) {
      if (k % n >= columns) continue;
      const Math x = from[base + summed(k)];
      result = takes_maximum ? (result < x ? x : result) : result + x;
    }
    result = takes_maximum ? lane.maximum(result) : lane.sum(result);
    if (lane.index() != 0) return;
    if (adds && takes_maximum) result = to[row] < result ? result : to[row];
    to.set(row, adds && !takes_maximum ? to[row] + result : result);
  }
};

// share x sum of squares of [begin + row x chunk, ...), in double.
template <class Math>
struct SquaresRow {
  std::int64_t count, scratch;
  Reals<Math> from;
  std::int64_t begin, length, chunk;
  double share;
  double* parts;

  template <class Lane>
  SIMRUN_HD void operator()(std::int64_t row, Lane& lane) const {
    const std::int64_t end = (row + 1) * chunk < length ? (row + 1) * chunk : length;
    double sum = 0;
    for (std::int64_t i = row * chunk + lane.index(); i < end; i += lane.count()) {
      const double x = static_cast<double>(from[begin + i]);
      sum += x * x;
    }
    sum = lane.sum(sum);
    if (lane.index() == 0) parts[row] = sum * share;
  }
};

// The sum of SquaresRow's parts; one row.
template <class Math>
struct TotalRow {
  std::int64_t count, scratch;
  const double* parts;
  std::int64_t length;
  Reals<Math> to;

  template <class Lane>
  SIMRUN_HD void operator()(std::int64_t, Lane& lane) const {
    double sum = 0;
    for (std::int64_t i = lane.index(); i < length; i += lane.count()) sum += parts[i];
    sum = lane.sum(sum);
    if (lane.index() == 0) to.set(0, static_cast<Math>(sum));
  }
};

}  // namespace simrun::cuda
