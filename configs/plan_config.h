#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace simrun {

// What the planner makes least of: the step's time, the fullest GPU's bytes, or GPU-hours (the same as the
// time on a cluster of given size).
enum class PlanObjective : std::uint8_t { step_time, memory, cost };

// The plan section of a job: the limits of a search for the best way to split it (simrun --plan). A
// simulation of the job as written takes no notice of it.
struct PlanConfig {
  // By key of the parallelism, training, optimizer or recompute section: the values that may be tried.
  std::map<std::string, std::vector<std::int64_t>> fixed_numbers;
  std::vector<std::string> schedules;   // that may be tried; empty: those of Megatron-LM and zero bubble
  std::vector<std::string> recomputes;  // none, selective, full; empty: all
  std::int64_t max_memory = 0;          // bytes of a GPU, at most what it has; 0: what it has
  PlanObjective minimise = PlanObjective::step_time;
  std::int64_t best = 10;         // candidates that are simulated with contention and printed
  std::int64_t evaluations = 32;  // at least so many candidates are compiled and simulated
  // Of overlap_grad_reduce and overlap_param_gather none is written false, nor are both written: what is not
  // may be tried.
  bool overlap_is_open = false;
  // Of cp_comm_type nothing is written: with context parallelism all of its words may be tried.
  bool exchange_is_open = false;
  // Nothing is written of these: of where ranks lie (rank_order, rank_map), of how much is reduced at once
  // (bucket_size, bucket_bytes), and of how long ZeRO-3's gathered weights stay (reshard_after_forward and
  // _backward). On the best splits others may be tried.
  bool rank_order_is_open = false, bucket_is_open = false, reshard_is_open = false;
  double price_per_gpu_hour = 0;  // in any currency; 0: not said
  double watts_per_gpu = 0;       // at the wall; 0: not said
  bool operator==(const PlanConfig&) const = default;
};

// Keys of `plan.fix` that take whole numbers.
const std::vector<std::string>& fixable_numbers();

}  // namespace simrun
