#include <cmath>

#include "backend/cpu/kernels.h"
#include "backend/rotation.h"

// What latent attention has besides products and norms: its compressed vectors taken apart, and rope on a
// part of its heads.
namespace simrun::cpu {
namespace {

// Queries [batch, sequence, kv_heads, qk_dim], whose last elements turn; the gradient turns back.
struct RowPlace {
  const DimPart& sequence;
  std::int64_t heads;
  double position(std::int64_t row) const {
    return static_cast<double>(sequence.at(row / heads % sequence.extent));
  }
};

// Rows of keys and values [.., kv_heads, nope + v], of keys [.., kv_heads, nope + rope], of values [..,
// kv_heads, v] and of the part that all heads of a token share [.., rope].
template <class Real>
struct LatentRows {
  Real *up, *shared, *key, *value;
  std::int64_t nope, rope, v, heads, rows;
  RowPlace place;
  Rotation rotation;

  LatentRows(const KernelCall& call, const std::vector<Argument>& joint, const std::vector<Argument>& apart)
      : up(reals<Real>(joint[0])),
        shared(reals<Real>(joint[1])),
        key(reals<Real>(apart[0])),
        value(reals<Real>(apart[1])),
        nope(last_extent(apart[0]) - last_extent(joint[1])),
        rope(last_extent(joint[1])),
        v(last_extent(apart[1])),
        heads(part_named(call, joint[0], "kv_heads").extent),
        rows(rows_of(apart[0])),
        place{part_named(call, joint[0], "sequence"), heads},
        rotation(call.what.constants.at(0), rope) {}
};

template <class Real>
void mla_rope(const KernelCall& call) {
  const LatentRows<Real> of(call, call.inputs, call.outputs);
  for (std::int64_t row = 0; row < of.rows; ++row) {
    const Real* up = of.up + row * (of.nope + of.v);
    Real* key = of.key + row * (of.nope + of.rope);
    std::copy_n(up, of.nope, key);
    of.rotation.turn(of.shared + row / of.heads * of.rope, key + of.nope, of.place.position(row));
    std::copy_n(up + of.nope, of.v, of.value + row * of.v);
  }
}

// The shared part's gradient is the sum over the rank's heads.
template <class Real>
void mla_rope_backward(const KernelCall& call) {
  const LatentRows<Real> of(call, call.outputs, call.inputs);
  std::fill_n(of.shared, elements(call.outputs[1].part), Real{0});
  std::vector<Real> turned(static_cast<std::size_t>(of.rope));
  for (std::int64_t row = 0; row < of.rows; ++row) {
    Real* up = of.up + row * (of.nope + of.v);
    const Real* key = of.key + row * (of.nope + of.rope);
    std::copy_n(key, of.nope, up);
    of.rotation.turn(key + of.nope, turned.data(), -of.place.position(row));
    Real* shared = of.shared + row / of.heads * of.rope;
    for (std::int64_t i = 0; i < of.rope; ++i) shared[i] += turned[static_cast<std::size_t>(i)];
    std::copy_n(of.value + row * of.v, of.v, up + of.nope);
  }
}

}  // namespace

template <class Real>
void run_latent_rope(const KernelCall& call) {
  if (call.what.function == Function::mla_rope) return mla_rope<Real>(call);
  if (call.what.function == Function::mla_rope_backward) return mla_rope_backward<Real>(call);
  const Argument &in = call.inputs[0], &out = call.outputs[0];
  const std::int64_t n = last_extent(in), rows = rows_of(in);
  const RowPlace place{part_named(call, in, "sequence"), part_named(call, in, "kv_heads").extent};
  const std::int64_t turned = turned_elements(call.what.constants.at(1), n);
  const Rotation rotation(call.what.constants.at(0), turned);
  const double direction = call.what.function == Function::rope_backward ? -1 : 1;
  for (std::int64_t row = 0; row < rows; ++row) {
    const Real* x = reals<Real>(in) + row * n;
    Real* y = reals<Real>(out) + row * n;
    std::copy_n(x, n - turned, y);
    rotation.turn(x + n - turned, y + n - turned, direction * place.position(row));
  }
}

template <class Real>
void run_split(const KernelCall& call) {
  const bool joins = call.what.function == Function::concat;
  const Argument& whole = joins ? call.outputs[0] : call.inputs[0];
  const std::int64_t n = last_extent(whole), rows = rows_of(whole);
  // Of two halves only the one that is wanted is written.
  std::int64_t begin = call.what.constants.empty()
                           ? 0
                           : static_cast<std::int64_t>(call.what.constants[0]) * last_extent(call.outputs[0]);
  for (const Argument& part : joins ? call.inputs : call.outputs) {
    const std::int64_t count = last_extent(part);
    for (std::int64_t row = 0; row < rows; ++row) {
      Real* in_whole = reals<Real>(whole) + row * n + begin;
      Real* in_part = reals<Real>(part) + row * count;
      std::copy_n(joins ? in_part : in_whole, count, joins ? in_whole : in_part);
    }
    begin += count;
  }
}

template void run_latent_rope<float>(const KernelCall&);
template void run_latent_rope<double>(const KernelCall&);
template void run_split<float>(const KernelCall&);
template void run_split<double>(const KernelCall&);

}  // namespace simrun::cpu
