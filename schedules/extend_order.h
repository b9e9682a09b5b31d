#pragma once

#include "schedules/search_model.h"

namespace simrun {

// What all ranks start between two times at which they are equally far along but for `microbatches` in every
// lane and kind. Copies of it need no more memory, and the order of the starts, copy behind copy, is one in
// which no rank waits for ever.
struct Middle {
  std::vector<std::size_t> first, last;  // by rank: [first, last) of its list
  int microbatches = 0;                  // 0: there is none
  std::int64_t time = 0;                 // between the two
};
// The first middle in the second half of the order whose length divides `extra` microbatches.
Middle find_middle(const SearchModel& model, const PassOrder& order, int extra);

// The order with so many copies of its middle more.
PassOrder repeat_middle(const PassOrder& order, const Middle& middle, int copies);

// Microbatches that show the steady state of a model with so many ranks, of the same remainder modulo 12
// (which most lengths of a middle divide) as all of them; all of them if that is not fewer.
int representative_microbatches(int ranks, int microbatches);

}  // namespace simrun
