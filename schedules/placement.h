#pragma once

#include "schedules/op.h"

namespace simrun {

// Which pipeline rank holds a stage, of p ranks with v virtual stages each.
//
//   loop           stage s on rank s % p
//   wave           there and back: stages 0..p-1 on ranks 0..p-1, p..2p-1 on ranks p-1..0, and so on (v = 2:
//                  "V")
//   bidirectional  two pipelines of p stages: stage s of `down` on rank s, of `up` on rank p-1-s; every
//                  stage's weights live on both
enum class Placement : std::uint8_t { loop, wave, bidirectional };

int rank_of(Placement placement, int ranks, int stage, Direction direction = Direction::down);

// The stage that is a rank's chunk-th, counted from 0; bidirectional: chunk 0 of `down`, chunk 1 of `up`.
int stage_of(Placement placement, int ranks, int rank, int chunk);

// Stages of the model: ranks x virtual_stages, or ranks if bidirectional.
int stage_count(Placement placement, int ranks, int virtual_stages);

}  // namespace simrun
