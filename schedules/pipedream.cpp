#include "schedules/pipedream.h"

#include "schedules/one_f_one_b.h"

namespace simrun {

Schedule pipedream(int ranks, int microbatches) { return one_f_one_b(ranks, microbatches); }

int pipedream_weight_versions(int ranks, int rank) { return ranks - rank; }

}  // namespace simrun
