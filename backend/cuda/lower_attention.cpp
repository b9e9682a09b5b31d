#include <algorithm>

#include "backend/cuda/lower.h"

namespace simrun::cuda {
namespace {

AttentionShape attention_shape(const KernelCall& call, const Argument& packed) {
  const DimPart &batch = cpu::part_named(call, packed, "batch"),
                &kv = cpu::part_named(call, packed, "kv_heads");
  AttentionShape shape{};
  shape.batch = batch.extent;
  shape.sequence = cpu::part_named(call, packed, "sequence").extent;
  shape.kv_heads = kv.extent;
  shape.group = cpu::part_named(call, packed, "qkv").extent - 2;
  shape.head_dim = cpu::last_extent(packed);
  shape.scale = call.what.constants.at(0);
  shape.cap = call.what.soft_cap ? call.what.constants.at(1) : 0;
  shape.causal = call.what.causal.on;
  shape.window = call.what.causal.window;
  shape.dropout = static_cast<double>(call.what.dropout);
  shape.first_sample = call.microbatch * batch.whole + batch.first;
  shape.first_kv = kv.first;
  shape.whole_kv = kv.whole;
  return shape;
}

// ---- in matrix products, where all is stored as bf16 ----

// Query heads whose matrices of scores are in memory at a time, and a product over them as a batch: the heads
// of `heads` kv groups with one place in the group. Their scores are [head][query][key].
class ProductAttention {
 public:
  // Bytes of scores that are in memory at a time, at least those of one head.
  static constexpr std::int64_t most_score_bytes = std::int64_t{1} << 28;

  explicit ProductAttention(const AttentionShape& of) : shape(of), square(of.sequence * of.sequence) {
    const std::int64_t most = most_score_bytes / (square * static_cast<std::int64_t>(sizeof(float)));
    heads = std::clamp<std::int64_t>(most, 1, of.kv_heads);
  }
  const AttentionShape shape;
  const std::int64_t square;
  std::int64_t heads = 1;

  // Of `count` kv heads from `kv` on, the vectors of one slot: matrices sequence x head_dim.
  Factor vectors(const Reals<float>& packed, std::int64_t b, std::int64_t kv, std::int64_t slot) const {
    const std::int64_t slots = shape.group + 2;
    return {at(packed.data, shape.packed(b, 0, kv, slot)), true, false,
            shape.kv_heads * slots * shape.head_dim, slots * shape.head_dim};
  }
  Factor contexts(const Reals<float>& context, std::int64_t b, std::int64_t kv, std::int64_t head) const {
    return {at(context.data, shape.context({b, kv, head, 0})), true, false,
            shape.kv_heads * shape.group * shape.head_dim, shape.group * shape.head_dim};
  }
  Factor scores(void* data, bool is_bf16) const { return {data, is_bf16, false, shape.sequence, square}; }
  Product scores_of(std::int64_t count, const Factor& a, Factor b, const Factor& d) const {
    b.transposed = true;
    return {count, shape.sequence, shape.sequence, shape.head_dim, a, b, d, 0};
  }
  Product vectors_of(std::int64_t count, const Factor& a, const Factor& b, const Factor& d,
                     double beta) const {
    return {count, shape.sequence, shape.head_dim, shape.sequence, a, b, d, beta};
  }
  // AttentionShape's number of the first query of a head; heads of a run are `group` heads apart.
  std::int64_t first_query(std::int64_t b, std::int64_t kv, std::int64_t head) const {
    return shape.number({b, kv, head, 0});
  }
  template <class Visit>
  void for_each_run(Visit visit) const {
    for (std::int64_t b = 0; b < shape.batch; ++b)
      for (std::int64_t kv = 0; kv < shape.kv_heads; kv += heads)
        visit(b, kv, std::min(heads, shape.kv_heads - kv));
  }

