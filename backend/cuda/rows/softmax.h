#pragma once

#include "backend/cuda/rows/attention.h"

// The steps between the matrix products of a fast attention: a row is one query's scores, which a product
// made (float; without scale, cap and mask), kept for a run of query heads only.
namespace simrun::cuda {

// Rows are [kv head of the run][position], all of one place in their groups: a run of queries whose heads are
// `group` apart. `first`: AttentionShape's number of the first.
SIMRUN_HD inline std::int64_t query_of_run(const AttentionShape& shape, std::int64_t first,
                                           std::int64_t row) {
  return first + row / shape.sequence * shape.group * shape.sequence + row % shape.sequence;
}

template <class Math>
struct SoftmaxRow {
  std::int64_t count, scratch, first;
  AttentionShape shape;
  const Math* products;  // [row][sequence]
  Reals<Math> weights;   // what multiplies the values: probabilities behind dropout
  Reals<Math> log_sums;  // of all queries, or none

  template <class Lane>
  SIMRUN_HD void operator()(std::int64_t row, Lane& lane) const {
    const AttentionShape::Query q = shape.query(query_of_run(shape, first, row));
    const std::int64_t n = shape.sequence, begin = row * n;
    const std::int64_t first_key = shape.first_key(q.position), end = shape.end_key(q.position);
    Math most = -std::numeric_limits<Math>::infinity(), sum = 0;
    for (std::int64_t j = first_key + lane.index(); j < end; j += lane.count()) {
      const Math s = Score<Math>(shape, products[begin + j]).value;
      most = most < s ? s : most;
    }
    most = lane.maximum(most);
    for (std::int64_t j = first_key + lane.index(); j < end; j += lane.count())
      sum += std::exp(Score<Math>(shape, products[begin + j]).value - most);
    sum = lane.sum(sum);
    for (std::int64_t j = lane.index(); j < n; j += lane.count()) {
      const bool sees = j >= first_key && j < end;
      const Math p = sees ? std::exp(Score<Math>(shape, products[begin + j]).value - most) / sum : 0;
      weights.set(begin + j, sees ? p * static_cast<Math>(shape.kept(q, j)) : 0);
    }
    if (log_sums && lane.index() == 0) log_sums.set(query_of_run(shape, first, row), most + std::log(sum));
  }
};

// From scores and dO V^T: the weights again, and scale x dS.
template <class Math>
struct SoftmaxBackwardRow {
  std::int64_t count, scratch, first;
  AttentionShape shape;
  const Math *products, *backs;  // [row][sequence]
  Reals<Math> weights, slopes;

  template <class Lane>
  SIMRUN_HD void operator()(std::int64_t row, Lane& lane) const {
    const AttentionShape::Query q = shape.query(query_of_run(shape, first, row));
    const std::int64_t n = shape.sequence, begin = row * n;
    const std::int64_t first_key = shape.first_key(q.position), end = shape.end_key(q.position);
    Math most = -std::numeric_limits<Math>::infinity(), sum = 0, delta = 0;
    for (std::int64_t j = first_key + lane.index(); j < end; j += lane.count()) {
      const Math s = Score<Math>(shape, products[begin + j]).value;
      most = most < s ? s : most;
    }
    most = lane.maximum(most);
    for (std::int64_t j = first_key + lane.index(); j < end; j += lane.count()) {
      const Math p = std::exp(Score<Math>(shape, products[begin + j]).value - most);
      sum += p;
      delta += p * static_cast<Math>(shape.kept(q, j)) * backs[begin + j];
    }
    sum = lane.sum(sum);
    delta = lane.sum(delta) / sum;
    for (std::int64_t j = lane.index(); j < n; j += lane.count()) {
      Math weight = 0, slope = 0;
      if (j >= first_key && j < end) {
        const Score<Math> score(shape, products[begin + j]);
        const Math p = std::exp(score.value - most) / sum, kept = static_cast<Math>(shape.kept(q, j));
        weight = p * kept;
        slope = static_cast<Math>(shape.scale) * p * (kept * backs[begin + j] - delta) * score.slope;
      }
      weights.set(begin + j, weight);
      slopes.set(begin + j, slope);
    }
  }
};

}  // namespace simrun::cuda
