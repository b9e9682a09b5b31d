#include "sim/measured_cost.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "sim/attention_cost.h"

namespace simrun {
namespace {

// A rate at a place; places are logarithms of sizes.
template <std::size_t n>
struct RatePoint {
  std::array<double, n> at{};
  double log_rate = 0;
};

double distance(double a, double b) { return std::abs(a - b); }

// Rates at points that are meant to be a grid. A corner that is missing takes the rate of the nearest point.
template <std::size_t n>
class RateTable {
 public:
  void add(const std::array<std::int64_t, n>& sizes, double rate) {
    RatePoint<n> point{{}, std::log(rate)};
    for (std::size_t d = 0; d < n; ++d) point.at[d] = std::log(static_cast<double>(sizes[d]));
    points_.push_back(point);
  }

  // Every corner of the cell around the place, by its weight.
  double at(const std::array<std::int64_t, n>& sizes) const {
    std::array<Bracket, n> brackets;
    for (std::size_t d = 0; d < n; ++d)
      brackets[d] = bracket(d, std::log(static_cast<double>(std::max<std::int64_t>(sizes[d], 1))));
    double log_rate = 0;
    for (unsigned corner = 0; corner < (1U << n); ++corner) {
      double weight = 1;
      std::array<double, n> place{};
      for (std::size_t d = 0; d < n; ++d) {
        const bool upper = (corner >> d & 1U) != 0;
        weight *= upper ? brackets[d].share : 1 - brackets[d].share;
        place[d] = upper ? brackets[d].above : brackets[d].below;
      }
      if (weight > 0) log_rate += weight * nearest(place);
    }
    return std::exp(log_rate);
  }

 private:
  struct Bracket {
    double below = -std::numeric_limits<double>::infinity(), above = std::numeric_limits<double>::infinity();
    double share = 0;  // of `above`
  };

  Bracket bracket(std::size_t dimension, double place) const {
    Bracket found;
    for (const RatePoint<n>& point : points_) {
      const double at = point.at[dimension];
      if (at <= place) found.below = std::max(found.below, at);
      if (at >= place) found.above = std::min(found.above, at);
    }
    if (std::isinf(found.below)) found.below = found.above;
    if (std::isinf(found.above)) found.above = found.below;
    if (found.above > found.below) found.share = (place - found.below) / (found.above - found.below);
    return found;
  }

  double nearest(const std::array<double, n>& place) const {
    double least = std::numeric_limits<double>::infinity(), log_rate = 0;
    for (const RatePoint<n>& point : points_) {
      double apart = 0;
      for (std::size_t d = 0; d < n; ++d) apart += distance(point.at[d], place[d]);
      if (apart >= least) continue;
      least = apart;
      log_rate = point.log_rate;
    }
    return log_rate;
  }

  std::vector<RatePoint<n>> points_;
};

std::optional<double> measured_attention_seconds(const Plan& plan, const Instruction& instruction) {
  const MeasuredKernels& measured = plan.cluster.gpu.measured;
  const std::vector<MeasuredKernels::Attention>& rates =
      instruction.opcode == Opcode::attention ? measured.attention : measured.attention_backward;
  if (rates.empty() || instruction.function != Function::flash) return std::nullopt;
  RateTable<2> table;
  for (const MeasuredKernels::Attention& of : rates) table.add({of.sequence, of.head_dim}, of.flops);
  const AttentionShape shape = attention_shape(plan, instruction);
  return kernel_work(plan, instruction).flops / table.at({shape.sequence, shape.head_dim});
}

}  // namespace

std::string kernel_name(const Instruction& instruction) {
  const std::string opcode = to_string(instruction.opcode);
  switch (instruction.function) {
    case Function::none: return opcode;
    // A gate that lies apart is read and written as the halves of SwiGLU's product are.
    case Function::gated_silu: return opcode + "_" + to_string(Function::swiglu);
    case Function::gated_silu_backward: return opcode + "_" + to_string(Function::swiglu_backward);
    default: return opcode + "_" + to_string(instruction.function);
  }
}

double measured_product_rate(const MeasuredKernels& measured, const GemmShape& shape) {
  RateTable<3> table;
  for (const MeasuredKernels::Product& of : measured.products) table.add({of.m, of.n, of.k}, of.flops);
  return table.at({shape.m, shape.n, shape.k});
}

std::optional<double> measured_seconds(const Plan& plan, const Instruction& instruction) {
  const MeasuredKernels& measured = plan.cluster.gpu.measured;
  switch (instruction.opcode) {
    case Opcode::gemm: {
      if (measured.products.empty()) return std::nullopt;
      return kernel_work(plan, instruction).flops /
             measured_product_rate(measured, gemm_shape(plan, instruction));
    }
    case Opcode::attention:
    case Opcode::attention_backward: return measured_attention_seconds(plan, instruction);
    default: break;
  }
  const auto found = measured.kernels.find(kernel_name(instruction));
  if (found == measured.kernels.end()) return std::nullopt;
  return kernel_work(plan, instruction).bytes / found->second;
}

std::optional<MeasuredExchange> measured_exchange(const MeasuredExchanges& measured, Opcode opcode,
                                                  std::int64_t ranks) {
  const auto found = measured.find(to_string(opcode == Opcode::recv ? Opcode::send : opcode));
  if (found == measured.end() || found->second.empty()) return std::nullopt;
  const std::vector<MeasuredExchange>& table = found->second;
  const auto above =
      std::find_if(table.begin(), table.end(), [&](const MeasuredExchange& of) { return of.ranks >= ranks; });
  if (above == table.end()) {
    MeasuredExchange last = table.back();
    last.latency_s *= static_cast<double>(ranks) / static_cast<double>(last.ranks);
    last.ranks = ranks;
    return last;
  }
  if (above->ranks == ranks || above == table.begin()) return *above;
  const MeasuredExchange& below = *(above - 1);
  const double share =
      static_cast<double>(ranks - below.ranks) / static_cast<double>(above->ranks - below.ranks);
  const double per_byte = (1 - share) / below.bandwidth + share / above->bandwidth;
  return MeasuredExchange{ranks, (1 - share) * below.latency_s + share * above->latency_s, 1 / per_byte};
}

}  // namespace simrun
