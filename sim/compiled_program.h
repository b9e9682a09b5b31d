#pragma once

#include <algorithm>
#include <vector>

#include "schedules/plan.h"
#include "schedules/timeline.h"
#include "sim/durations.h"

// A Plan made flat for the engine's inner loop: one array of steps per segment, no names, no shapes.
namespace simrun {

// Which of a plan's two steps runs: the steady one skips first_only entries, the first one not_first entries.
enum class WhichStep : std::uint8_t { steady, first };
constexpr bool runs_in(Steps steps, WhichStep step) {
  return steps == Steps::every || (steps == Steps::first_only) == (step == WhichStep::first);
}

// Where the time of a buffer's last write by one stream is kept: slot base, plus the instance (microbatch and
// slice) of a binding of the entry, or plus the binding's own number.
struct SlotReference {
  enum class Offset : std::uint8_t { none, instance, binding };
  Index base = 0;
  Offset offset = Offset::none;
  std::uint8_t binding = 0;
};

// What takes time: a communication or copy, or a run of instructions of the compute stream with no other
// stream's instruction between them and nothing to wait for but before the first. FREE and INIT have no step.
struct CompiledStep {
  Picoseconds duration = 0;
  Index exchange = no_index;  // into CompiledPlan::exchanges
  Index first_read = 0;       // into CompiledRank::references: writes by other streams that it must wait for
  Index first_write = 0;      // likewise: its own writes that others wait for
  Index first_piece = 0;      // into CompiledRank::pieces
  Index pieces = 0;
  std::uint16_t reads = 0, writes = 0;
  std::uint8_t stream = 0;
  std::uint8_t binding = 0;
  bool pipeline_arrival = false;  // brings data over the pipeline: what `p2p` idle time is about
};
static_assert(sizeof(CompiledStep) == 40);

// One instruction of a step.
struct StepPiece {
  Picoseconds duration = 0;
  Index instruction = 0;  // in the segment
};

struct CompiledSegment {
  Index first_step = 0, steps = 0;  // into CompiledRank::steps
  Index first_compute = no_index;   // first step of the segment on the compute stream
  Index instructions = 0, communications = 0;
  Picoseconds compute = 0;     // sum on the compute stream
  Picoseconds exchanging = 0;  // sum of what data-parallel ranks exchange
  // Of the kernels' times: by a late host, the framework, or exchanges beside them; else 1.
  double stretch = 1;
};

struct CompiledEntry {
  Index segment = 0;        // into CompiledRank::segments
  Index entry = 0;          // in the plan's program
  Index first_binding = 0;  // into CompiledRank::instances
  Index bindings = 0;
};

struct CompiledRank {
  std::vector<CompiledEntry> entries;  // those of the step that runs
  std::vector<CompiledSegment> segments;
  std::vector<CompiledStep> steps;
  std::vector<StepPiece> pieces;
  std::vector<SlotReference> references;
  std::vector<Index> instances;  // by binding: (slice, microbatch) as one number
  Index slots = 0;
  Index first_backward = no_index;  // into `entries`
  Index last_forward = no_index;

  Index slot(const SlotReference& reference, const CompiledEntry& entry) const {
    if (reference.offset == SlotReference::Offset::none) return reference.base;
    if (reference.offset == SlotReference::Offset::binding) return reference.base + reference.binding;
    return reference.base + instance(entry, reference.binding);
  }
  Index instance(const CompiledEntry& entry, std::uint8_t binding) const {
    return entry.bindings == 0 ? 0 : instances[entry.first_binding + binding];
  }
};

// All communication instructions of one pipeline rank that share stream, group or peer, opcode and sizes.
struct CompiledExchange {
  std::int32_t pipeline_rank = 0;
  std::uint8_t stream = 0;
  Index channel = no_index;                  // dense, into CompiledPlan::channels
  const Instruction* instruction = nullptr;  // the first of them, in the plan
  double bytes = 0;                          // of the GPU that has most; negative: nobody takes part
  std::vector<double> bytes_of_gpu;          // by local GPU; empty: all have `bytes`
};

// Both ends (or all stages) of one exchange.
struct Channel {
  Index instances = 0;  // (slice, microbatch) numbers in use
  bool point_to_point = false;
  std::vector<std::int32_t> pipeline_ranks;  // that post it, in order of first use
};

// The code of GPUs that have other extents or work (schedules/extent_tables.h) than the first GPU of their
// pipeline rank: the same entries, steps and references, other durations, and no pieces, which are those of
// the first.
struct TableCode {
  std::vector<Index> class_of_gpu;    // by local index; empty: all are as the first, class 0
  std::vector<CompiledRank> classes;  // class 1 and on
};

struct CompiledPlan {
  std::vector<CompiledRank> ranks;  // by program of the plan: of its first GPU
  std::vector<TableCode> tables;    // by program of the plan
  std::vector<CompiledExchange> exchanges;
  std::vector<Channel> channels;

  Index class_of(Index program, Index local_gpu) const {
    const std::vector<Index>& classes = tables[program].class_of_gpu;
    return classes.empty() ? 0 : classes[local_gpu];
  }
  const CompiledRank& code(Index program, Index local_gpu) const {
    const Index number = class_of(program, local_gpu);
    return number == 0 ? ranks[program] : tables[program].classes[number - 1];
  }
  // Whether one GPU cannot stand for its pipeline rank.
  bool has_classes() const {
    return std::any_of(tables.begin(), tables.end(),
                       [](const TableCode& table) { return !table.classes.empty(); });
  }
};

// The plan must outlive the result. Throws std::runtime_error if a communication is on the compute stream.
CompiledPlan compile_programs(const Plan& plan, WhichStep step, Durations& durations);

}  // namespace simrun
