#pragma once

#include <cstddef>
#include <cstdint>
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

  // Of all its stages: forward passes that are most ahead of their backward passes or, where those are split,
  // of their halves for weights.
  double passes(std::size_t rank) const;

  // Of those passes the ones that wait for their halves for weights alone while a backward pass runs. In
  // waves they are counted by bytes_of_wave().
  double put_off(std::size_t rank) const;

  // At most, where a microbatch has so many bytes on each stage.
  double bytes(std::size_t rank, const std::vector<double>& stage_bytes);

  // Likewise of waves and of DualPipe, whose two stages come back unequally late, in their passes and between
  // the halves.
  struct OfWave {
    double in_passes = 0, between_halves = 0;
  };
  OfWave bytes_of_wave(std::size_t rank, const std::vector<double>& stage_bytes,
                       const std::vector<double>& put_off_bytes) const;

 private:
  enum class Kind : std::uint8_t {
    whole,      // backward passes are not split: as many as ways back are longer
    ahead,      // likewise one more, which overlaps, if it takes no turns (interleaved_1f1b_overlap)
    all,        // every microbatch of the step
    even,       // as many on every rank (zb_h1)
    twice,      // likewise, twice as many (zb_h2)
    fills_up,   // as many on every rank as on the first (interleaved_zb)
    both_ways,  // of two pipelines in opposite directions (dualpipe): see bytes_of_dualpipe()
    zb_v,
    v_half,
    v_min,
    dualpipe_v
  };
  // Of V-Half and V-Min: microbatches on the two stages of a rank while it holds most, and of each those that
  // wait for their weight gradients beside them. Between passes so many of each stage wait for these instead.
  struct HeldOfWave {
    double first = 0, second = 0, put_off = 0, halved = 0;
  };
  static Kind kind_of(const Candidate& of);
  HeldOfWave most_of_wave(std::size_t rank) const;
  OfWave bytes_of_dualpipe(std::size_t rank, const std::vector<double>& stage_bytes,
                           const std::vector<double>& put_off_bytes) const;
  OfWave bytes_of_zb_v(std::size_t rank, const std::vector<double>& stage_bytes,
                       const std::vector<double>& put_off_bytes) const;
  double bytes_in_drain(std::size_t rank, const std::vector<double>& stage_bytes,
                        const std::vector<double>& put_off_bytes) const;

  double p_, v_, microbatches_;
  Kind kind_;
  bool takes_turns_;
  GroupedPasses forward_, backward_;  // of the last stages asked for; kept for their memory
};

}  // namespace simrun
