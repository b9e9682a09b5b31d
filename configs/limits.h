#pragma once

#include "configs/numbers.h"

// The largest values that the loader accepts. They are far above any real job and low enough that nothing
// downstream overflows 64 bits or allocates absurdly; configs/job_rules.cpp checks the products.
namespace simrun::limits {

constexpr IntegerRange layers = {1, 10'000};
constexpr IntegerRange image = {1, 100'000};  // pixels of a side
constexpr IntegerRange images_of_sample = {1, 100'000};
constexpr IntegerRange width = {1, 10'000'000};  // hidden, feed-forward
constexpr IntegerRange heads = {1, 100'000};
constexpr IntegerRange experts = {1, 100'000};
constexpr IntegerRange vocabulary = {1, 100'000'000};
constexpr IntegerRange sequence = {1, 100'000'000};
constexpr IntegerRange batch = {1, 100'000'000};
constexpr IntegerRange tokens = {1, 1'000'000'000'000'000};  // of a whole training
constexpr IntegerRange parallel = {1, 10'000'000};
constexpr IntegerRange broadcast_chunks = {1, 64};
constexpr IntegerRange nodes = {1, 1'000'000};
constexpr IntegerRange gpus_per_node = {1, 1024};
constexpr IntegerRange nics_per_node = {1, 1024};
constexpr IntegerRange nvlinks = {1, 1000};  // between two GPUs
constexpr IntegerRange sockets = {1, 16};
constexpr IntegerRange spines = {1, 10'000};
constexpr IntegerRange cores = {1, 1'000'000};
constexpr IntegerRange planes = {1, 64};
constexpr IntegerRange streaming_multiprocessors = {1, 100'000};
constexpr IntegerRange activations = {1, 1'000'000'000};
constexpr IntegerRange bucket = {1, 1'000'000'000'000};

constexpr std::int64_t world = 10'000'000;
constexpr std::int64_t gpus_without_switch = 64;    // per node: the ways between all pairs are tabulated
constexpr std::int64_t torus_hops = 200;            // of one route
constexpr std::int64_t leaf_links = 1'000'000'000;  // leaves x spines x directions: links have 32-bit numbers
constexpr std::int64_t microbatches = 1'000'000;
constexpr std::int64_t passes = 2'000'000;  // microbatches x pipeline stages
constexpr double countable = 0x1p60;        // bytes or FLOPs of anything counted in 64 bits
constexpr double elements = 0x1p50;         // of one tensor, or of the parameters of a stage in one buffer

constexpr RealRange share = {0.01, 1};         // an efficiency
constexpr RealRange probability = {0, 0.999};  // a dropout
constexpr RealRange offloaded = {0.01, 1};     // a share of the optimizer's state
constexpr RealRange learning_rate = {0, 1e3};
constexpr RealRange decay_rate = {0, 0.999'999};  // of a running mean
constexpr RealRange weight_decay = {0, 10};
constexpr RealRange norm = {0, 1e9};
// Of one kernel: small ones are far below what a device can do.
constexpr RealRange measured_flops = {1e3, 1e18};
constexpr RealRange measured_bandwidth = {1e3, 1e16};
constexpr RealRange memory = {0x1p20, 0x1p50};
constexpr RealRange reserve = {0, 0x1p50};
constexpr RealRange bucket_bytes = {1024, 0x1p50};
constexpr RealRange cache = {1024, 0x1p40};
constexpr RealRange bandwidth = {1e6, 1e16};
constexpr RealRange optional_bandwidth = {0, 1e16};
constexpr RealRange latency = {0, 1};
constexpr RealRange oversubscription = {1, 1000};
constexpr RealRange soft_cap = {0, 1e9};
constexpr RealRange clip = {1e-9, 1e9};
constexpr RealRange temperature = {0, 1e3};
constexpr RealRange epsilon = {0, 1};
constexpr RealRange rope_base = {1, 1e12};
constexpr RealRange score_factor = {1e-9, 1e9};
constexpr RealRange alibi_bias = {1e-3, 1e3};
constexpr RealRange capacity_factor = {0.01, 1000};
constexpr RealRange imbalance = {1, 100'000};
constexpr RealRange router_weight = {0, 1e9};
constexpr RealRange zipf = {0, 10};
constexpr RealRange flops = {1e9, 1e18};
constexpr RealRange optional_flops = {0, 1e18};
constexpr RealRange lora_alpha = {1e-9, 1e9};

}  // namespace simrun::limits
