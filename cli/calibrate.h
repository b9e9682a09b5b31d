#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/execute.h"
#include "backend/measured_timeline.h"
#include "cli/options.h"

namespace simrun {

// What was measured of a machine, each number with its spread over repetitions.
struct Calibration {
  struct Rate {
    std::string name;   // as the key of configs/load_measured.cpp: "512x512x64", "map_gelu"
    Spread per_second;  // FLOP or bytes
  };
  struct Exchange {
    std::string name;  // "all_reduce"
    std::int64_t ranks = 0;
    Spread latency_s;  // of the smallest message
    Spread bandwidth;  // bytes/s of the largest, without that latency
  };
  std::string dtype;  // of the numbers: f32, f64
  int cores = 1;
  std::int64_t memory_bytes = 0, cache_bytes = 0;
  Spread overhead_s;  // of an instruction
  std::vector<Rate> products, attention, attention_backward, kernels;
  std::vector<Exchange> exchanges;
};

// Half a minute or more of work on this machine.
Calibration measure_machine(ExecutionDevice device, const std::string& dtype);

// A cluster that `cluster: {from: FILE}` reads: a device per core. Medians are values; p10, p90 and
// repetitions are comments.
std::string calibration_yaml(const Calibration& calibration);

// simrun --calibrate: prints the YAML, or writes it to the file that -o names.
int calibrate(const Options& options);

}  // namespace simrun
