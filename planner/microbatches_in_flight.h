#pragma once

#include <cstddef>
#include <vector>

#include "planner/candidate.h"

namespace simrun {

// What a pipeline rank's virtual stages hold of microbatches between their forward and backward passes.
class MicrobatchesInFlight {
 public:
  MicrobatchesInFlight(const Candidate& of, double microbatches);

  // Forward passes of all its stages that are most ahead of their backward passes.
  double passes(std::size_t rank) const;

  // At most, where a microbatch has so many bytes on each stage.
  double bytes(std::size_t rank, const std::vector<double>& stage_bytes) const;

  // Likewise of ZB-V, whose two stages come back unequally late, in its passes and between their halves.
  struct OfWave {
    double in_passes = 0, between_halves = 0;
  };
  OfWave bytes_of_wave(std::size_t rank, const std::vector<double>& stage_bytes,
                       const std::vector<double>& put_off_bytes) const;

 private:
  double bytes_in_drain(std::size_t rank, const std::vector<double>& stage_bytes,
                        const std::vector<double>& put_off_bytes) const;

  double p_, v_, microbatches_;
  bool holds_all_, is_even_, is_wave_, fills_up_;
};

}  // namespace simrun
