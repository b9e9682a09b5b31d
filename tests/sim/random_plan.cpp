#include "tests/sim/random_plan.h"

#include <map>
#include <random>

#include "tests/sim/plan_builder.h"

namespace simrun {

namespace {

// Random programs whose exchanges have one order over all ranks, because ranks get their entries from one
// list of random events.
class RandomPlan {
 public:
  RandomPlan(unsigned seed, const RandomPlanShape& shape)
      : random_(seed),
        unit_(shape.unit),
        data_parallel_(shape.data_parallel),
        ranks_(1 + pick(4)),
        b_(ranks_) {
    tp_ = b_.stream("tp", Traffic::tensor);
    dp_ = b_.stream("dp", Traffic::data);
    dp2_ = b_.stream("dp2", Traffic::data);
    host_ = b_.stream("offload", Traffic::offload);
    in_ = b_.stream("pp_in", Traffic::pipeline);
    out_ = b_.stream("pp_out", Traffic::pipeline);
  }

  Plan make() {
    for (int r = 0; r < ranks_; ++r) add_buffers();
    for (int r = 0; r < ranks_; ++r)
      for (int s = 0; s < 4; ++s) passes_[r].push_back(pass(r));
    const int events = 10 + pick(60);
    for (int e = 0; e < events; ++e) add_event(e);
    return b_.plan;
  }

 private:
  int pick(int bound) { return static_cast<int>(random_() % static_cast<unsigned>(bound)); }

  void add_buffers() {
    std::vector<Index> tokens;
    constexpr Scope scopes[] = {Scope::run,        Scope::step,       Scope::chunk,
                                Scope::microbatch, Scope::microbatch, Scope::pass};
    for (int i = 0; i < 8; ++i) tokens.push_back(b_.token(scopes[pick(6)]));
    for (int i = 0; i < 4; ++i) tokens.push_back(b_.view(tokens[static_cast<std::size_t>(pick(4))]));
    tokens_.push_back(tokens);
    arrivals_.push_back({b_.token(), b_.token(Scope::step), b_.token()});
  }

  std::vector<Index> some(int r, bool with_arrivals) {
    std::vector<Index> chosen;
    for (int n = pick(3); n > 0; --n) {
      const auto& from = with_arrivals && pick(3) == 0 ? arrivals_[static_cast<std::size_t>(r)]
                                                       : tokens_[static_cast<std::size_t>(r)];
      chosen.push_back(from[static_cast<std::size_t>(pick(static_cast<int>(from.size())))]);
    }
    return chosen;
  }

  Instruction local(int r) {
    const Picoseconds time = pick(4) == 0 ? 0 : unit_ * pick(30);
    Instruction i;
    const int kind = pick(8);
    switch (kind == 1 && !data_parallel_ ? 0 : kind) {
      case 0: i = b_.all_reduce(tp_, time, some(r, true), some(r, false)); break;
      case 1: i = b_.all_reduce(pick(2) ? dp_ : dp2_, 3 * time, some(r, true), some(r, false)); break;
      case 2: i = b_.copy(host_, time, some(r, true), some(r, false)); break;
      default: i = b_.compute(time, some(r, true), some(r, false));
    }
    if (pick(6) == 0) i.waits_for = some(r, true);
    i.accumulate = pick(5) == 0 && i.opcode == Opcode::map;
    return i;
  }

  Index pass(int r) {
    std::vector<Instruction> instructions;
    for (int n = 1 + pick(7); n > 0; --n) instructions.push_back(local(r));
    constexpr PassKind kinds[] = {PassKind::forward, PassKind::backward, PassKind::backward_weight,
                                  PassKind::step};
    return b_.segment(kinds[pick(4)], instructions);
  }

  void add_event(int e) {
    const int r = pick(ranks_), microbatch = pick(3);
    const int kind = pick(5);
    if (kind < 3 || ranks_ == 1 || (kind == 4 && !data_parallel_)) {
      const auto& passes = passes_[r];
      b_.entry(r, passes[static_cast<std::size_t>(pick(static_cast<int>(passes.size())))], microbatch,
               pick(10) == 0 ? Steps::first_only : Steps::every);
      return;
    }
    const Picoseconds time = unit_ * pick(20);
    if (kind == 3) {
      const int to = (r + 1 + pick(ranks_ - 1)) % ranks_;
      const auto& arrivals = arrivals_[static_cast<std::size_t>(to)];
      const Index what = tokens_[static_cast<std::size_t>(r)][static_cast<std::size_t>(pick(8))];
      b_.entry(r, b_.segment(PassKind::communication, {b_.send(out_, time, what, to, static_cast<Index>(e))}),
               microbatch);
      b_.entry(
          to,
          b_.segment(PassKind::communication, {b_.recv(in_, time, arrivals[static_cast<std::size_t>(pick(3))],
                                                       r, static_cast<Index>(e))}),
          microbatch);
      return;
    }
    std::vector<int> stages;
    for (int stage = 0; stage < ranks_; ++stage) stages.push_back(stage);
    for (const int stage : stages)
      b_.entry(stage,
               b_.segment(PassKind::communication,
                          {b_.all_reduce_stages(dp_, time * 2 * (ranks_ - 1), stages, static_cast<Index>(e),
                                                some(stage, true), some(stage, false))}),
               microbatch);
  }

  std::mt19937 random_;
  Picoseconds unit_;
  bool data_parallel_;
  int ranks_;
  PlanBuilder b_;
  std::uint8_t tp_ = 0, dp_ = 0, dp2_ = 0, host_ = 0, in_ = 0, out_ = 0;
  std::vector<std::vector<Index>> tokens_, arrivals_;  // by rank
  std::map<int, std::vector<Index>> passes_;
};

}  // namespace

Plan random_plan(unsigned seed, const RandomPlanShape& shape) { return RandomPlan(seed, shape).make(); }

}  // namespace simrun
