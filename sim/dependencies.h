#pragma once

#include <vector>

#include "sim/compiled_program.h"

namespace simrun {

// One instruction's read or write of a slot (SlotReference, compiled_program.h). In the order of segments,
// then instructions.
struct SlotAccess {
  Index segment = 0;  // index into the list that find_dependencies got
  Index instruction = 0;
  SlotReference reference;
};
struct Dependencies {
  std::vector<SlotAccess> reads, writes;
  Index slots = 0;
};

struct DependencyBounds {
  Index bindings = 1;   // most of any entry
  Index instances = 1;  // (slice, microbatch) numbers
};

// The waits between the streams of one rank that can ever take time: an instruction that reads, adds to or
// names in waits_for a buffer waits for all its writers on other streams than its own and the compute
// stream's; the compute stream's need no check, because every other stream waits for all compute issued
// before.
//
// Writing a buffer writes its views, and writing a view writes a part of its parents. A check is left out
// where compute has waited for the same write before, since everything issued later follows that compute.
Dependencies find_dependencies(const Plan& plan, const std::vector<Index>& segments,
                               const DependencyBounds& bounds);

}  // namespace simrun
