#include "schedules/send_recv.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>

#include "schedules/one_f_one_b.h"
#include "schedules/pipeline_schedule.h"

namespace simrun {
namespace {

using IssueSteps = std::vector<std::vector<IssueStep>>;

std::string spell(const std::vector<IssueStep>& steps) {
  const std::array<std::string, 5> names = {"", "send_f ", "recv_f ", "send_b ", "recv_b "};
  std::string text;
  for (const IssueStep& step : steps) {
    if (!text.empty()) text += " | ";
    text +=
        names[static_cast<std::size_t>(step.kind)] + to_string(step.op) + "#" + std::to_string(step.sequence);
  }
  return text;
}

bool is_recv(const IssueStep& step) {
  return step.kind == StepKind::recv_forward || step.kind == StepKind::recv_backward;
}

// Runs the issue lists with rendezvous transfers; true if every rank reaches its end.
bool finishes_under_rendezvous(const IssueSteps& steps) {
  std::vector<std::size_t> next(steps.size(), 0);
  std::map<std::uint32_t, std::vector<std::size_t>> waiting;  // ranks at each transfer
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < steps.size(); ++rank)
      while (next[rank] < steps[rank].size()) {
        const IssueStep& step = steps[rank][next[rank]];
        if (step.kind != StepKind::compute) {
          std::vector<std::size_t>& ranks = waiting[step.sequence];
          if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
          if (ranks.size() < 2) break;
        }
        ++next[rank];
        moved = true;
      }
  }
  for (std::size_t rank = 0; rank < steps.size(); ++rank)
    if (next[rank] < steps[rank].size()) return false;
  return true;
}

struct StageMap {
  Placement placement = Placement::loop;
  int ranks = 1, stages = 1;
  bool apart(int stage, int other) const {
    return other >= 0 && other < stages &&
           rank_of(placement, ranks, stage) != rank_of(placement, ranks, other);
  }
  int borders_between_ranks() const {
    int borders = 0;
    for (int stage = 0; stage + 1 < stages; ++stage) borders += apart(stage, stage + 1) ? 1 : 0;
    return borders;
  }
};

// Every pass's input from another rank was received before it, and every send follows its producer.
void check_local_order(const std::vector<IssueStep>& steps, const StageMap& layout) {
  using Result = std::tuple<bool, int, int>;  // forward, stage, microbatch: B and I give the same gradient
  const auto result_of = [](const Op& op) {
    return Result{op.kind == OpKind::forward, op.stage, op.microbatch};
  };
  std::set<Result> computed, received;
  std::uint32_t last = 0;
  for (const IssueStep& step : steps) {
    CHECK(step.sequence >= last);
    if (step.kind != StepKind::compute) CHECK(step.sequence > last);
    last = step.sequence;
    if (is_recv(step)) {
      CHECK(received.insert(result_of(step.op)).second);
    } else if (step.kind != StepKind::compute) {
      CHECK(computed.contains(result_of(step.op)));
    } else if (step.op.kind != OpKind::backward_weight) {
      const bool forward = step.op.kind == OpKind::forward;
      const int producer = forward ? step.op.stage - 1 : step.op.stage + 1;
      if (layout.apart(step.op.stage, producer))
        CHECK(received.contains({forward, producer, step.op.microbatch}));
      computed.insert(result_of(step.op));
    }
  }
}

}  // namespace

TEST_CASE("two ranks, two microbatches: receives are posted while the pass before their consumer runs") {
  // F = 1, B = 2. Rank 0: F0 ends 1, F1 ends 2, B0 4..6 (1B0 ends 4), B1 7..9 (1B1 ends 7).
  // Rank 1: F0 1..2, B0 2..4, F1 4..5, B1 5..7. Transfers: 0F0 at 1, 0F1 at 2, 1B0 at 4, 1B1 at 7.
  const IssueSteps steps = add_send_recv(one_f_one_b(2, 2), {{1, 2, 1, 1}, {1, 2, 1, 1}});
  CHECK(spell(steps[0]) ==
        "0F0#0 | send_f 0F0#1 | 0F1#1 | send_f 0F1#2 | recv_b 1B0#3 | 0B0#3 | recv_b 1B1#4 | 0B1#4");
  CHECK(spell(steps[1]) ==
        "recv_f 0F0#1 | 1F0#1 | recv_f 0F1#2 | 1B0#2 | send_b 1B0#3 | 1F1#3 | 1B1#3 | send_b 1B1#4");
}

