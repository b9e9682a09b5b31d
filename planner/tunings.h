#pragma once

#include <string>
#include <vector>

#include "planner/candidate.h"

namespace simrun {

// The candidate with one thing more or otherwise tuned of what the job leaves open: two neighbouring axes of
// its rank order changed about, buckets of gradients a quarter, half, twice or four times as large, ZeRO-3's
// gathered weights kept for more or less of the step. In order. What is laid out by a map of ranks, and the
// job as written, has none.
std::vector<Candidate> tunings_of(const Job& job, const PlanConfig& limits, const Candidate& of);

// What of it means something under that ZeRO stage.
SplitTuning tuning_under(int zero_stage, SplitTuning of);

// What a job says of the sharding of another ZeRO stage than the candidate's is taken back, and the
// candidate's own tuning is set.
void apply_tuning(Job& job, const Candidate& candidate);

// "" for what is as the job has it, else ", rank_order tp-cp-ep-pp-dp, bucket_size 10000000".
std::string describe(const SplitTuning& tuning);

}  // namespace simrun
