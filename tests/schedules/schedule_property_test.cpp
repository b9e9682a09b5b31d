// What holds for every row of the table of schedules at every size that its rule accepts.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <vector>

#include "schedules/evaluate_schedule.h"
#include "schedules/searched_schedules.h"

namespace simrun {
namespace {

// What a rank's list is, op by op; "" if every pass is there once, on the right rank, and in an order that
// its own stage allows: F, then B or I, and W behind I.
class PassCounter {
 public:
  PassCounter(const ScheduleEntry& entry, const PipelineShape& shape)
      : entry_(entry),
        shape_(shape),
        directions_(entry.placement == Placement::bidirectional ? 2 : 1),
        stages_(stage_count(entry.placement, shape.ranks, shape.virtual_stages)),
        microbatches_(shape.microbatches / directions_),
        seen_(static_cast<std::size_t>(directions_ * stages_ * microbatches_ * shape.slices), 0) {}

  std::string fault(const Schedule& schedule) {
    if (static_cast<int>(schedule.size()) != shape_.ranks) return "wrong number of ranks";
    for (int rank = 0; rank < shape_.ranks; ++rank) {
      const RankOps& ops = schedule[static_cast<std::size_t>(rank)];
      for (std::size_t i = 0; i < ops.size(); ++i) {
        if (std::string wrong = fault_of(ops[i], rank); !wrong.empty())
          return to_string(ops[i]) + " on rank " + std::to_string(rank) + ": " + wrong;
        if (ops[i].overlaps_next && (i + 1 == ops.size() || ops[i].kind != OpKind::forward ||
                                     ops[i + 1].kind != OpKind::backward || ops[i + 1].overlaps_next))
          return to_string(ops[i]) + ": not a pair of F and B";
      }
    }
    const bool complete = std::all_of(seen_.begin(), seen_.end(), [](int seen) { return seen == done; });
    return complete ? "" : "passes are missing";
  }

 private:
  static constexpr int forwarded = 1, input_done = 2, done = 3;

  static std::size_t index(int number) { return static_cast<std::size_t>(number); }

  std::string fault_of(const Op& op, int rank) {
    if (op.stage < 0 || op.stage >= stages_ || op.microbatch < 0 || op.microbatch >= microbatches_ ||
        op.slice < 0 || op.slice >= shape_.slices || static_cast<int>(op.direction) >= directions_)
      return "out of range";
    if (rank_of(entry_.placement, shape_.ranks, op.stage, op.direction) != rank) return "wrong rank";
    const std::size_t stage = static_cast<std::size_t>(op.direction) * index(stages_) + index(op.stage);
    const std::size_t microbatch = stage * index(microbatches_) + index(op.microbatch);
    int& state = seen_[microbatch * index(shape_.slices) + index(op.slice)];
    const int before = op.kind == OpKind::forward           ? 0
                       : op.kind == OpKind::backward_weight ? input_done
                                                            : forwarded;
    if (state != before) return "twice, or before what it needs";
    state = op.kind == OpKind::forward ? forwarded : op.kind == OpKind::backward_input ? input_done : done;
    return "";
  }

  const ScheduleEntry& entry_;
  const PipelineShape& shape_;
  int directions_, stages_, microbatches_;
  std::vector<int> seen_;
};

bool is_searched(const ScheduleEntry& entry) {
  static const std::vector<ScheduleEntry> searched = searched_schedules();
  return std::any_of(searched.begin(), searched.end(),
                     [&](const ScheduleEntry& other) { return other.name == entry.name; });
}

// Returns "" or the first thing that is wrong with the row at that shape. A rule's stated peak is reached,
// but for zb_v with fewer microbatches than fill its V.
std::string broken_property(const ScheduleEntry& entry, const PipelineShape& shape) {
  const Schedule schedule = entry.build(shape);
  if (std::string fault = PassCounter(entry, shape).fault(schedule); !fault.empty()) return fault;
  const ScheduleTimes times = evaluate(schedule, shape);  // throws if the ranks wait for each other
  const bool reached =
      !is_searched(entry) && (entry.name != "zb_v" || shape.microbatches >= 2 * shape.ranks - 1);
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const int held = times.peak_in_flight_at_w[static_cast<std::size_t>(rank)];
    const int stated = entry.peak_in_flight(shape, rank);
    if (held > stated || (reached && held < stated))
      return "rank " + std::to_string(rank) + " holds " + std::to_string(held) + " activations, not " +
             std::to_string(stated);
  }
  return "";
}

enum class Rows : std::uint8_t { ruled, searched };

void check(const PipelineShape& shape, Rows rows) {
  for (const ScheduleEntry& entry : pipeline_schedules()) {
    if (is_searched(entry) != (rows == Rows::searched) || !entry.refusal(shape).empty()) continue;
    INFO(entry.name << " p " << shape.ranks << " m " << shape.microbatches << " v " << shape.virtual_stages
                    << " limit " << shape.memory_limit);
    CHECK(broken_property(entry, shape) == "");
  }
}

}  // namespace

