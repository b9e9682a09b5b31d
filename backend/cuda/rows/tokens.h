#pragma once

#include <cmath>
#include <limits>

#include "backend/cuda/rows/maps.h"

// Kernels over rows of tokens: data, table look-ups and their gradients, losses.
namespace simrun::cuda {

// Tokens or labels [batch, sequence] of a rank: x(sample, p + ahead).
struct InputElement {
  std::int64_t count;
  std::int64_t* to;
  std::int64_t first_sample, first_position, sequence, whole_sequence, ahead;
  std::uint32_t vocabulary;
  RandomKey random;
  SIMRUN_HD void operator()(std::int64_t i) const {
    const std::int64_t sample = first_sample + i / sequence;
    to[i] = random.word(sample * (whole_sequence + 1) + first_position + i % sequence + ahead) % vocabulary;
  }
};

// Row of a rank's part of a table that a row of an activation looks up, by index or by place in the sequence;
// -1: another rank has it.
struct TableRows {
  const std::int64_t* indices;  // nullptr: by place
  std::int64_t first_position, sequence;
  std::int64_t first, extent;  // the rank's rows of the table
  SIMRUN_HD std::int64_t operator()(std::int64_t row) const {
    const std::int64_t at = (indices != nullptr ? indices[row] : first_position + row % sequence) - first;
    return at >= 0 && at < extent ? at : -1;
  }
};

template <class Math>
struct GatherElement {
  std::int64_t count;
  TableRows rows;
  std::int64_t n;
  Reals<Math> table, added, to;  // added: an activation, or none
  SIMRUN_HD void operator()(std::int64_t i) const {
    const std::int64_t from = rows(i / n);
    const Math x = from < 0 ? 0 : table[from * n + i % n];
    to.set(i, added ? x + added[i] : x);
  }
};

// Rows that look up the same row of a table, as a list in order: chain[2 row] is the row behind it (-1:
// none), chain[2 row + 1] whether it is the first of its list (rows that look up none are in no list).
struct ChainElement {
  std::int64_t count;
  TableRows rows;
  std::int64_t* chain;
  SIMRUN_HD void operator()(std::int64_t row) const {
    const std::int64_t at = rows(row);
    bool begins = at >= 0;
    for (std::int64_t earlier = 0; earlier < row && begins; ++earlier) begins = rows(earlier) != at;
    std::int64_t later = row + 1;
    while (at >= 0 && later < count && rows(later) != at) ++later;
    chain[2 * row] = at >= 0 && later < count ? later : -1;
    chain[2 * row + 1] = begins ? 1 : 0;
  }
};

// Table += rows; the first row of a list adds all of it, in order.
template <class Math>
struct ScatterElement {
  std::int64_t count;
  TableRows rows;
  const std::int64_t* chain;
  std::int64_t n;
  Reals<Math> from, table;
  SIMRUN_HD void operator()(std::int64_t i) const {
    const std::int64_t first = i / n, column = i % n;
    if (chain[2 * first + 1] == 0) return;
    const std::int64_t target = rows(first) * n + column;
    Math sum = table[target];
    for (std::int64_t row = first; row >= 0; row = chain[2 * row]) sum += from[row * n + column];
    table.set(target, sum);
  }
};

// (sum over the rank's columns of exp(logit - maximum), target's logit - maximum or 0).
template <class Math>
struct CrossEntropyRow {
  std::int64_t count, scratch;
  Reals<Math> logits, maximum, to;
  const std::int64_t* labels;
  std::int64_t n, columns, first_column;

  template <class Lane>
  SIMRUN_HD void operator()(std::int64_t row, Lane& lane) const {
    const Math most = maximum[row];
    double sum = 0;
    for (std::int64_t i = lane.index(); i < columns; i += lane.count())
      sum += static_cast<double>(std::exp(logits[row * n + i] - most));
    sum = lane.sum(sum);
    if (lane.index() != 0) return;
    const std::int64_t label = labels[row] - first_column;
    to.set(2 * row, static_cast<Math>(sum));
    to.set(2 * row + 1, label >= 0 && label < n ? logits[row * n + label] - most : 0);
  }
};

template <class Math>
struct CrossEntropyBackwardElement {
  std::int64_t count;
  Reals<Math> sums, maximum, logits, to;
  const std::int64_t* labels;
  std::int64_t n, columns, first_column;
  Math scale;  // weight of the loss / rows of the step
  SIMRUN_HD void operator()(std::int64_t at) const {
    const std::int64_t row = at / n, i = at % n;
    const Math one = i == labels[row] - first_column ? 1 : 0;
    to.set(at, i < columns ? (std::exp(logits[at] - maximum[row]) / sums[2 * row] - one) * scale : 0);
  }
};

}  // namespace simrun::cuda
