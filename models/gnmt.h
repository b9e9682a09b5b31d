#pragma once

#include "configs/job.h"
#include "models/graph.h"

namespace simrun {

// The forward graph of GNMT (Wu et al. 2016, arXiv 1609.08144, section 3) as NVIDIA's DeepLearningExamples
// build it: LSTM layers, the encoder's first in both directions, residual additions from each stack's third
// layer on; the decoder's first layer queries the encoder's output, and what attention returns is joined to
// the input of every layer above. Layers 0 to E - 1 are the encoder's, then the decoder's.
//
// Each LSTM is one matrix product over all positions for the input's share of the gates, then the recurrence
// itself (Opcode::lstm). One bias per gate (cuDNN keeps two). Attention scores are dot products of projected
// queries and keys (Luong et al. 2015), where GNMT adds them under a tanh: the same projections, without the
// vector that the tanh is multiplied by.
//
// Dimensions: batch, sequence (of source, of target), hidden, cell and gates (4), both (directions), vocab.
Graph gnmt_graph(const Job& job);

}  // namespace simrun
