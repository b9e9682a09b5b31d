#pragma once

#include <optional>
#include <string_view>

#include "validation/measured_row.h"

namespace simrun {

// Parameters that a model's name says: 13e9 of "Skywork-13B", 561e6 of "nanochat d20 561M". Nothing where it
// says none, or a number of models ("8x7B").
std::optional<double> parameters_named(std::string_view name);

// Whether a decoder of the row's dimensions has as many parameters as its name says (within 7 %) with gated
// MLPs, of three matrices, and not (by 15 %) with MLPs of two.
bool is_gated_by_size(const MeasuredRow& row);
// Likewise with MLPs of two matrices and not of three.
bool is_ungated_by_size(const MeasuredRow& row);

// Whether the MLPs are 2.5 to 3 hidden sizes wide: 8/3 of it, rounded up, is how gated MLPs have as many
// parameters as two matrices of four (Shazeer 2020, arXiv 2002.05202, section 3).
bool has_width_of_gates(const MeasuredRow& row);

}  // namespace simrun
