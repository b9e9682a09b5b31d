#pragma once

#include "configs/job.h"
#include "models/graph.h"
#include "schedules/job_schedule.h"
#include "schedules/plan.h"

namespace simrun {

// Compiles a job: graph -> layouts -> stages -> schedule -> Plan. Pure; O(stages x (operators + microbatches
// x virtual stages)). REQUIRES: a job that the loader accepted. Throws what job_schedule() throws,
// ConfigError with the faults of the layout section (schedules/layout_rules.h) and of frozen scopes
// (models/trained_parameters.h), and std::invalid_argument
// where the strategy's own layout does not divide, and where ZeRO-2 or 3 would exchange shards with
// another copy of a stage or gather embeddings that two stages of a rank share.
//
// `facts`: for the order of schedules that use times (sim/plan_job.h simulates them); without, those plan
// with FLOP counts for times, and `auto` with equal ones.
Plan compile(const Job& job, const PassFacts& facts = {});

}  // namespace simrun
