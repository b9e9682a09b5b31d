#pragma once

#include <vector>

#include "configs/job.h"
#include "schedules/plan.h"

namespace simrun {

// A parameter server in place of the all-reduce (Li et al. 2014, OSDI; Jiang et al. 2020, BytePS, OSDI).
// Every bucket of parameters is cut into as many equal parts as there are servers, so that each serves
// 1/servers of the bytes; only servers have the optimizer's state of their part. Per bucket a step does
//
//   PUSH    every worker's gradients to the servers, which add them up, once the last backward pass wrote
//   them update  by each server of its part, when all workers' have come PULL    the new weights to every
//   worker
//
// A plan is one step that repeats, so what a step leaves to the next ones is a delay: the steps whose updates
// its weights lack. Less waits with every step of delay:
//
//   delay 0  PUSH behind the backward pass, update, PULL before the next step's forward pass (or in front of
//            it, beside the first layers', with overlap_param_gather). mode: synchronous
//   delay 1  PULL beside a whole step's passes, into a second copy of the weights that is copied over the
//            first behind the last pass
//   delay 2  PUSH beside a whole step's passes too, from a second copy of the gradients that is made behind
//            the last pass of the step before
//
// A PULL hands out the weights as they were when it started, whatever update comes while it is on its way.
//
// bounded_staleness allows `staleness` steps; with equal steps nothing is left to wait for beyond two, and
// what the workers' unequal work makes a fast one wait for is the slowest's step, whatever the bound.
// asynchronous is delay 2 in which nobody waits for anybody else: PUSH and PULL are one-sided, and a server
// updates its part once for each worker's gradients.
struct ServerRules {
  std::int64_t count = 0;  // 0: no parameter server
  bool dedicated = false;
  bool one_sided = false;
  int delay = 0;
  bool any() const { return count > 0; }
};
ServerRules server_rules(const Job& job);

// Places of `count` colocated servers among n members of a group: spread evenly, the j-th at j n / count.
// Dedicated ones are the last.
std::vector<std::int64_t> server_places(const ServerRules& rules, std::int64_t members);

struct ParameterBucket;
struct BucketRules;

// Buffers of a bucket beyond its weights and gradients: the servers' parts as views of those where they can
// be, and the copies that a delay needs.
void add_served_parts(Plan& plan, ParameterBucket& bucket, const std::string& name, const BucketRules& rules);
// Behind all buffers: with fewer colocated servers than ranks the others have nothing of a part.
void leave_parts_to_servers(Plan& plan, const ParameterBucket& bucket, const BucketRules& rules);

}  // namespace simrun
