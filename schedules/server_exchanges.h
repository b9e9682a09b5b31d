#pragma once

#include <vector>

#include "schedules/step_segments.h"

namespace simrun {

// PUSH of a bucket's gradients, as a worker runs it; empty where another entry of the step does (delay 2).
std::vector<Instruction> push_gradients(const StepContext& context, const ChunkEmission& emission,
                                        std::size_t bucket, CommunicationTable& table);
// Of all buckets, what a worker exchanges in front of its first pass, for a step that is not the first.
std::vector<Instruction> exchanges_at_start(const StepContext& context, const ChunkEmission& emission,
                                            CommunicationTable& table);
// Of a worker, behind its last PUSH (and, of colocated servers, the norm, if there is one): per bucket the
// update of the part that it serves and the PULL, where that is not at the start of a step; with a delay, the
// pulled weights to where the next step reads them and the gradients to where it pushes them from.
std::vector<Instruction> finish_with_servers(const StepContext& context, Plan& plan,
                                             const ChunkEmission& emission, Index norm,
                                             CommunicationTable& table);

// Dedicated servers: their ends of the PUSHes of a worker's segment, and of its PULLs if those are at the
// start of a step.
std::vector<Instruction> server_ends(const StepContext& context, const ChunkEmission& emission,
                                     const std::vector<Instruction>& worker, bool at_start);
// Dedicated servers, behind all PUSHes: the norm over all servers, updates, and PULLs.
std::vector<Instruction> server_updates(const StepContext& context, Plan& plan, const ChunkEmission& emission,
                                        CommunicationTable& table);

}  // namespace simrun
