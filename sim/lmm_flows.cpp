// Flows on SimGrid's max-min solver and its lazily updated heap of ends, as a model of our own beside those
// of SimGrid: its engine asks when something happens next and then says that it is that date. The calendar of
// starts and the order of reports are ours.
#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <simgrid/kernel/resource/Model.hpp>
#include <simgrid/s4u/Engine.hpp>
#include <simgrid/s4u/NetZone.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/flow_mover.h"
#include "sim/lmm_abi.h"
#include "sim/simgrid_engine.h"

namespace simrun {

namespace {

namespace s4u = simgrid::s4u;
namespace lmm = simgrid::kernel::lmm;
using simgrid::kernel::resource::Action;
using simgrid::kernel::resource::Model;

constexpr double simultaneous_s = 1e-12;

struct LmmFlow;

// The bytes of one flow on the move. SimGrid counts references: unref() destroys it and gives its share back.
class Movement final : public Action {
 public:
  Movement(Model* model, LmmFlow& flow, double bytes) : Action(model, bytes, false), flow_(flow) {
    set_last_update();
  }
  LmmFlow& flow() const { return flow_; }
  double remains_at(double now) const {
    return std::max(0.0, get_remains_no_update() - get_last_value() * (now - get_last_update()));
  }
  void update_remains_lazy(double now) override {  // SimGrid does before it gives it another rate
    set_remains(remains_at(now));
    set_last_update();
    set_last_value(get_rate());
  }

 private:
  LmmFlow& flow_;
};

struct LmmFlow {
  FlowNumber number = 0;
  double bytes = 0;
  std::uint64_t order = 0;        // of starting; set when it starts
  std::vector<LinkNumber> links;  // until it starts
  std::vector<double> weights;
  Movement* movement = nullptr;  // from its start to its end
  bool ended = false;
};

// What SimGrid's engine sees of it.
class FlowModel final : public Model {
 public:
  // next(): seconds until something happens that the solver does not know of; negative: never.
  FlowModel(std::function<double()> next, std::function<void()> happen)
      : Model("simrun"), next_(std::move(next)), happen_(std::move(happen)) {
    set_update_algorithm(UpdateAlgo::LAZY);
    set_maxmin_system(lmm::System::build("maxmin", true));
  }
  double next_occurring_event(double now) override {
    const double own = next_();
    if (own == 0) return 0;  // no need to know the ends yet
    next_occurring_event_lazy(now);
    if (get_action_heap().empty()) return own;
    const double first_end = std::max(0.0, get_action_heap().top_date() - now);
    return own < 0 ? first_end : std::min(own, first_end);
  }
  void update_actions_state(double /*now*/, double /*delta*/) override { happen_(); }

 private:
  std::function<double()> next_;
  std::function<void()> happen_;
};

template <class T>
using EarliestFirst = std::priority_queue<T, std::vector<T>, std::greater<>>;

class LmmFlows final : public FlowMover {
 public:
  LmmFlows();
  LmmFlows(const LmmFlows&) = delete;
  LmmFlows& operator=(const LmmFlows&) = delete;
  ~LmmFlows() override = default;

  void add_link(double bytes_per_second) override {
    links_.push_back(model_->get_maxmin_system()->constraint_new(nullptr, bytes_per_second));
  }
  void add_ceiling(double bytes_per_second) override {
    ceilings_[static_cast<LinkNumber>(links_.size())] = bytes_per_second;
    links_.push_back(nullptr);
  }
  void seal() override {}
  void start(const FlowLinks& links, double bytes, double date, FlowNumber number) override;
  void wake(double date) override;
  double now() const override { return s4u::Engine::get_clock(); }
  std::size_t live() const override { return live_.size(); }
  double remaining(FlowNumber number) const override;
  double usage(LinkNumber link) const override;
  void run(const std::function<void(FlowNumber)>& done, const std::function<void()>& woken) override;

 private:
  LmmFlow& new_flow(double bytes, FlowNumber number);
  void begin(LmmFlow& flow, const FlowLinks& links);
  double lowest_ceiling(const FlowLinks& links) const;
  void make_appointment(double date, LmmFlow* flow) { calendar_.push({date, appointments_++, flow}); }
  bool is_past(double date) const { return date <= now() + simultaneous_s; }
  double next_of_calendar() const;
  void happen();
  void report_end();

  s4u::Engine& engine_;
  std::shared_ptr<FlowModel> model_;
  std::vector<lmm::Constraint*> links_;              // null: a ceiling
  std::unordered_map<LinkNumber, double> ceilings_;  // bytes/s

  std::deque<LmmFlow> flows_;  // addresses stay; `idle_` ones are taken again
  std::vector<LmmFlow*> idle_;
  std::unordered_map<FlowNumber, LmmFlow*> live_;
  std::uint64_t starts_ = 0;

  EarliestFirst<Appointment<LmmFlow>> calendar_;
  std::uint64_t appointments_ = 0;
  EarliestFirst<std::pair<std::uint64_t, LmmFlow*>> ended_;  // by order of start; not reported yet
  std::size_t wakes_due_ = 0;

