#include "schedules/zb_h1.h"

#include "schedules/interleaved_zb.h"

namespace simrun {

Schedule zb_h1(int ranks, int microbatches) {
  return interleaved_zb({.ranks = ranks, .virtual_stages = 1, .microbatches = microbatches});
}

}  // namespace simrun
