#pragma once

#include <cstdint>
#include <vector>

#include "validation/row_job.h"

namespace simrun {

// Decoder layers of each stage as nanotron assigns them (models/base.py, build_model): blocks go to a stage
// until the costs so far exceed its even share of all, so that the first stages have more. A layer costs
// 4 h^2 + 3 f h, the head V h (models/llama.py, get_block_compute_costs); `head_cost` is in layers. A stage
// between that would be left without a layer has one from the stages before.
std::vector<std::int64_t> layers_by_cost(std::int64_t layers, std::int64_t stages, double head_cost);

// As Aleph Alpha's scaling does (pipe_partition_uniform): embedding, layers, last norm and head are modules,
// of which stages have equally many, the first ones one more.
std::vector<std::int64_t> layers_by_module(std::int64_t layers, std::int64_t stages);

// Attention and MLP as layers of their own ("*-*-", Megatron-LM's hybrid models) on at least as many stages
// as layers, so that the largest stage is as small as it can be: Alpa's stages are of operators. An attention
// costs 4 h^2 + 2 s h, an MLP 2 h f, the tables before the first and behind the last one V h each: memory,
// and of the head time. REQUIRES: layers <= stages <= 2 layers.
struct Sublayers {
  double attention = 0, mlp = 0, table = 0;
};
std::vector<std::int64_t> sublayers_by_cost(std::int64_t layers, std::int64_t stages, const Sublayers& costs);

// First and last stage as Megatron-LM's --decoder-first-pipeline-num-layers and -last- say (0: not said);
// the others share the rest evenly. Empty where that does not divide.
std::vector<std::int64_t> layers_between(std::int64_t layers, std::int64_t stages, std::int64_t first,
                                         std::int64_t last);

// What the facts `stages`, `first_stage_layers` and `last_stage_layers` of a row say; empty: nothing.
std::vector<std::int64_t> named_stage_layers(const RowJob& made, std::int64_t layers, std::int64_t stages);

}  // namespace simrun
