#pragma once

#include <string>
#include <vector>

#include "schedules/plan.h"
#include "schedules/timeline.h"

namespace simrun {

// Writes small plans whose times can be worked out by hand: on its device one byte takes one picosecond,
// kernels launch in no time, and links move one byte per picosecond without latency. Every rank is one
// pipeline rank of two GPUs (mesh axis tp) on one node, so an all-reduce of B bytes over tp takes 2 x 1/2 x B
// = B ps.
class PlanBuilder {
 public:
  explicit PlanBuilder(int ranks);

  // A stream beside `compute`, which is stream 0.
  std::uint8_t stream(const std::string& name, Traffic traffic);

  // A buffer of no bytes, to depend on; or one with bytes, to count or to pay for.
  Index token(Scope scope = Scope::microbatch) { return buffer(0, scope); }
  Index buffer(std::int64_t bytes, Scope scope = Scope::microbatch,
               Category category = Category::activations);
  Index view(Index parent);

  // Instructions that take `time`, read and write the given buffers. On another stream than compute: a copy.
  Instruction compute(Picoseconds time, std::vector<Index> reads, std::vector<Index> writes);
  Instruction copy(std::uint8_t stream, Picoseconds time, std::vector<Index> reads,
                   std::vector<Index> writes);
  Instruction all_reduce(std::uint8_t stream, Picoseconds time, std::vector<Index> reads,
                         std::vector<Index> writes);
  Instruction send(std::uint8_t stream, Picoseconds time, Index what, int to, Index channel);
  Instruction recv(std::uint8_t stream, Picoseconds time, Index what, int from, Index channel);
  // Over pipeline ranks, one GPU each: 2 (n-1)/n x bytes, so `time` must be a multiple of 2 (n-1).
  Instruction all_reduce_stages(std::uint8_t stream, Picoseconds time, std::vector<int> stages, Index channel,
                                std::vector<Index> reads, std::vector<Index> writes);
  static Instruction free(std::vector<Index> what);

  Index segment(PassKind kind, std::vector<Instruction> instructions);
  void entry(int rank, Index segment, int microbatch = 0, Steps steps = Steps::every);

  Plan plan;

 private:
  Index paid(Picoseconds time);
};

}  // namespace simrun
