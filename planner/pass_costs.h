#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "planner/candidate.h"

namespace simrun {

// What a part of a model costs one GPU of its stage: a layer, or what lies before the first and behind the
// last one. Seconds of compute per microbatch, with the collectives that it waits for.
struct PartCost {
  double forward_s = 0, backward_s = 0;  // backward with recompute
  // Of a backward pass that is split, its halves: no weight gradients run beside what waits for collectives.
  double input_s = 0, weight_s = 0;
  double held_bytes = 0;  // from a microbatch's forward pass to its backward pass
  // At most live in its own passes, above what the parts in front of it hold: what it holds and what lives
  // within a pass.
  double pass_peak_bytes = 0;
  double layer_peak_bytes = 0;  // likewise while a layer is at work, not the embedding or the loss
  double put_off_bytes = 0;     // held between the two halves of a backward pass, for weight gradients
  double dense_elements = 0;    // of parameters that are trained
  double expert_elements = 0;   // likewise, split over expert-parallel ranks
  double frozen_elements = 0, frozen_expert_elements = 0;  // likewise of parameters that are not trained
  // Of weights' copies in fp8: of those that are trained and of frozen ones, and seconds to cast them.
  double copy_bytes = 0, frozen_copy_bytes = 0, cast_s = 0;
};

// Costs of the passes of a candidate, whatever its pipeline, data-parallel size and ZeRO stage are.
struct PassCosts {
  std::vector<PartCost> kinds;       // of layers
  std::vector<std::size_t> kind_of;  // by layer
  PartCost embedding, loss;
  // That embedding and loss both count, and a stage with both has once.
  double tied_elements = 0, tied_frozen_elements = 0;
  double first_transient = 0, last_transient = 0;  // bytes, within a pass, above those before and behind it
  // Per element, unsharded; the last two of what is trained.
  double weight_bytes = 0, gradient_bytes = 0, state_bytes = 0;
  double room_bytes = 0;  // of a GPU, for all of the above
};

// Whether layers of the job can be told by kind, so that a model of few layers stands for it: decoders, BERT
// and ViT, also with adapters or frozen weights in every layer alike.
bool has_layer_kinds(const Job& job);

class PassProbe;

// Costs of candidates that split the ranks of a stage alike, but for data parallelism: they share the prices
// of exchanges.
class PassProbes {
 public:
  PassProbes();
  ~PassProbes();
  PassProbes(PassProbes&&) noexcept;
  PassProbes& operator=(PassProbes&&) = delete;

  // Compiles a job of two stages with a few layers of each kind, and prices it. REQUIRES:
  // has_layer_kinds(job). Throws what compile() throws: the sizes do not divide.
  PassCosts costs(const Job& job, const Candidate& candidate);

 private:
  std::unique_ptr<PassProbe> first_;
};

// Of microbatches of another size than two, on the line through both: so many times as far beyond the larger
// one as the two are apart; below 0 between them.
PassCosts pass_costs_on_line(const PassCosts& smaller, const PassCosts& larger, double times_apart);

// The job of the probe: `candidate` with layers of each kind on the first of its pipeline ranks, and of its
// data-parallel ranks as few as its experts and whole nodes need (`data` 0) or just so many.
Job probe_job(const Job& job, Candidate candidate, std::int64_t data);

}  // namespace simrun
