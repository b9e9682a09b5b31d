#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "planner/candidate.h"

namespace simrun {

// Bytes of the first passes of a rank with virtual stages: they take microbatches in groups as large as the
// pipeline, one stage after the other.
class GroupedPasses {
 public:
  // stage_bytes: of one microbatch, in the order of the passes or against it.
  void set(double group, std::span<const double> stage_bytes, bool is_reversed);
  double of_first(double passes) const;

 private:
  double group_ = 1;
  std::vector<double> bytes_, before_;  // before_: of a group's passes on the stages in front
};

// What a pipeline rank's virtual stages hold of microbatches between their forward and backward passes.
class MicrobatchesInFlight {
 public:
  MicrobatchesInFlight(const Candidate& of, double microbatches);

  // Forward passes of all its stages that are most ahead of their backward passes.
  double passes(std::size_t rank) const;

  // At most, where a microbatch has so many bytes on each stage.
  double bytes(std::size_t rank, const std::vector<double>& stage_bytes);

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
  GroupedPasses forward_, backward_;  // of the last stages asked for; kept for their memory
};

}  // namespace simrun
