#include <algorithm>

#include "backend/cpu/kernels.h"

// More tensor-parallel ranks, or ranks that exchange heads, than key-value heads: a rank's heads among the
// rows of all.
namespace simrun::cpu {
namespace {

// Where in a token's rows of all heads those of one packed head are.
class HeadsOfRows {
 public:
  HeadsOfRows(const KernelCall& call, const Argument& rows, const Argument& packed)
      : kv_(part_named(call, packed, "kv_heads")),
        queries_(part_named(call, packed, "qkv").extent - 2),
        width_(last_extent(packed)) {
    // Of h query heads and k key-value heads in the model: h + 2 k rows of a head's width.
    const std::int64_t heads = kv_.whole * queries_;
    const std::int64_t of_model = (last_extent(rows) / width_ - heads) / 2;
    group_ = heads / of_model;
    copies_ = kv_.whole / of_model;
  }

  std::int64_t kv_heads() const { return kv_.extent; }
  std::int64_t queries() const { return queries_; }
  std::int64_t width() const { return width_; }
  // First element of the queries, and of the key, which the value follows.
  std::int64_t queries_of(std::int64_t kv) const {
    const std::int64_t copy = kv_.at(kv);
    return (copy / copies_ * (group_ + 2) + copy % copies_ * queries_) * width_;
  }
  std::int64_t keys_of(std::int64_t kv) const {
    return (kv_.at(kv) / copies_ * (group_ + 2) + group_) * width_;
  }

 private:
  const DimPart kv_;
  const std::int64_t queries_, width_;
  std::int64_t group_ = 1, copies_ = 1;
};

template <class Real>
void select(const KernelCall& call) {
  const Argument &rows = call.inputs[0], &packed = call.outputs[0];
  const HeadsOfRows heads(call, rows, packed);
  const std::int64_t queries = heads.queries() * heads.width(), pair = 2 * heads.width();
  Real* to = reals<Real>(packed);
  for (std::int64_t token = 0; token < rows_of(rows); ++token) {
    const Real* from = reals<Real>(rows) + token * last_extent(rows);
    for (std::int64_t kv = 0; kv < heads.kv_heads(); ++kv) {
      to = std::copy_n(from + heads.queries_of(kv), queries, to);
      to = std::copy_n(from + heads.keys_of(kv), pair, to);
    }
  }
}

template <class Real>
void add_back(const KernelCall& call) {
  const Argument &packed = call.inputs[0], &rows = call.outputs[0];
  const HeadsOfRows heads(call, rows, packed);
  const std::int64_t queries = heads.queries() * heads.width(), pair = 2 * heads.width();
  std::fill_n(reals<Real>(rows), elements(rows.part), Real{0});
  const Real* from = reals<Real>(packed);
  const auto add = [&](std::int64_t count, Real* to) {
    for (std::int64_t i = 0; i < count; ++i) to[i] += *from++;
  };
  for (std::int64_t token = 0; token < rows_of(rows); ++token) {
    Real* to = reals<Real>(rows) + token * last_extent(rows);
    for (std::int64_t kv = 0; kv < heads.kv_heads(); ++kv) {
      add(queries, to + heads.queries_of(kv));
      add(pair, to + heads.keys_of(kv));
    }
  }
}

}  // namespace

template <class Real>
void run_select_heads(const KernelCall& call) {
  position_of(call, call.outputs[0], "qkv") >= 0 ? select<Real>(call) : add_back<Real>(call);
}

template void run_select_heads<float>(const KernelCall&);
template void run_select_heads<double>(const KernelCall&);

}  // namespace simrun::cpu
