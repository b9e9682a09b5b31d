#pragma once

#include "validation/row_job.h"

namespace simrun {

// Layers and width of a dense decoder of which a row prints no more than its size ("GPT 10B"): as wide as the
// model of the nearest size among GPT-3's (Brown et al. 2020, arXiv 2005.14165, table 2.1), LLaMA's and,
// behind them, Megatron-LM's (Narayanan et al. 2021, arXiv 2104.04473, table 1), and as deep as makes as many
// parameters, in a multiple of the row's virtual stages. Only of rows with the fact `sized` and without a
// preset, whose names are of no other kind ("MoE", "VL", "-A3B"), where that is within 30 % of the size and
// divides into the heads that the row prints; each cell is noted in `assumed`.
void assume_dimensions(RowJob& made);

}  // namespace simrun