TEST_CASE("no transfer is made where producer and consumer lie on one rank") {
  const ScheduleEntry& interleaved = *find_schedule("interleaved_1f1b");
  const IssueSteps steps = add_send_recv(
      interleaved.build({.ranks = 1, .virtual_stages = 2, .microbatches = 3}), {{1, 2, 1, 1}, {1, 2, 1, 1}});
  CHECK(steps[0].size() == 12);
  for (const IssueStep& step : steps[0]) CHECK(step.kind == StepKind::compute);
}

TEST_CASE("split backwards: the gradient leaves after the backward-input") {
  const Schedule schedule = {
      {{OpKind::forward, 0, 0}, {OpKind::backward, 0, 0}},
      {{OpKind::forward, 1, 0}, {OpKind::backward_input, 1, 0}, {OpKind::backward_weight, 1, 0}}};
  const IssueSteps steps = add_send_recv(schedule, {{1, 2, 1, 1}, {1, 2, 1, 1}});
  CHECK(spell(steps[1]) == "recv_f 0F0#1 | 1F0#1 | 1I0#1 | send_b 1I0#2 | 1W0#2");
  CHECK(spell(steps[0]) == "0F0#0 | send_f 0F0#1 | recv_b 1I0#2 | 0B0#2");
}

TEST_CASE("every small shape finishes under rendezvous, with inputs received before their consumers",
          "[long]") {
  for (const ScheduleEntry& entry : pipeline_schedules())
    for (const int p : {1, 2, 3, 4, 6, 8})
      for (const int m : {1, 2, 4, 7, 12})
        for (int v = 1; v <= 3; ++v) {
          const bool uniform = (p + m / 3 + v) % 2 == 0;  // of each p and v some are, and some are not
          const PipelineShape shape = {.ranks = p, .virtual_stages = v, .microbatches = m};
          // Two pipelines over one set of stages have no plans yet.
          if (entry.placement == Placement::bidirectional || !entry.refusal(shape).empty()) continue;
          CAPTURE(entry.name, p, m, v, uniform);
          const StageMap layout{entry.placement, p, p * v};
          std::vector<PassCosts> costs;
          for (int stage = 0; stage < p * v; ++stage)
            costs.push_back(uniform ? PassCosts{1, 2, 1, 1}
                                    : PassCosts{3 + stage * 7 % 5, 4 + stage * 3 % 11, 1, 1});
          const Schedule schedule = entry.build(shape);
          const IssueSteps steps = add_send_recv(schedule, costs);
          CHECK(finishes_under_rendezvous(steps));
          std::size_t transfers = 0;
          for (std::size_t rank = 0; rank < steps.size(); ++rank) {
            check_local_order(steps[rank], layout);
            RankOps passes;
            for (const IssueStep& step : steps[rank])
              if (step.kind == StepKind::compute) passes.push_back(step.op);
            CHECK(passes == schedule[rank]);
            transfers += steps[rank].size() - passes.size();
          }
          CHECK(transfers == static_cast<std::size_t>(2 * 2 * layout.borders_between_ranks() * m));
        }
}

TEST_CASE("an incomplete or circular schedule is named") {
  const std::vector<PassCosts> costs = {{1, 1, 1, 1}, {1, 1, 1, 1}};
  Schedule schedule = one_f_one_b(2, 1);
  std::swap(schedule[1][0], schedule[1][1]);
  CHECK_THROWS_WITH(add_send_recv(schedule, costs),
                    "the schedule cannot finish: rank 0 is stuck at 0B0; rank 1 is stuck at 1B0");
  schedule[1].pop_back();
  CHECK_THROWS_WITH(add_send_recv(schedule, costs), "the schedule lacks 1F0");
  schedule = one_f_one_b(2, 1);
  schedule[0].push_back(schedule[0][0]);
  CHECK_THROWS_WITH(add_send_recv(schedule, costs), "the schedule runs 0F0 twice");
  CHECK_THROWS_AS(add_send_recv(schedule, {{1, 1, 1, 1}}), std::logic_error);
  CHECK_THROWS_AS(add_send_recv(one_f_one_b(2, 1), {{1, 1, 1, 1}, {0, 1, 1, 1}}), std::logic_error);
}

}  // namespace simrun
