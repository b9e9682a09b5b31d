#pragma once

#include <cmath>
#include <limits>

#include "backend/cuda/rows/maps.h"

// Attention in the arithmetic of Math: a row is one query (or one key, for the gradients of keys and values),
// its lanes share a tile of scores. Forward by online softmax (Milakov and Gimelshein 2018, arXiv
// 1805.02867), backward by recomputing the scores (Dao et al. 2022, arXiv 2205.14135, appendix B.2). This is
// the measure of what is right on the GPU, not of what is fast.
namespace simrun::cuda {

constexpr std::int64_t score_tile = 64;

// Packed q, k, v [batch, sequence, kv_heads, group + 2, head_dim]; context [.., group, head_dim].
struct AttentionShape {
  std::int64_t batch, sequence, kv_heads, group, head_dim;
  double scale, cap;  // cap 0: none
  bool causal;
  std::int64_t window;  // 0: none
  double dropout;
  RandomKey random;
  std::int64_t first_sample, first_kv, whole_kv;  // of the rank's part, for dropout

  // A query of a head: number = ((batch x kv_heads + kv) x group + query head) x sequence + position.
  struct Query {
    std::int64_t batch, kv, head, position;
  };
  SIMRUN_HD Query query(std::int64_t row) const {
    return {row / sequence / group / kv_heads, row / sequence / group % kv_heads, row / sequence % group,
            row % sequence};
  }
  SIMRUN_HD std::int64_t number(const Query& q) const {
    return ((q.batch * kv_heads + q.kv) * group + q.head) * sequence + q.position;
  }
  // Where a vector of head_dim begins: slots 0.. are queries, `group` the key, `group` + 1 the value.
  SIMRUN_HD std::int64_t packed(std::int64_t b, std::int64_t position, std::int64_t kv,
                                std::int64_t slot) const {
    return (((b * sequence + position) * kv_heads + kv) * (group + 2) + slot) * head_dim;
  }
  SIMRUN_HD std::int64_t context(const Query& q) const {
    return (((q.batch * sequence + q.position) * kv_heads + q.kv) * group + q.head) * head_dim;
  }
  SIMRUN_HD std::int64_t first_key(std::int64_t position) const {
    return causal && window > 0 && position >= window ? position - window + 1 : 0;
  }
  SIMRUN_HD std::int64_t end_key(std::int64_t position) const { return causal ? position + 1 : sequence; }
  SIMRUN_HD std::int64_t first_query(std::int64_t key) const { return causal ? key : 0; }
  SIMRUN_HD std::int64_t end_query(std::int64_t key) const {
    return causal && window > 0 && key + window < sequence ? key + window : sequence;
  }
  // Share of a probability that dropout leaves: 0 or 1 / (1 - p).
  SIMRUN_HD double kept(const Query& q, std::int64_t key) const {
    if (dropout == 0) return 1;
    const std::int64_t head = ((first_sample + q.batch) * whole_kv + first_kv + q.kv) * group + q.head;
    return random.uniform((head * sequence + q.position) * sequence + key) >= dropout ? 1 / (1 - dropout) : 0;
  }
};

template <class Math>
SIMRUN_HD Math dot(const Reals<Math>& a, std::int64_t at, const Reals<Math>& b, std::int64_t with,
                   std::int64_t n) {
  Math sum = 0;
  for (std::int64_t d = 0; d < n; ++d) sum += a[at + d] * b[with + d];
  return sum;
}

// A score behind scale and cap, and the slope of the cap there.
template <class Math>
struct Score {
  Math value, slope;
  SIMRUN_HD Score(const AttentionShape& shape, Math product)
      : value(static_cast<Math>(shape.scale) * product), slope(1) {
    if (shape.cap == 0) return;
    const Math t = std::tanh(value / static_cast<Math>(shape.cap));
    value = static_cast<Math>(shape.cap) * t;
    slope = 1 - t * t;
  }
};

template <class Math>
SIMRUN_HD Score<Math> score_of(const AttentionShape& shape, const Reals<Math>& packed,
                               const AttentionShape::Query& q, std::int64_t key) {
  return {shape, dot(packed, shape.packed(q.batch, q.position, q.kv, q.head), packed,
                     shape.packed(q.batch, key, q.kv, shape.group), shape.head_dim)};
}

// Flash attention's output and log-sum of a query. Scratch: a tile of weights, then the output.
template <class Math>
struct AttentionRow {
  std::int64_t count, scratch;
  AttentionShape shape;
  Reals<Math> packed, to, log_sums;

