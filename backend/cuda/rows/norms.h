#pragma once

#include <cmath>

#include "backend/cuda/rows/lanes.h"

// Layer norm and RMS norm, and RMS norm of the queries and keys in packed q, k, v (NORM, NORM_BACKWARD).
namespace simrun::cuda {

// Which weight a row has: all rows the first, or, of packed q, k, v rows by heads, queries the first, the key
// the second, the value none (-1).
struct NormRows {
  std::int64_t n = 0;    // elements of a row
  std::int64_t qkv = 0;  // 0: not of heads
  bool centred = false;  // layer norm
  int statistics = 1;    // numbers kept of a row: (mean, r) or r
  SIMRUN_HD int weight_of(std::int64_t row) const {
    if (qkv == 0) return 0;
    const std::int64_t place = row % qkv;
    return place < qkv - 2 ? 0 : place == qkv - 2 ? 1 : -1;
  }
};

template <class Math>
struct NormRow {
  std::int64_t count, scratch;
  NormRows rows;
  Reals<Math> x, weight, bias, y, kept;
  Math epsilon;

  template <class Lane>
  SIMRUN_HD void operator()(std::int64_t row, Lane& lane) const {
    const std::int64_t n = rows.n, begin = row * n;
    const int which = rows.weight_of(row);
    if (which < 0) {
      for (std::int64_t i = lane.index(); i < n; i += lane.count()) y.set(begin + i, x[begin + i]);
      if (lane.index() == 0) kept.set(row * rows.statistics, 1);
      return;
    }
    Math mean = 0, squares = 0;
    if (rows.centred) {
      for (std::int64_t i = lane.index(); i < n; i += lane.count()) mean += x[begin + i];
      mean = lane.sum(mean) / static_cast<Math>(n);
    }
    for (std::int64_t i = lane.index(); i < n; i += lane.count())
      squares += (x[begin + i] - mean) * (x[begin + i] - mean);
    const Math r = 1 / std::sqrt(lane.sum(squares) / static_cast<Math>(n) + epsilon);
    for (std::int64_t i = lane.index(); i < n; i += lane.count())
      y.set(begin + i, (x[begin + i] - mean) * r * weight[which * n + i] + (bias ? bias[i] : 0));
    if (lane.index() != 0) return;
    if (rows.centred) kept.set(2 * row, mean);
    kept.set(row * rows.statistics + (rows.centred ? 1 : 0), r);
  }
};

// Of x, with xhat = (x - mean) r and g = dy weight: r (g - [mean of g] - xhat mean(g xhat)).
template <class Math>
struct NormBackwardRow {
  std::int64_t count, scratch;
  NormRows rows;
  Reals<Math> dy, x, weight, kept, dx;

  template <class Lane>
  SIMRUN_HD void operator()(std::int64_t row, Lane& lane) const {
    const std::int64_t n = rows.n, begin = row * n;
    const int which = rows.weight_of(row);
    if (which < 0) {
      for (std::int64_t i = lane.index(); i < n; i += lane.count()) dx.set(begin + i, dy[begin + i]);
      return;
    }
    const Math mean = rows.centred ? kept[2 * row] : 0,
               r = kept[row * rows.statistics + (rows.centred ? 1 : 0)];
    Math sum = 0, product = 0;
    for (std::int64_t i = lane.index(); i < n; i += lane.count()) {
      const Math g = dy[begin + i] * weight[which * n + i];
      sum += g;
      product += g * (x[begin + i] - mean) * r;
    }
    const Math shift = rows.centred ? lane.sum(sum) / static_cast<Math>(n) : 0;
    const Math turn = lane.sum(product) / static_cast<Math>(n);
    for (std::int64_t i = lane.index(); i < n; i += lane.count())
      dx.set(begin + i,
             r * (dy[begin + i] * weight[which * n + i] - shift - (x[begin + i] - mean) * r * turn));
  }
};

// Gradients of weight and bias over rows [chunk, chunk + rows_per_chunk), one element a column of one weight:
// parts [chunk][weights or bias][n]. Neighbours read neighbours; ColumnSumElement adds the chunks up.
template <class Math>
struct NormWeightElement {
  std::int64_t count;
  NormRows rows;
  std::int64_t row_count, chunk;  // rows of a chunk
  int weights;                    // of `parts` per chunk, those of weights; then one of the bias
  bool has_bias;
  Reals<Math> dy, x, kept;
  Math* parts;

  SIMRUN_HD void operator()(std::int64_t at) const {
    const std::int64_t n = rows.n, planes = weights + (has_bias ? 1 : 0);
    const std::int64_t column = at % n, plane = at / n % planes, begin = at / n / planes * chunk;
    const std::int64_t end = begin + chunk < row_count ? begin + chunk : row_count;
    Math sum = 0;
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t i = row * n + column;
      if (plane == weights) {
        sum += dy[i];
      } else if (rows.weight_of(row) == plane) {
        const Math mean = rows.centred ? kept[2 * row] : 0;
        sum += dy[i] * (x[i] - mean) * kept[row * rows.statistics + (rows.centred ? 1 : 0)];
      }
    }
    parts[at] = sum;
  }
};

}  // namespace simrun::cuda
