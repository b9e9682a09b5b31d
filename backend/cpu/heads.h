#pragma once

#include <Eigen/Core>
#include <vector>

#include "backend/cpu/kernels.h"

// Where the heads of an attention's operands lie.
namespace simrun::cpu {

template <class Real>
using Square = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class Real>
using Rows = Eigen::Map<Square<Real>, 0, Eigen::OuterStride<>>;

// A query head of a sample, and its place in the rank's part.
struct Head {
  std::int64_t batch = 0, kv = 0, query = 0;
};

// An operand [batch, positions, kv_heads, (slots,) width]: of a head, its rows [positions, width] in one
// slot.
template <class Real>
class HeadRows {
 public:
  HeadRows() = default;
  HeadRows(const Argument& operand, std::int64_t slot, bool slot_is_query)
      : data_(reals<Real>(operand)),
        positions_(operand.part[1].extent),
        kv_heads_(operand.part[2].extent),
        slots_(operand.part.size() > 4 ? operand.part[3].extent : 1),
        width_(last_extent(operand)),
        slot_(slot),
        slot_is_query_(slot_is_query) {}

  std::int64_t positions() const { return positions_; }
  Rows<Real> of(const Head& head) const {
    const std::int64_t stride = kv_heads_ * slots_ * width_;
    const std::int64_t slot = slot_is_query_ ? head.query : slot_;
    Real* first = data_ + head.batch * positions_ * stride + (head.kv * slots_ + slot) * width_;
    return {first, positions_, width_, Eigen::OuterStride<>(stride)};
  }

 private:
  Real* data_ = nullptr;
  std::int64_t positions_ = 0, kv_heads_ = 0, slots_ = 1, width_ = 0, slot_ = 0;
  bool slot_is_query_ = false;
};

// The operands of an attention, or their gradients, as ATTENTION lists them (backend/operations.h).
template <class Real>
struct AttentionOperands {
  HeadRows<Real> q, k, v;
  const Argument* sinks = nullptr;   // [kv_heads, group]
  const Argument* biases = nullptr;  // [buckets, kv_heads]

  AttentionOperands(const KernelCall& call, const Argument* first, std::size_t count) {
    const bool packed = position_of(call, first[0], "qkv") >= 0;
    if (packed) {
      const std::int64_t group = first[0].part[3].extent - 2;
      q = {first[0], 0, true};
      k = {first[0], group, false};
      v = {first[0], group + 1, false};
    } else {
      q = {first[0], 0, true};
      k = {first[1], 0, false};
      v = {first[2], 0, false};
    }
    for (std::size_t i = packed ? 1 : 3; i < count; ++i) {
      if (position_of(call, first[i], "buckets") >= 0)
        biases = &first[i];
      else if (first[i].part.size() == 2)
        sinks = &first[i];
      else
        break;  // what the forward pass kept
    }
  }
};

// The heads of an attention by its context [batch, positions, kv_heads, (group,) width].
struct HeadCounts {
  DimPart batch, kv;
  std::int64_t group = 1;

  explicit HeadCounts(const Argument& context)
      : batch(context.part[0]),
        kv(context.part[2]),
        group(context.part.size() > 4 ? context.part[3].extent : 1) {}

  std::int64_t number(const Head& head) const {
    return (head.batch * kv.extent + head.kv) * group + head.query;
  }
  // Of the whole model's heads.
  std::int64_t whole_number(const Head& head) const { return (kv.first + head.kv) * group + head.query; }
  std::int64_t whole() const { return kv.whole * group; }
  std::int64_t sample(const KernelCall& call, std::int64_t in_batch) const {
    return call.microbatch * batch.whole + batch.first + in_batch;
  }

  template <class Visit>
  void for_each(Visit visit) const {
    for (std::int64_t b = 0; b < batch.extent; ++b)
      for (std::int64_t k = 0; k < kv.extent; ++k)
        for (std::int64_t q = 0; q < group; ++q) visit(Head{b, k, q});
  }
};

}  // namespace simrun::cpu
