#include "backend/cpu/flash.h"

#include <algorithm>
#include <cmath>

#include "backend/cpu/kernels.h"
#include "backend/cpu/math.h"
#include "backend/cpu/scratch.h"

namespace simrun::cpu {
namespace {

constexpr std::int64_t block_rows = 128;

// A matrix [sequence, head_dim] within a packed tensor.
template <class Real>
struct FlashRows {
  Real* data = nullptr;
  std::int64_t stride = 0;
  Real* row(std::int64_t i) const { return data + i * stride; }
};

// Packed q, k, v [batch, sequence, kv_heads, group + 2, head_dim], and the context without `+ 2`.
struct FlashShape {
  std::int64_t batch = 0, sequence = 0, kv_heads = 0, group = 0, head_dim = 0;
  bool causal = false;

  FlashShape(const KernelCall& call, const Argument& packed)
      : batch(part_named(call, packed, "batch").extent),
        sequence(part_named(call, packed, "sequence").extent),
        kv_heads(part_named(call, packed, "kv_heads").extent),
        group(part_named(call, packed, "qkv").extent - 2),
        head_dim(last_extent(packed)),
        causal(call.what.causal.on) {}

  // Slot `slot` of a kv head's `slots`.
  template <class Real>
  FlashRows<Real> rows(Real* data, std::int64_t head, std::int64_t slot, std::int64_t slots) const {
    const std::int64_t stride = kv_heads * slots * head_dim, sample = head / kv_heads;
    return {data + sample * sequence * stride + (head % kv_heads * slots + slot) * head_dim, stride};
  }
  // Of a block of queries, the keys that any of them sees, and those that the query `i` does.
  std::int64_t keys_of_block(std::int64_t end) const { return causal ? end : sequence; }
  std::int64_t keys_of(std::int64_t i) const { return causal ? i + 1 : sequence; }
};

// out [rows, columns] (+)= factor x left right, both as they are to be read.
template <class Real>
void product(const ProductOperand<Real>& left, const ProductOperand<Real>& right, Product<Real> of) {
  of.left = left;
  of.right = right;
  math<Real>().multiply(of);
}

// A block of queries of one head: rows [begin, end) of its scores, with the keys that they see.
template <class Real>
struct QueryBlock {
  FlashRows<Real> q, k, v;
  std::int64_t begin = 0, rows = 0, keys = 0, head_dim = 0;

