#pragma once

#include <map>
#include <string>
#include <vector>

#include "schedules/chunk_code.h"
#include "schedules/parameter_buckets.h"
#include "schedules/plan.h"

namespace simrun {

// Puts Communications into a plan, equal ones once.
class CommunicationTable {
 public:
  explicit CommunicationTable(Plan& plan) : plan_(plan) {}
  Index add(const Communication& communication);

 private:
  Plan& plan_;
  std::map<std::string, Index> known_;
};

// One chunk on its way into the plan.
struct ChunkEmission {
  Index chunk = 0;   // Plan::chunks
  std::string name;  // "stage 3"
  std::vector<ParameterBucket> buckets;
  std::vector<Index> buffer_of;  // Plan buffer of every value
};

// Declares the chunk's buffers: buckets with the parameters as views, activations, gradients.
ChunkEmission declare_buffers(Plan& plan, const Graph& graph, const ChunkCode& code, const Mesh& mesh,
                              Index chunk, const BucketRules& rules, Dtype precision);

// Which microbatch of its chunk a backward pass is: the first overwrites the main gradients, the last may
// reduce them.
struct BackwardVariant {
  bool first = false;
  bool last = false;
  auto operator<=>(const BackwardVariant&) const = default;
};

// Instructions of the passes, each value freed behind its last reader. `reductions[b]`: instructions to issue
// when bucket b is complete.
std::vector<Instruction> emit_forward(const ChunkEmission& emission, const ChunkCode& code,
                                      CommunicationTable& table);
std::vector<Instruction> emit_backward(const ChunkEmission& emission, const ChunkCode& code,
                                       CommunicationTable& table, BackwardVariant variant,
                                       const std::vector<std::vector<Instruction>>& reductions);

// SEND of a value (and its FREE, unless it is kept) or RECV.
std::vector<Instruction> emit_transfer(const ChunkEmission& emission, const ChunkCode& code, ValueId value,
                                       Opcode opcode, std::uint8_t stream, Index communication);

}  // namespace simrun
