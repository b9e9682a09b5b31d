#pragma once

#include <cstddef>
#include <vector>

#include "planner/candidate.h"

namespace simrun {

// Seconds by bytes, from prices at some sizes: straight lines in between, and the last one's rate beyond.
struct PriceCurve {
  std::vector<double> bytes, seconds;  // ascending; empty: it costs nothing
  double at(double size) const;
};

// What the data-parallel ranks of a stage exchange.
struct DataPrices {
  PriceCurve reduce_dense, reduce_expert;  // gradients
  PriceCurve gather_dense, gather_expert;  // updated or sharded weights
};

// What stages exchange, and what a step does behind its passes, for one split of the ranks: prices of the
// simulator for a plan of a few stages (or one) on the real number of data-parallel ranks.
struct StepPrices {
  // By pipeline rank, and of the boundaries behind them, of one sequence on all of a stage's context-parallel
  // ranks. Those further on are like them in the same order, as ranks lie on nodes alike.
  std::vector<DataPrices> ranks;
  std::vector<PriceCurve> sends;
  double sent_bytes = 0;                         // of one sequence
  PriceCurve tied;                               // gradients of tied word embeddings, over two pipeline ranks
  double reduced_bytes = 4, gathered_bytes = 2;  // per element
  double bucket = 0;                             // elements of one collective at most
  double update_s_per_element = 0;               // of the optimizer; elements it updates
  double host_step_s = 0;                        // of the framework, behind the passes

  // Of one microbatch, by boundary between a pipeline rank and the next.
  std::vector<double> sends_s(const Candidate& candidate) const;
  double tied_s(double elements) const;  // all at once: a table is one parameter
  double reduce_s(std::size_t pipeline_rank, double dense_elements, double expert_elements) const;
  double gather_s(std::size_t pipeline_rank, double dense_elements, double expert_elements) const;
};

// `job`: the candidate's, as the loader accepts it. Throws what compile() throws.
StepPrices step_prices(const Job& job, const Candidate& candidate);

}  // namespace simrun
