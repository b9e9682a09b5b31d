#pragma once

#include <map>
#include <string>

#include "configs/job.h"
#include "schedules/summary.h"

namespace simrun {

// FLOPs of one step as a source counts them, by the fact `flops` (configs/validation/flops.yaml). B sequences
// of s tokens, L layers of width h, V tokens, N parameters:
//
//   hardware_96      96 B s L h^2 (1 + s/6h + V/16Lh)     Narayanan et al. 2021, equation 3
//   model_72         72 B s L h^2 (1 + s/6h + V/12Lh)     Korthikanti et al. 2022, appendix A
//   hardware_72      72 B s L h^2 (1 + s/3h + V/12Lh)     the same with the scores recomputed
//   6n               (6 N + 12 L h s) B s
//   6n_both          the same, a tied embedding counted twice
//   6n_no_embedding  the same without the input embedding
//   layers_8n        8 N B s, N of the layers only
//   alpa_96, _72     96 (72) B s L h^2 (1 + s/6h) + 6 B s h V
//   alpa_moe_4, _3   4 (3) B s L/2 (112 h^2 + 8 s h + 2 h E + 4 S + 8 h S) + 6 B s h V, E experts, masks
//                    of S tokens
//   6nd, 8nd         6 (8) N B s, N of what a token passes; of a model with experts without its embedding
//   hardware         what the job computes, with what it recomputes
//   model_4_3        the model's FLOPs and a second forward pass
//   causal           the model's FLOPs with half the scores
//   causal_whole_no_gates  the same with no layer's window, and two matrices for each of the gated experts
//
// Otherwise the model's FLOPs.
double claimed_flops(const std::map<std::string, std::string>& facts, const Job& job, const Summary& summary);

// "6nd" or "8nd" where the words have that formula as "6ND", "6*N*D", "6 N D" or "6N", not as a part of a
// longer one ("6N + 12Lhs"); else "".
std::string flops_formula_in(const std::string& words);

// FLOP/s of one GPU that an MFU is a share of: the fact `peak` in TFLOP/s or a precision, else the GPU's peak
// for the job's precision.
double claimed_peak(const std::map<std::string, std::string>& facts, const Job& job);

}  // namespace simrun