TEST_CASE("every schedule at every size that it accepts is complete, causal and at its stated peak") {
  for (int p = 1; p <= 16; ++p)
    for (int m = 1; m <= 48; ++m)
      for (const int v : {1, 2, 3, 4, 6}) {
        const bool near = p <= 4 && m <= 9 && v <= 4;
        const bool far = (p + m) % 17 == 0 || (v <= 2 && (m % p == 0 || m == 2 * p - 1));
        if (near || far) check({.ranks = p, .virtual_stages = v, .microbatches = m}, Rows::ruled);
      }
}

// Minutes with sanitizers, so only on demand: test_schedules "[.every_size]"
TEST_CASE("so it is at every single size up to 16 ranks, 48 microbatches and 8 stages", "[.every_size]") {
  for (int p = 1; p <= 16; ++p)
    for (int m = 1; m <= 48; ++m)
      for (int v = 1; v <= 8; ++v) {
        check({.ranks = p, .virtual_stages = v, .microbatches = m}, Rows::ruled);
        if (v <= 2 && (p + m) % 4 == 0)
          check({.ranks = p, .virtual_stages = v, .microbatches = m}, Rows::searched);
      }
}

TEST_CASE("searched schedules are so at small sizes, under any memory limit that they accept") {
  for (const int p : {1, 3})
    for (const int m : {1, 4})
      for (const int v : {1, 2})
        for (const int limit : {0, 3}) {
          PipelineShape shape = {.ranks = p, .virtual_stages = v, .microbatches = m};
          shape.memory_limit = limit;
          check(shape, Rows::searched);
        }
}

TEST_CASE("every group size that the rules accept runs, also with a short last group") {
  for (int p = 1; p <= 6; ++p)
    for (int m = 1; m <= 13; ++m)
      for (int g = 1; g <= 14; ++g)
        for (const int v : {2, 3}) {
          const PipelineShape shape = {.ranks = p, .virtual_stages = v, .microbatches = m, .group_size = g};
          CAPTURE(p, m, g);
          const bool megatron = p <= g && g <= m && (m % g == 0 || m % g >= p);
          const int rounds = std::max(1, m / p);
          const bool torch = m % rounds == 0 && g == m / rounds;
          CHECK(find_schedule("interleaved_1f1b")->refusal(shape).empty() == (megatron || torch));
          CHECK(find_schedule("interleaved_1f1b_overlap")->refusal(shape).empty() == megatron);
          for (const std::string name : {"interleaved_1f1b", "interleaved_1f1b_overlap", "interleaved_zb",
                                         "grouped_interleaved_1f1b"}) {
            const ScheduleEntry* entry = find_schedule(name);
            CAPTURE(name);
            if (entry->refusal(shape).empty()) CHECK(broken_property(*entry, shape) == "");
          }
        }
}

TEST_CASE("seq1f1b runs with every number of slices") {
  for (int p = 1; p <= 8; ++p)
    for (const int m : {1, 2, 5, 12})
      for (int slices = 1; slices <= 6; ++slices)
        CHECK(broken_property(*find_schedule("seq1f1b"), {.ranks = p, .microbatches = m, .slices = slices}) ==
              "");
}

TEST_CASE("PyTorch's groups are Megatron's wherever both have a default") {
  const ScheduleEntry* entry = find_schedule("interleaved_1f1b");
  for (int p = 1; p <= 8; ++p)
    for (int m = p; m <= 32; m += p) {
      const PipelineShape chosen = {.ranks = p, .virtual_stages = 2, .microbatches = m, .group_size = p};
      const PipelineShape preset = {.ranks = p, .virtual_stages = 2, .microbatches = m};
      CHECK(entry->build(chosen) == entry->build(preset));
    }
}

TEST_CASE("building a schedule by rule takes time in proportion to its passes") {
  for (const ScheduleEntry& entry : pipeline_schedules()) {
    if (is_searched(entry)) continue;
    PipelineShape shape = {.ranks = 64, .virtual_stages = 8, .microbatches = 1024};
    if (!entry.refusal(shape).empty()) shape.virtual_stages = entry.default_virtual_stages;
    INFO(entry.name);
    REQUIRE(entry.refusal(shape) == "");
    const auto start = std::chrono::steady_clock::now();
    CHECK(entry.build(shape).size() == 64);
    // A release build takes 0.03 s at most; this one may be unoptimised, with sanitizers.
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(3));
  }
}

}  // namespace simrun
