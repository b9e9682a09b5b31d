#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "configs/job.h"
#include "planner/choice_graph.h"
#include "planner/collective_prices.h"
#include "planner/operator_strategies.h"
#include "planner/sub_mesh.h"

namespace simrun {

struct StageShape {
  LogicalMesh mesh;
  std::int64_t sequences = 1;     // of one microbatch, over the whole stage
  std::int64_t microbatches = 1;  // per step
  std::int64_t stages = 1;        // of the pipeline; where it is one, parameters with two readers count once
  // What data-parallel ranks exchange costs nothing: whole passes hide what single operators do not.
  bool hides_data_parallel = false;
};

// What one stage's operators may do and what that costs: Alpa's intra-operator problem (Zheng et al. 2022,
// section 4) with one node per forward operator, whose backward pass follows its layout, as compile() has it.
//
// Where Alpa has bytes x beta and no computing, here are the simulator's own prices: kernels of the local
// shapes, forward, backward and repeated by recompute; conversions between producer and consumer, both
// passes; gathers that the backward pass repeats as far as its input gradient does not hide them; sums of
// gradients and updates, once per step, over the microbatches. Left out, and found by simulating the result:
// what else overlaps, collectives of several operators that are one, links shared with other stages.
struct StageGraph {
  Graph graph;
  DeviceMesh mesh;
  std::vector<std::string> axes;                         // of the logical mesh with more than one rank
  std::vector<SharedList<OperatorStrategy>> strategies;  // by operator
  std::vector<SharedList<double>> seconds;               // by operator and strategy, per microbatch
  std::vector<SharedList<double>> static_bytes;          // weights, gradients, optimizer state
  std::vector<SharedList<double>> activation_bytes;      // kept for backward, of one microbatch
  std::vector<SharedList<double>> exchange_seconds;      // of data-parallel ranks, hidden or not
  std::vector<ChoiceEdge> edges;                         // between operators: seconds per microbatch
  std::vector<std::int32_t>
      segment;  // by operator: 0 before the layers, then layer by layer, last behind them
  std::int32_t segments() const { return segment.empty() ? 0 : segment.back() + 1; }
};

// The job as if the stage were all of it: layers, batch and mesh as the stage has them, one pipeline rank.
Job stage_job(const Job& job, const StageShape& shape);

// Of the whole model; parts of it are cut out by choices_of(). Identical operators are priced once. Throws
// std::invalid_argument where the ranks that share sequences (tensor_ranks) cannot share the model.
StageGraph stage_graph(const Job& job, const StageShape& shape, CollectivePrices& collectives);
StageGraph stage_graph(const Job& job, const StageShape& shape);

// Segments [first, last) with so many microbatches in flight. What the first of them reads from before it
// arrives split over all devices; a strategy that wants it otherwise pays for the conversion.
struct StageRange {
  std::int32_t first = 0, last = 0;
  std::int64_t in_flight = 1;
};
struct StageChoices {
  ChoiceGraph choices;
  std::vector<std::size_t> operators;  // by node
};
StageChoices choices_of(const StageGraph& stage, const StageRange& range);

}  // namespace simrun
