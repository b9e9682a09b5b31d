#pragma once

#include "configs/job.h"
#include "models/graph.h"

namespace simrun {

// Decides what of a model's graph is trained. Parameters are frozen that an operator in a scope of
// `model.frozen` reads (tied word embeddings if either of their readers does); with `training.lora` adapters
// are added and all parameters but theirs are frozen. From there freezing spreads: data, and what is computed
// from nothing but frozen tensors and data, has no gradient either, so that the backward pass stops where
// nothing that is trained lies before.
//
// Throws ConfigError with every scope that holds no operator or no parameter, where it stands; and
// std::invalid_argument, beginning with the key's path, if nothing is left to train.
void select_trained(Graph& graph, const Job& job);

}  // namespace simrun
