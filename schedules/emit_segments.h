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

// What a chunk's buffers follow from.
struct ChunkSource {
  const Graph& graph;
  const ChunkCode& code;
  const Mesh& mesh;
  Index chunk = 0;
  BucketRules rules;
  Dtype precision = Dtype::bf16;  // of the weights
};

// Declares the chunk's buffers: buckets with the parameters as views, activations, gradients.
ChunkEmission declare_buffers(Plan& plan, const ChunkSource& source);

// Which microbatch of its chunk a backward pass is: the first overwrites the main gradients, the last may
// reduce them.
struct BackwardVariant {
  bool first = false;
  bool last = false;
  // clang-tidy 14 takes the defaulted comparison for a null pointer.
  auto operator<=>(const BackwardVariant&) const = default;  // NOLINT(modernize-use-nullptr)
};

// Instructions of the passes, each value freed behind its last reader. `reductions[b]`: instructions to issue
// when bucket b is complete.
std::vector<Instruction> emit_forward(const ChunkEmission& emission, const ChunkCode& code,
                                      CommunicationTable& table);
std::vector<Instruction> emit_backward(const ChunkEmission& emission, const ChunkCode& code,
                                       CommunicationTable& table, BackwardVariant variant,
                                       const std::vector<std::vector<Instruction>>& reductions);

// One end of a pipeline transfer.
struct TransferEnd {
  ValueId value = no_index;
  Opcode opcode = Opcode::send;
  std::uint8_t stream = 0;
  Index communication = no_index;
};
// SEND of a value (and its FREE, unless it is kept) or RECV.
std::vector<Instruction> emit_transfer(const ChunkEmission& emission, const ChunkCode& code,
                                       const TransferEnd& end);

}  // namespace simrun