  template <class Lane>
  SIMRUN_HD void operator()(std::int64_t row, Lane& lane) const {
    const AttentionShape::Query q = shape.query(row);
    Math *weights = lane.scratch(), *out = weights + score_tile;
    for (std::int64_t d = lane.index(); d < shape.head_dim; d += lane.count()) out[d] = 0;
    Math most = -std::numeric_limits<Math>::infinity(), sum = 0;
    const std::int64_t end = shape.end_key(q.position);
    for (std::int64_t begin = shape.first_key(q.position); begin < end; begin += score_tile) {
      const std::int64_t n = end - begin < score_tile ? end - begin : score_tile;
      Math highest = most, added = 0;
      for (std::int64_t t = lane.index(); t < n; t += lane.count()) {
        weights[t] = score_of(shape, packed, q, begin + t).value;
        highest = highest < weights[t] ? weights[t] : highest;
      }
      highest = lane.maximum(highest);
      for (std::int64_t t = lane.index(); t < n; t += lane.count()) {
        const Math p = std::exp(weights[t] - highest);
        added += p;
        weights[t] = p * static_cast<Math>(shape.kept(q, begin + t));
      }
      const Math shrink = std::exp(most - highest);
      sum = sum * shrink + lane.sum(added);
      most = highest;
      lane.meet();
      for (std::int64_t d = lane.index(); d < shape.head_dim; d += lane.count()) {
        Math value = out[d] * shrink;
        for (std::int64_t t = 0; t < n; ++t)
          value += weights[t] * packed[shape.packed(q.batch, begin + t, q.kv, shape.group + 1) + d];
        out[d] = value;
      }
      lane.meet();
    }
    for (std::int64_t d = lane.index(); d < shape.head_dim; d += lane.count())
      to.set(shape.context(q) + d, out[d] / sum);
    if (lane.index() == 0) log_sums.set(row, most + std::log(sum));
  }
};

// An unfused kernel's probabilities of a query, and with dropout the mask of what stays and what it leaves.
template <class Math>
struct ProbabilitiesRow {
  std::int64_t count, scratch;
  AttentionShape shape;
  Reals<Math> packed, to, probabilities, after;  // after: none without dropout
  std::uint8_t* mask;

  template <class Lane>
  SIMRUN_HD void operator()(std::int64_t row, Lane& lane) const {
    const AttentionShape::Query q = shape.query(row);
    const std::int64_t n = shape.sequence, begin = row * n;
    const std::int64_t first = shape.first_key(q.position), end = shape.end_key(q.position);
    Math most = -std::numeric_limits<Math>::infinity(), sum = 0;
    for (std::int64_t j = first + lane.index(); j < end; j += lane.count()) {
      const Math s = score_of(shape, packed, q, j).value;
      most = most < s ? s : most;
    }
    most = lane.maximum(most);
    for (std::int64_t j = first + lane.index(); j < end; j += lane.count())
      sum += std::exp(score_of(shape, packed, q, j).value - most);
    sum = lane.sum(sum);
    for (std::int64_t j = lane.index(); j < n; j += lane.count()) {
      const bool sees = j >= first && j < end;
      const Math p = sees ? std::exp(score_of(shape, packed, q, j).value - most) / sum : 0;
      probabilities.set(begin + j, p);
      if (mask == nullptr) continue;
      const Math left = p * static_cast<Math>(shape.kept(q, j));
      mask[begin + j] = left != 0 ? 1 : 0;
      after.set(begin + j, left);
    }
    lane.meet();
    const Reals<Math>& weights = mask == nullptr ? probabilities : after;
    for (std::int64_t d = lane.index(); d < shape.head_dim; d += lane.count()) {
      Math value = 0;
      for (std::int64_t j = first; j < end; ++j)
        value += weights[begin + j] * packed[shape.packed(q.batch, j, q.kv, shape.group + 1) + d];
      to.set(shape.context(q) + d, value);
    }
  }
};

// Of a query: log-sum of its scores and delta = sum over keys of P dP, which the gradients read.
template <class Math>
struct AttentionDeltaRow {
  std::int64_t count, scratch;
  AttentionShape shape;
  Reals<Math> packed, gradient;
  Math* statistics;  // [query][2]

