#pragma once

#include <string>

#include "configs/load_job.h"

namespace simrun {

// What becomes of written sizes that do not load.
enum class WrittenSizes { stay, give_way };

// A search is given a model, a cluster and a global batch; the loader wants a whole job. This adds to the
// overrides what the file leaves open of the split, so that it loads: microbatches of one sequence, ZeRO-1
// where parameter gathers that overlap need a sharded optimizer, and the first context-, pipeline- and
// tensor-parallel sizes with which the batch divides, powers of two before others. What the file or an
// override says stays; where none loads so and written sizes give way, as they do to a search that takes them
// for no limit, the microbatch and those three are replaced as well. If none loads even then, those with the
// fewest problems beside what is written, so that the loader's errors are about that. A file that cannot be
// read, or is a Plan, leaves the options as they are.
LoadOptions with_starting_split(const std::string& path, const LoadOptions& load, WrittenSizes written);

// The same from text; `file` names it.
LoadOptions with_starting_split(const std::string& text, const std::string& file, const LoadOptions& load,
                                WrittenSizes written);

}  // namespace simrun
