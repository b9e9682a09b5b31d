#pragma once

#include <optional>
#include <string>

#include "validation/measured_row.h"

namespace simrun {

// No count of a row is larger; every whole number up to it is a double.
constexpr double most_counted = 1e15;

// More layers than any published model has; what a row costs to simulate grows with them.
constexpr std::int64_t most_layers = 1000;

// "1,024" without its commas; any other text as it is.
std::string without_thousands(const std::string& text);

// The row as rules and jobs read it: cells that say that nothing is known are empty, sizes are plain whole
// numbers ("1,024", "1e3", "8.0"), words are those of validation/cell_words.h. Sets `fault`, unless the row
// has one, for the first cell that is no positive whole number, no known word, or more than most_layers.
MeasuredRow plain_cells(MeasuredRow row);

// What a cell of selective recompute names of Megatron-LM's --recompute-modules, as a list of YAML:
// "[moe_act, mlp]" of "selective (moe_act, mlp)"; "" where it names none.
std::string recomputed_modules_in(const std::string& cell);

// Without the token behind the last one, which is a label alone, where a length is one more than 1,024 or a
// larger power of two: 65,536 of 65,537. No value where the cell is any other.
std::optional<std::string> without_label_token(const std::string& seq_len);

// Why the row's data parallelism, tensor, pipeline and context sizes do not make up its GPUs; "" where they
// do or one is not a number.
std::string contradiction_of_sizes(const MeasuredRow& row);

// Layers that a cell of recompute says are computed again: so many of each virtual stage ("block 10 layers"),
// or a share of all ("1 of 4 layers", "every 2nd layer", "50% of layers").
struct RecomputedLayers {
  std::int64_t of_stage = 0;  // 0: none is said
  std::string share;          // "1/4"; empty: none is said
};
RecomputedLayers recomputed_layers_in(const std::string& cell);

// Virtual stages per pipeline rank that a schedule's cell names: "Interleaved 1F1B (v=4)", "2 chunks". 0:
// none.
std::int64_t chunks_in(const std::string& schedule);

}  // namespace simrun