  template <class Lane>
  SIMRUN_HD void operator()(std::int64_t row, Lane& lane) const {
    const AttentionShape::Query q = shape.query(row);
    const std::int64_t first = shape.first_key(q.position), end = shape.end_key(q.position);
    Math most = -std::numeric_limits<Math>::infinity(), sum = 0, product = 0;
    for (std::int64_t j = first + lane.index(); j < end; j += lane.count()) {
      const Math s = score_of(shape, packed, q, j).value;
      most = most < s ? s : most;
    }
    most = lane.maximum(most);
    for (std::int64_t j = first + lane.index(); j < end; j += lane.count()) {
      const Math p = std::exp(score_of(shape, packed, q, j).value - most);
      sum += p;
      product += p * static_cast<Math>(shape.kept(q, j)) *
                 dot(gradient, shape.context(q), packed, shape.packed(q.batch, j, q.kv, shape.group + 1),
                     shape.head_dim);
    }
    sum = lane.sum(sum);
    product = lane.sum(product);
    if (lane.index() != 0) return;
    statistics[2 * row] = most + std::log(sum);
    statistics[2 * row + 1] = product / sum;
  }
};

// What a score gives back: P behind dropout (for the value) and scale x dS (for query and key).
template <class Math>
struct ScoreGradient {
  Math weight, slope;
};
template <class Math>
SIMRUN_HD ScoreGradient<Math> score_gradient(const AttentionShape& shape, const Reals<Math>& packed,
                                             const Reals<Math>& gradient, const Math* statistics,
                                             const AttentionShape::Query& q, std::int64_t key) {
  const std::int64_t row = shape.number(q);
  const Score<Math> score = score_of(shape, packed, q, key);
  const Math p = std::exp(score.value - statistics[2 * row]), kept = static_cast<Math>(shape.kept(q, key));
  const Math back = kept * dot(gradient, shape.context(q), packed,
                               shape.packed(q.batch, key, q.kv, shape.group + 1), shape.head_dim);
  return {p * kept, static_cast<Math>(shape.scale) * p * (back - statistics[2 * row + 1]) * score.slope};
}

// dQ of a query. Scratch: a tile of scale x dS, then dQ.
template <class Math>
struct QueryGradientRow {
  std::int64_t count, scratch;
  AttentionShape shape;
  Reals<Math> packed, gradient, to;
  const Math* statistics;

  template <class Lane>
  SIMRUN_HD void operator()(std::int64_t row, Lane& lane) const {
    const AttentionShape::Query q = shape.query(row);
    Math *slopes = lane.scratch(), *out = slopes + score_tile;
    for (std::int64_t d = lane.index(); d < shape.head_dim; d += lane.count()) out[d] = 0;
    const std::int64_t end = shape.end_key(q.position);
    for (std::int64_t begin = shape.first_key(q.position); begin < end; begin += score_tile) {
      const std::int64_t n = end - begin < score_tile ? end - begin : score_tile;
      for (std::int64_t t = lane.index(); t < n; t += lane.count())
        slopes[t] = score_gradient(shape, packed, gradient, statistics, q, begin + t).slope;
      lane.meet();
      for (std::int64_t d = lane.index(); d < shape.head_dim; d += lane.count())
        for (std::int64_t t = 0; t < n; ++t)
          out[d] += slopes[t] * packed[shape.packed(q.batch, begin + t, q.kv, shape.group) + d];
      lane.meet();
    }
    for (std::int64_t d = lane.index(); d < shape.head_dim; d += lane.count())
      to.set(shape.packed(q.batch, q.position, q.kv, q.head) + d, out[d]);
  }
};

// dK and dV of a key, over all queries of its group, in order. Scratch: tiles of P and of scale x dS, dK, dV.
template <class Math>
struct KeyGradientRow {
  std::int64_t count, scratch;  // rows [batch, kv_heads, sequence]
  AttentionShape shape;
  Reals<Math> packed, gradient, to;
  const Math* statistics;

  template <class Lane>
  SIMRUN_HD void operator()(std::int64_t row, Lane& lane) const {
    const std::int64_t key = row % shape.sequence, kv = row / shape.sequence % shape.kv_heads;
    const std::int64_t b = row / shape.sequence / shape.kv_heads, end = shape.end_query(key);
    Math *weights = lane.scratch(), *slopes = weights + score_tile;
    Math *dk = slopes + score_tile, *dv = dk + shape.head_dim;
    for (std::int64_t d = lane.index(); d < shape.head_dim; d += lane.count()) dk[d] = dv[d] = 0;
    for (std::int64_t head = 0; head < shape.group; ++head)
      for (std::int64_t begin = shape.first_query(key); begin < end; begin += score_tile) {
        const std::int64_t n = end - begin < score_tile ? end - begin : score_tile;
        for (std::int64_t t = lane.index(); t < n; t += lane.count()) {
          const ScoreGradient<Math> of =
              score_gradient(shape, packed, gradient, statistics, {b, kv, head, begin + t}, key);
          weights[t] = of.weight;
          slopes[t] = of.slope;
        }
        lane.meet();
        for (std::int64_t d = lane.index(); d < shape.head_dim; d += lane.count())
          for (std::int64_t t = 0; t < n; ++t) {
            dk[d] += slopes[t] * packed[shape.packed(b, begin + t, kv, head) + d];
            dv[d] += weights[t] * gradient[shape.context({b, kv, head, begin + t}) + d];
          }
        lane.meet();
      }
    for (std::int64_t d = lane.index(); d < shape.head_dim; d += lane.count()) {
      to.set(shape.packed(b, key, kv, shape.group) + d, dk[d]);
      to.set(shape.packed(b, key, kv, shape.group + 1) + d, dv[d]);
    }
  }
};

}  // namespace simrun::cuda
