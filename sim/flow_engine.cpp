#include "sim/flow_engine.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <span>
#include <vector>

#include "sim/flow_mover.h"

namespace simrun {

namespace {

std::unique_ptr<FlowMover> new_mover(FlowSolver solver) {
#ifdef SIMRUN_HAS_LMM
  if (solver == FlowSolver::lmm) return lmm_mover();
#endif
  require(solver == FlowSolver::s4u, "simrun was built without SimGrid's solver as a plug-in");
  return s4u_mover();
}

[[maybe_unused]] bool are_distinct(std::span<const LinkNumber> links) {
  std::vector<LinkNumber> sorted(links.begin(), links.end());
  std::ranges::sort(sorted);
  return std::ranges::adjacent_find(sorted) == sorted.end();
}

}  // namespace

std::vector<FlowSolver> flow_solvers() {
#ifdef SIMRUN_HAS_LMM
  return {FlowSolver::lmm, FlowSolver::s4u};
#else
  return {FlowSolver::s4u};
#endif
}

std::string why_flow_solver() { return SIMRUN_WHY_FLOW_SOLVER; }

FlowEngine::FlowEngine(FlowSolver solver) : mover_(new_mover(solver)) {}
FlowEngine::~FlowEngine() = default;

LinkNumber FlowEngine::link(double bytes_per_second) {
  require(!sealed_, "links must be there before the first flow or wake-up");
  require(bytes_per_second > 0 && std::isfinite(bytes_per_second), "a link needs a positive bandwidth");
  mover_->add_link(bytes_per_second);
  is_ceiling_.push_back(false);
  return static_cast<LinkNumber>(is_ceiling_.size() - 1);
}

LinkNumber FlowEngine::ceiling(double bytes_per_second) {
  require(!sealed_, "ceilings must be there before the first flow or wake-up");
  require(bytes_per_second > 0 && std::isfinite(bytes_per_second), "a ceiling needs a positive bandwidth");
  mover_->add_ceiling(bytes_per_second);
  is_ceiling_.push_back(true);
  return static_cast<LinkNumber>(is_ceiling_.size() - 1);
}

void FlowEngine::seal() {
  if (sealed_) return;
  sealed_ = true;
  mover_->seal();
}

void FlowEngine::start(std::span<const LinkNumber> links, double bytes, double date, FlowNumber flow,
                       std::span<const double> weights) {
  constexpr double least = 0x1p-64;
  require(bytes >= 0 && bytes <= 1e18, "a flow cannot have that many bytes");
  require(std::isfinite(date), "a flow must start at some date");
  bool has_link = false;
  for (std::size_t i = 0; i < links.size(); ++i) {
    require(links[i] < is_ceiling_.size(), "a flow uses a link that does not exist");
    has_link = has_link || !is_ceiling_[links[i]];
  }
  assert(are_distinct(links) && "a flow uses a link twice");
  require(has_link, "a flow needs a link");
  require(weights.empty() || weights.size() == links.size(), "a flow needs a weight for every link, or none");
  for (const double weight : weights)
    require(weight > 0 && std::isfinite(weight), "a flow's weight on a link must be positive");
  seal();
  mover_->start({links, weights}, bytes < least ? 0 : bytes, date, flow);
}

void FlowEngine::wake(double date) {
  require(std::isfinite(date), "a wake-up needs a date");
  seal();
  mover_->wake(date);
}

double FlowEngine::now() const { return mover_->now(); }
std::size_t FlowEngine::live() const { return mover_->live(); }
double FlowEngine::remaining(FlowNumber flow) const { return mover_->remaining(flow); }

double FlowEngine::usage(LinkNumber link) const {
  require(link < is_ceiling_.size() && !is_ceiling_[link], "that link does not exist");
  return mover_->usage(link);
}

void FlowEngine::run(const std::function<void(FlowNumber)>& done, const std::function<void()>& woken) {
  require(!running_, "run() was called by a callback of run()");
  running_ = true;
  struct Reset {
    bool& running;
    ~Reset() { running = false; }
  } const reset{running_};
  seal();
  mover_->run(done, woken);
}

}  // namespace simrun
