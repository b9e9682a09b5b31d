#include "schedules/placement.h"

namespace simrun {

int rank_of(Placement placement, int ranks, int stage, Direction direction) {
  const int position = stage % ranks;
  const bool turned = placement == Placement::wave            ? stage / ranks % 2 == 1
                      : placement == Placement::bidirectional ? direction == Direction::up
                                                              : false;
  return turned ? ranks - 1 - position : position;
}

int stage_of(Placement placement, int ranks, int rank, int chunk) {
  const int turned = ranks - 1 - rank;
  if (placement == Placement::bidirectional) return chunk == 0 ? rank : turned;
  return chunk * ranks + (placement == Placement::wave && chunk % 2 == 1 ? turned : rank);
}

int stage_count(Placement placement, int ranks, int virtual_stages) {
  return placement == Placement::bidirectional ? ranks : ranks * virtual_stages;
}

}  // namespace simrun
