#pragma once

#include <vector>

#include "configs/model_config.h"
#include "models/decoder_dimensions.h"
#include "models/graph_builder.h"

namespace simrun {

// Megatron Core's name of the mixer among what is recomputed (mamba_layer.py of 2026).
constexpr const char* mamba_module = "mamba";

// REQUIRES: the model has Mamba layers (configs/mamba_config.h).
MambaDimensions mamba_dimensions(const MambaConfig& mamba, GraphBuilder& graph);

// The mixer of a Mamba-2 layer (Dao and Gu 2024, arXiv 2405.21060, section 7.1, figure 6), with Megatron
// Core's parameters (megatron/core/ssm/mamba_mixer.py), by groups of heads, which tensor-parallel ranks
// divide:
//   mamba_in    [hidden, groups, z | x | B | C | dt]
//   mamba_scan  convolution, scan and gate (Opcode::scan)
//   mamba_gate_norm  RMS norm over each group's channels
//   mamba_out   [groups, channels, hidden]
// Returns what the last product reads: the normed channels, then its weight.
std::vector<TensorId> add_mamba_channels(const ModelConfig& model, const DecoderDimensions& dims, TensorId y,
                                         GraphBuilder& graph);

}  // namespace simrun
