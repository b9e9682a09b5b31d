#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace simrun {

// Opcode and function of the kernels of decoder-only transformers (sim/measured_cost.h).
inline constexpr std::array measured_kernel_names{"input",
                                                  "gather",
                                                  "scatter",
                                                  "map_add",
                                                  "map_sum_gradients",
                                                  "map_gelu",
                                                  "map_gelu_backward",
                                                  "map_swiglu",
                                                  "map_swiglu_backward",
                                                  "map_rope",
                                                  "map_rope_backward",
                                                  "map_log_loss",
                                                  "map_cast",
                                                  "norm_layer_norm",
                                                  "norm_rms_norm",
                                                  "norm_backward_layer_norm",
                                                  "norm_backward_rms_norm",
                                                  "reduce_sum",
                                                  "reduce_max",
                                                  "reduce_sum_squares",
                                                  "cross_entropy",
                                                  "cross_entropy_backward",
                                                  "optimizer_adam"};

// Rates that `simrun --calibrate` measured on a device, in place of what a model of kernels would say. Every
// rate counts FLOPs and bytes as the simulator does (sim/kernel_cost.h). Empty: nothing was measured.
struct MeasuredKernels {
  // Of a product of [m, k] and [k, n]: mean over the three that a layer's training makes of it.
  struct Product {
    std::int64_t m = 0, n = 0, k = 0;
    double flops = 0;  // per second
    bool operator==(const Product&) const = default;
  };
  // Flash attention under a causal mask over sequences of `sequence` tokens.
  struct Attention {
    std::int64_t sequence = 0, head_dim = 0;
    double flops = 0;  // per second
    bool operator==(const Attention&) const = default;
  };
  std::vector<Product> products;                         // ascending
  std::vector<Attention> attention, attention_backward;  // ascending
  std::map<std::string, double> kernels;  // bytes/s by name, one of those below; others: the memory's
  bool empty() const { return products.empty() && attention.empty() && kernels.empty(); }
  bool operator==(const MeasuredKernels&) const = default;
};

// A collective, or a transfer to the next rank, over so many ranks of one node: latency + bytes / bandwidth,
// of the bytes that the simulator counts (sim/collective_cost.h).
struct MeasuredExchange {
  std::int64_t ranks = 0;
  double latency_s = 0;
  double bandwidth = 0;  // bytes/s
  bool operator==(const MeasuredExchange&) const = default;
};
// By name: all_reduce, all_gather, reduce_scatter, all_to_all, send; ascending in ranks.
using MeasuredExchanges = std::map<std::string, std::vector<MeasuredExchange>>;

}  // namespace simrun