  ProductOperand<Real> queries() const { return {q.row(begin), q.stride}; }
  // scale q k^T.
  void scores(Real scale, Real* to) const {
    product<Real>(
        queries(), {k.data, k.stride, true},
        {.rows = rows, .columns = keys, .depth = head_dim, .out = to, .out_stride = keys, .factor = scale});
  }
};

template <class Visit>
void for_each_block(const FlashShape& shape, Visit visit) {
  for (std::int64_t begin = 0; begin < shape.sequence; begin += block_rows) {
    const std::int64_t end = std::min(begin + block_rows, shape.sequence);
    visit(begin, end - begin, shape.keys_of_block(end));
  }
}

// p = exp(scores - shift of the row), 0 where masked.
template <class Real>
void probabilities(const FlashShape& shape, const QueryBlock<Real>& block, const Real* shifts, Real* p) {
  for (std::int64_t i = 0; i < block.rows; ++i) {
    Real* row = p + i * block.keys;
    const std::int64_t seen = shape.keys_of(block.begin + i);
    math<Real>().exponentials(row, shifts[i], 1, row, seen);
    std::fill(row + seen, row + block.keys, Real{0});
  }
}

}  // namespace

bool is_plain_flash(const KernelCall& call) {
  const Instruction& what = call.what;
  const bool backward = what.opcode == Opcode::attention_backward;
  const std::size_t inputs = backward ? 4 : 1, outputs = backward ? 1 : 2;
  return what.function == Function::flash && what.dropout == 0 && !what.soft_cap && !what.alibi &&
         what.causal.window == 0 && what.part.axes.empty() && !call.plan.job.documents &&
         call.inputs.size() == inputs && call.outputs.size() == outputs &&
         position_of(call, call.inputs[backward ? 1 : 0], "qkv") >= 0;
}

template <class Real>
void run_plain_flash(const KernelCall& call) {
  const FlashShape shape(call, call.inputs[0]);
  const auto scale = static_cast<Real>(call.what.constants.at(0));
  const std::int64_t slots = shape.group + 2, d = shape.head_dim;
  Real* in = reals<Real>(call.inputs[0]);
  Real* log_sums = reals<Real>(call.outputs[1]);
  const Scratch<Real> p(std::min(block_rows, shape.sequence) * shape.sequence), shifts(block_rows);
  for (std::int64_t head = 0; head < shape.batch * shape.kv_heads * shape.group; ++head) {
    const std::int64_t kv = head / shape.group, query = head % shape.group;
    const FlashRows<Real> out = shape.rows(reals<Real>(call.outputs[0]), kv, query, shape.group);
    QueryBlock<Real> block{shape.rows(in, kv, query, slots), shape.rows(in, kv, shape.group, slots),
                           shape.rows(in, kv, shape.group + 1, slots)};
    block.head_dim = d;
    for_each_block(shape, [&](std::int64_t begin, std::int64_t rows, std::int64_t keys) {
      block.begin = begin;
      block.rows = rows;
      block.keys = keys;
      block.scores(scale, p.data());
      for (std::int64_t i = 0; i < rows; ++i)
        shifts[i] = math<Real>().maximum(p.data() + i * keys, shape.keys_of(begin + i));
      probabilities(shape, block, shifts.data(), p.data());
      product<Real>(
          {p.data(), keys}, {block.v.data, block.v.stride},
          {.rows = rows, .columns = d, .depth = keys, .out = out.row(begin), .out_stride = out.stride});
      for (std::int64_t i = 0; i < rows; ++i) {
        const Real sum = math<Real>().sum(p.data() + i * keys, keys);
        for (std::int64_t c = 0; c < d; ++c) out.row(begin + i)[c] /= sum;
        log_sums[head * shape.sequence + begin + i] = shifts[i] + std::log(sum);
      }
    });
  }
}

// With P the probabilities: dV = P^T dO, dP = dO V^T, dS = P (dP - rowsum(dO O)), dQ = scale dS K, dK = scale
// dS^T Q (Dao et al. 2022, arXiv 2205.14135, appendix B.2).
template <class Real>
void run_plain_flash_backward(const KernelCall& call) {
  const FlashShape shape(call, call.inputs[1]);
  const auto scale = static_cast<Real>(call.what.constants.at(0));
  const std::int64_t slots = shape.group + 2, d = shape.head_dim;
  Real *in = reals<Real>(call.inputs[1]), *to = reals<Real>(call.outputs[0]);
  std::fill_n(to, elements(call.outputs[0].part), Real{0});
  const std::int64_t block_size = std::min(block_rows, shape.sequence) * shape.sequence;
  const Scratch<Real> p(block_size), dp(block_size);
  for (std::int64_t head = 0; head < shape.batch * shape.kv_heads * shape.group; ++head) {
    const std::int64_t kv = head / shape.group, query = head % shape.group;
    const FlashRows<Real> dout = shape.rows(reals<Real>(call.inputs[0]), kv, query, shape.group);
    const FlashRows<Real> out = shape.rows(reals<Real>(call.inputs[2]), kv, query, shape.group);
    const FlashRows<Real> dq = shape.rows(to, kv, query, slots), dk = shape.rows(to, kv, shape.group, slots);
    const FlashRows<Real> dv = shape.rows(to, kv, shape.group + 1, slots);
    const Real* log_sums = reals<Real>(call.inputs[3]) + head * shape.sequence;
    QueryBlock<Real> block{shape.rows(in, kv, query, slots), shape.rows(in, kv, shape.group, slots),
                           shape.rows(in, kv, shape.group + 1, slots)};
    block.head_dim = d;
    for_each_block(shape, [&](std::int64_t begin, std::int64_t rows, std::int64_t keys) {
      block.begin = begin;
      block.rows = rows;
      block.keys = keys;
      const ProductOperand<Real> back{dout.row(begin), dout.stride};
      block.scores(scale, p.data());
      probabilities(shape, block, log_sums + begin, p.data());
      const Product<Real> into_keys{.rows = keys, .columns = d, .depth = rows};
      Product<Real> of = into_keys;
      of.out = dv.data;
      of.out_stride = dv.stride;
      of.adds = true;
      product<Real>({p.data(), keys, true}, back, of);
      product<Real>(back, {block.v.data, block.v.stride, true},
                    {.rows = rows, .columns = keys, .depth = d, .out = dp.data(), .out_stride = keys});
      for (std::int64_t i = 0; i < rows; ++i) {
        const Real sum = math<Real>().dot(dout.row(begin + i), out.row(begin + i), d);
        Real* row = p.data() + i * keys;
        math<Real>().softmax_gradient(row, dp.data() + i * keys, {sum, scale}, row, keys);
      }
      of = {.rows = rows, .columns = d, .depth = keys, .out = dq.row(begin), .out_stride = dq.stride};
      product<Real>({p.data(), keys}, {block.k.data, block.k.stride}, of);
      of = into_keys;
      of.out = dk.data;
      of.out_stride = dk.stride;
      of.adds = true;
      product<Real>({p.data(), keys, true}, block.queries(), of);
    });
  }
}

template void run_plain_flash<float>(const KernelCall&);
template void run_plain_flash<double>(const KernelCall&);
template void run_plain_flash_backward<float>(const KernelCall&);
template void run_plain_flash_backward<double>(const KernelCall&);

}  // namespace simrun::cpu