 private:
  static void* at(void* data, std::int64_t element) { return static_cast<std::uint16_t*>(data) + element; }
};

void forward_in_products(LaunchList<float>& list, const AttentionShape& shape) {
  const ProductAttention in(shape);
  const Reals<float> packed = list.input(0), to = list.output(0), log_sums = list.output(1);
  auto* const products = list.scratch<float>(in.heads * in.square);
  auto* const weights = list.scratch<std::uint16_t>(in.heads * in.square);
  in.for_each_run([&](std::int64_t b, std::int64_t kv, std::int64_t count) {
    for (std::int64_t head = 0; head < shape.group; ++head) {
      list.add(in.scores_of(count, in.vectors(packed, b, kv, head), in.vectors(packed, b, kv, shape.group),
                            in.scores(products, false)));
      list.add(SoftmaxRow<float>{count * shape.sequence,
                                 0,
                                 in.first_query(b, kv, head),
                                 shape,
                                 products,
                                 {weights, true},
                                 log_sums});
      list.add(in.vectors_of(count, in.scores(weights, true), in.vectors(packed, b, kv, shape.group + 1),
                             in.contexts(to, b, kv, head), 0));
    }
  });
}

// Gradients of keys and values add up over the heads of a group in float, and are rounded once.
void backward_in_products(LaunchList<float>& list, const AttentionShape& shape) {
  const ProductAttention in(shape);
  const Reals<float> gradient = list.input(0), packed = list.input(1), to = list.output(0);
  const std::int64_t vectors = in.heads * shape.sequence * shape.head_dim;
  auto* const products = list.scratch<float>(in.heads * in.square);
  auto* const backs = list.scratch<float>(in.heads * in.square);
  auto* const weights = list.scratch<std::uint16_t>(in.heads * in.square);
  auto* const slopes = list.scratch<std::uint16_t>(in.heads * in.square);
  auto* const sums = list.scratch<float>(2 * vectors);
  const auto transposed = [](Factor factor) {
    factor.transposed = true;
    return factor;
  };
  const auto sum = [&](std::int64_t which) {
    return Factor{sums + which * vectors, false, false, shape.head_dim, shape.sequence * shape.head_dim};
  };
  in.for_each_run([&](std::int64_t b, std::int64_t kv, std::int64_t count) {
    const Factor key = in.vectors(packed, b, kv, shape.group),
                 value = in.vectors(packed, b, kv, shape.group + 1);
    for (std::int64_t head = 0; head < shape.group; ++head) {
      const Factor query = in.vectors(packed, b, kv, head), back = in.contexts(gradient, b, kv, head);
      const double beta = head == 0 ? 0 : 1;
      list.add(in.scores_of(count, query, key, in.scores(products, false)));
      list.add(in.scores_of(count, back, value, in.scores(backs, false)));
      list.add(SoftmaxBackwardRow<float>{count * shape.sequence,
                                         0,
                                         in.first_query(b, kv, head),
                                         shape,
                                         products,
                                         backs,
                                         {weights, true},
                                         {slopes, true}});
      list.add(in.vectors_of(count, in.scores(slopes, true), key, in.vectors(to, b, kv, head), 0));
      list.add(in.vectors_of(count, transposed(in.scores(slopes, true)), query, sum(0), beta));
      list.add(in.vectors_of(count, transposed(in.scores(weights, true)), back, sum(1), beta));
    }
    for (const std::int64_t which : {0, 1}) {
      // [kv head][position][head_dim] to its slot of packed q, k, v.
      const std::int64_t row = shape.kv_heads * (shape.group + 2) * shape.head_dim;
      const std::int64_t of = shape.packed(b, 0, kv, shape.group + which);
      list.add(RoundElement{count * shape.sequence * shape.head_dim, sums + which * vectors,
                            static_cast<std::uint16_t*>(to.data),
                            joined_places(of, {count, shape.sequence, shape.head_dim},
                                          {(shape.group + 2) * shape.head_dim, row, 1})});
    }
  });
}

// Whether products can do it: all bf16, and flash, which keeps no probabilities.
template <class Math>
bool runs_in_products(const LaunchList<Math>& list) {
  const KernelCall& call = list.call;
  if (!std::is_same_v<Math, float> || call.what.function != Function::flash) return false;
  if (call.what.opcode == Opcode::attention)
    return list.is_bf16(call.inputs[0]) && list.is_bf16(call.outputs[0]);
  return list.is_bf16(call.inputs[0]) && list.is_bf16(call.inputs[1]) && list.is_bf16(call.outputs[0]);
}

// Bytes of fast memory are counted in numbers of Math.
std::int64_t scratch_of(const AttentionShape& shape, std::int64_t tiles, std::int64_t vectors) {
  return tiles * score_tile + vectors * shape.head_dim;
}

std::int64_t queries_of(const AttentionShape& shape) {
  return shape.batch * shape.kv_heads * shape.group * shape.sequence;
}

}  // namespace

template <class Math>
void lower_attention(LaunchList<Math>& list) {
  const KernelCall& call = list.call;
  AttentionShape shape = attention_shape(call, call.inputs[0]);
  shape.random = list.random(call.what.label, call.what.layer);
  if constexpr (std::is_same_v<Math, float>)
    if (runs_in_products(list)) return forward_in_products(list, shape);
  if (call.what.function == Function::flash)
    return list.add(AttentionRow<Math>{queries_of(shape), scratch_of(shape, 1, 1), shape, list.input(0),
                                       list.output(0), list.output(1)});
  ProbabilitiesRow<Math> kernel{};
  kernel.count = queries_of(shape);
  kernel.shape = shape;
  kernel.packed = list.input(0);
  kernel.to = list.output(0);
  kernel.probabilities = list.output(1);
  if (shape.dropout > 0) {
    kernel.mask = static_cast<std::uint8_t*>(call.outputs[2].data);
    kernel.after = list.output(3);
  }
  list.add(kernel);
}

template <class Math>
void lower_attention_backward(LaunchList<Math>& list) {
  const KernelCall& call = list.call;
  AttentionShape shape = attention_shape(call, call.inputs[1]);
  shape.random = list.random(call.what.label, call.what.layer);
  if constexpr (std::is_same_v<Math, float>)
    if (runs_in_products(list)) return backward_in_products(list, shape);
  const std::int64_t queries = queries_of(shape);
  Math* const statistics = list.template scratch<Math>(2 * queries);
  const Reals<Math> gradient = list.input(0), packed = list.input(1), to = list.output(0);
  list.add(AttentionDeltaRow<Math>{queries, 0, shape, packed, gradient, statistics});
  list.add(QueryGradientRow<Math>{queries, scratch_of(shape, 1, 1), shape, packed, gradient, to, statistics});
  list.add(KeyGradientRow<Math>{queries / shape.group, scratch_of(shape, 2, 2), shape, packed, gradient, to,
                                statistics});
}

template void lower_attention(LaunchList<float>&);
template void lower_attention(LaunchList<double>&);
template void lower_attention_backward(LaunchList<float>&);
template void lower_attention_backward(LaunchList<double>&);

}  // namespace simrun::cuda
