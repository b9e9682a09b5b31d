#pragma once

#include "configs/config_node.h"
#include "planner/candidate.h"

namespace simrun {

// The tree of a job's file with the candidate's keys in place of its own, and without the keys that belong to
// another split (a written pipeline layout, group size, data-parallel size ...). Loading it gives the job
// that is simulated; as YAML (configs/job_yaml.h) it is the file that a user gets.
ConfigNode with_candidate(ConfigNode root, const Job& job, const Candidate& candidate);

}  // namespace simrun
