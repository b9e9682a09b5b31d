#pragma once

#include <string>

#include "schedules/chunk_code.h"

namespace simrun {

// What a converted value is called and counted as.
struct ConvertedAs {
  ValueKind kind = ValueKind::activation;
  std::string suffix;          // of the value's name, behind its tensor's
  std::string label_suffix;    // of the step's
  bool of_all_tokens = false;  // to or from an operator that gathers them: traffic of experts
};

// A step of an operator, forward, without its operands.
CodeStep operator_step(const Operator& op);

// Adds the value that a conversion makes of another, and returns the step that does: forward, of no layer and
// no region. The stream is that of the axes, or of the experts where the tensor holds their rows.
CodeStep conversion_step(const ChunkContext& context, ChunkCode& code, ValueId value,
                         const Conversion& conversion, const ConvertedAs& as);

// The step that hands a value that only the first rank along the axes has to the others, in its place.
CodeStep broadcast_step(const ChunkContext& context, const ChunkCode& code, ValueId value,
                        const BorderBroadcast& broadcast);

}  // namespace simrun