  const std::function<void(FlowNumber)>* done_ = nullptr;
  const std::function<void()>* woken_ = nullptr;
};

LmmFlows::LmmFlows()
    : engine_(simgrid_engine()),
      model_(std::make_shared<FlowModel>([this] { return next_of_calendar(); }, [this] { happen(); })) {
  s4u::create_empty_zone("flows");  // SimGrid's engine asks for the models of some zone
  engine_.add_model(model_);
}

LmmFlow& LmmFlows::new_flow(double bytes, FlowNumber number) {
  const auto [entry, is_new] = live_.try_emplace(number, nullptr);
  require(is_new, "a flow of that number is alive");
  if (idle_.empty()) idle_.push_back(&flows_.emplace_back());
  LmmFlow& flow = *idle_.back();
  idle_.pop_back();
  entry->second = &flow;
  flow.number = number;
  flow.bytes = bytes;
  flow.ended = false;
  return flow;
}

void LmmFlows::start(const FlowLinks& links, double bytes, double date, FlowNumber number) {
  LmmFlow& flow = new_flow(bytes, number);
  if (is_past(date)) return begin(flow, links);
  flow.links.assign(links.links.begin(), links.links.end());
  flow.weights.assign(links.weights.begin(), links.weights.end());
  make_appointment(date, &flow);
}

void LmmFlows::wake(double date) {
  if (!is_past(date)) return make_appointment(date, nullptr);
  ++wakes_due_;
}

void LmmFlows::begin(LmmFlow& flow, const FlowLinks& links) {
  flow.order = starts_++;
  if (flow.bytes == 0) {
    flow.ended = true;
    ended_.emplace(flow.order, &flow);
    return;
  }
  lmm::System& system = *model_->get_maxmin_system();
  flow.movement = std::make_unique<Movement>(model_.get(), flow, flow.bytes).release();
  flow.movement->set_variable(
      system.variable_new(flow.movement, 1.0, lowest_ceiling(links), links.links.size()));
  for (std::size_t i = 0; i < links.links.size(); ++i)
    if (links_[links.links[i]] != nullptr)
      system.expand(links_[links.links[i]], flow.movement->get_variable(),
                    links.weights.empty() ? 1.0 : links.weights[i], true);
}

// Negative: none.
double LmmFlows::lowest_ceiling(const FlowLinks& links) const {
  double lowest = -1;
  for (const LinkNumber link : links.links)
    if (links_[link] == nullptr)
      lowest = lowest < 0 ? ceilings_.at(link) : std::min(lowest, ceilings_.at(link));
  return lowest;
}

// 0 also while something is left to be reported at this date.
double LmmFlows::next_of_calendar() const {
  if (!ended_.empty() || wakes_due_ > 0) return 0;
  return calendar_.empty() ? -1 : std::max(0.0, calendar_.top().date - now());
}

// All of this date. A callback may add to it, and what it throws leaves SimGrid's engine; the next run() then
// goes on with what is left.
void LmmFlows::happen() {
  while (!calendar_.empty() && is_past(calendar_.top().date)) {
    LmmFlow* const flow = calendar_.top().flow;
    calendar_.pop();
    if (flow == nullptr)
      ++wakes_due_;
    else
      begin(*flow, {flow->links, flow->weights});
  }
  auto& ends = model_->get_action_heap();
  while (!ends.empty() && is_past(ends.top_date())) {
    auto* const movement = static_cast<Movement*>(ends.pop());
    LmmFlow& flow = movement->flow();
    flow.ended = true;
    flow.movement = nullptr;
    ended_.emplace(flow.order, &flow);
    movement->unref();
  }
  while (!ended_.empty() || wakes_due_ > 0) {
    if (!ended_.empty()) {
      report_end();
    } else {
      --wakes_due_;
      (*woken_)();
    }
  }
}

void LmmFlows::report_end() {
  LmmFlow* const flow = ended_.top().second;
  const FlowNumber number = flow->number;
  ended_.pop();
  live_.erase(number);
  idle_.push_back(flow);
  (*done_)(number);
}

double LmmFlows::remaining(FlowNumber number) const {
  const auto found = live_.find(number);
  require(found != live_.end(), "no flow of that number is alive");
  const LmmFlow& flow = *found->second;
  if (flow.ended) return 0;
  return flow.movement != nullptr ? flow.movement->remains_at(now()) : flow.bytes;
}

double LmmFlows::usage(LinkNumber link) const {
  model_->next_occurring_event_lazy(now());  // solves if something changed; changes nothing otherwise
  return links_[link]->get_usage();
}

void LmmFlows::run(const std::function<void(FlowNumber)>& done, const std::function<void()>& woken) {
  done_ = &done;
  woken_ = &woken;
  engine_.run();
  require(live_.empty() && calendar_.empty(), "SimGrid stopped while flows were alive");
}

}  // namespace

std::unique_ptr<FlowMover> lmm_mover() { return std::make_unique<LmmFlows>(); }

}  // namespace simrun
