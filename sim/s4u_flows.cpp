// Flows on SimGrid 3.32 through its installed headers only. SimGrid shares the links and keeps the heap of
// ends; routes, latencies, the calendar of starts and the order of reports are ours.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <queue>
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/kernel/resource/NetworkModelIntf.hpp>
#include <simgrid/kernel/routing/NetZoneImpl.hpp>
#include <simgrid/s4u.hpp>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "sim/flow_mover.h"
#include "sim/simgrid_engine.h"

namespace simrun {

namespace {

namespace s4u = simgrid::s4u;
using simgrid::kernel::resource::Model;
using simgrid::kernel::timer::Timer;
using KernelLink = simgrid::kernel::resource::StandardLinkImpl;

struct Flow {
  FlowNumber number = 0;
  double bytes = 0;
  double units_per_byte = 1;  // in which SimGrid counts
  std::uint64_t order = 0;    // of starting; set when it starts
  std::vector<KernelLink*> links;
  s4u::CommPtr comm;  // from its start to its end
  bool ended = false;
};

// A zone in which a route is whatever the flow that is being started asks for. SimGrid looks a route up while
// it starts a Comm, before the call that starts it returns.
class CallerRoutedZone : public simgrid::kernel::routing::NetZoneImpl {
 public:
  CallerRoutedZone() : NetZoneImpl("flows") {}
  void start_next(const Flow& flow) { flow_ = &flow; }
  double units_per_byte() const { return flow_->units_per_byte; }

  // CM02 divides a link in inverse proportion to the latency of a flow's route. With one constant for all
  // routes the shares are equal; the factor of the latency callback then makes the latency that SimGrid
  // itself waits zero.
  void get_local_route(const simgrid::kernel::routing::NetPoint* /*source*/,
                       const simgrid::kernel::routing::NetPoint* /*destination*/,
                       simgrid::kernel::routing::Route* route, double* latency) override {
    route->link_list_ = flow_->links;
    if (latency != nullptr) *latency = 1;
  }

 private:
  const Flow* flow_ = nullptr;
};

// SimGrid takes whole numbers for the size of a flow. A double has 53 binary digits: counted in this power of
// two, at least 1, any number of bytes from 2^-64 on is a whole number.
double units_per_byte(double bytes) {
  int exponent = 0;
  std::frexp(bytes, &exponent);
  return std::ldexp(1.0, 53 - std::clamp(exponent, -64, 53));
}

template <class T>
using EarliestFirst = std::priority_queue<T, std::vector<T>, std::greater<>>;

// `done` is called while SimGrid ends a Comm: it is marked as finished, but its share is still taken.
void release_share(s4u::Comm& comm) {
  comm.set_state(s4u::Activity::State::STARTED);  // no other can be suspended
  comm.suspend();
  comm.set_state(s4u::Activity::State::FINISHED);
}

Model& network_model(const s4u::Engine& engine) {
  for (Model* model : engine.get_all_models())
    if (model->get_name() == "Network_CM02") return *model;
  throw std::logic_error("SimGrid has no network model Network_CM02: simrun was written for SimGrid 3.32");
}

class S4uFlows final : public FlowMover {
 public:
  S4uFlows();
  S4uFlows(const S4uFlows&) = delete;
  S4uFlows& operator=(const S4uFlows&) = delete;
  ~S4uFlows() override;

  void add_link(double bytes_per_second) override;
  void add_ceiling(double bytes_per_second) override;
  void seal() override { zone_.get_iface()->seal(); }
  void start(const FlowLinks& links, double bytes, double date, FlowNumber number) override;
  void wake(double date) override;
  double now() const override { return s4u::Engine::get_clock(); }
  std::size_t live() const override { return live_.size(); }
  double remaining(FlowNumber number) const override;
  double usage(LinkNumber link) const override;
  void run(const std::function<void(FlowNumber)>& done, const std::function<void()>& woken) override;

 private:
  Flow& new_flow(std::span<const LinkNumber> links, double bytes, FlowNumber number);
  void begin(Flow& flow);
  void make_appointment(double date, Flow* flow);
  void set_alarm(double date);
  void on_alarm();
  void on_completion(const s4u::Activity& comm);
  bool completions_pending() const { return !network_.get_finished_action_set()->empty(); }
  void report();
  void report_end();
  void report_wake();

  s4u::Engine& engine_;
  CallerRoutedZone& zone_;
  s4u::Host* source_;
  s4u::Host* destination_;
  Model& network_;
  std::vector<s4u::Link*> links_;

  std::deque<Flow> flows_;  // addresses stay; `idle_` ones are taken again
  std::vector<Flow*> idle_;
  std::unordered_map<FlowNumber, Flow*> live_;
  std::uint64_t starts_ = 0;

  EarliestFirst<Appointment<Flow>> calendar_;
  std::uint64_t appointments_ = 0;
  std::vector<double> alarms_;  // dates of SimGrid timers that are set, latest first

  EarliestFirst<std::pair<std::uint64_t, Flow*>> ended_;  // by order of start; not reported yet
  std::size_t wakes_due_ = 0;
  bool reporting_ = false;
  bool in_completion_ = false;        // SimGrid has not let go of the last of `graves_` yet
  std::vector<s4u::CommPtr> graves_;  // ended, but SimGrid uses them until time goes on
  std::exception_ptr failure_;        // of a callback, until run() throws it

  const std::function<void(FlowNumber)>* done_ = nullptr;
  const std::function<void()>* woken_ = nullptr;
  // SimGrid's signals cannot be disconnected: they look here whether there still is somebody.
  std::shared_ptr<S4uFlows*> self_ = std::make_shared<S4uFlows*>(this);
};

S4uFlows::S4uFlows()
    : engine_(simgrid_engine()),
      zone_(*std::make_unique<CallerRoutedZone>().release()),  // SimGrid's from here on
      source_(zone_.get_iface()->create_host("source", 1.0)),
      destination_(zone_.get_iface()->create_host("destination", 1.0)),
      network_(network_model(engine_)) {
  auto* factors = zone_.get_iface()->get_network_model();
  using Links = std::vector<s4u::Link*>;
  using Zones = std::unordered_set<s4u::NetZone*>;
  factors->set_lat_factor_cb(
      [](double, const s4u::Host*, const s4u::Host*, const Links&, const Zones&) { return 0.0; });
  factors->set_bw_factor_cb([&zone = zone_](double, const s4u::Host*, const s4u::Host*, const Links&,
                                            const Zones&) { return zone.units_per_byte(); });
  s4u::Activity::on_completion_cb([self = self_](const s4u::Activity& comm) {
    if (*self != nullptr) (*self)->on_completion(comm);
  });
  s4u::Engine::on_time_advance_cb([self = self_](double) {
    if (*self != nullptr) (*self)->graves_.clear();
  });
}

S4uFlows::~S4uFlows() {
  *self_ = nullptr;
  // SimGrid crashes if the last reference to a moving Comm goes.
  for (Flow& flow : flows_) flow.comm.detach();
}

void S4uFlows::add_link(double bytes_per_second) {
  links_.push_back(zone_.get_iface()->create_link(std::to_string(links_.size()), bytes_per_second)->seal());
}

// SimGrid overlooks a rate that is set on a Comm without actors, but has links that do not share.
void S4uFlows::add_ceiling(double bytes_per_second) {
  s4u::Link* const link = zone_.get_iface()->create_link(std::to_string(links_.size()), bytes_per_second);
  links_.push_back(link->set_sharing_policy(s4u::Link::SharingPolicy::FATPIPE)->seal());
}

Flow& S4uFlows::new_flow(std::span<const LinkNumber> links, double bytes, FlowNumber number) {
  const auto [entry, is_new] = live_.try_emplace(number, nullptr);
  require(is_new, "a flow of that number is alive");
  if (idle_.empty()) idle_.push_back(&flows_.emplace_back());
  Flow& flow = *idle_.back();
  idle_.pop_back();
  entry->second = &flow;
  flow.number = number;
  flow.bytes = bytes;
  flow.ended = false;
  flow.links.clear();
  for (const LinkNumber link : links) flow.links.push_back(links_[link]->get_impl());
  return flow;
}

void S4uFlows::start(const FlowLinks& links, double bytes, double date, FlowNumber number) {
  for (const double weight : links.weights)
    require(weight == 1, "SimGrid's communications take no weights: FlowSolver::lmm does");
  Flow& flow = new_flow(links.links, bytes, number);
  if (date > now())
    make_appointment(date, &flow);
  else
    begin(flow);
}

void S4uFlows::wake(double date) {
  if (date > now()) return make_appointment(date, nullptr);
  ++wakes_due_;
  if (!reporting_) set_alarm(now());
}

void S4uFlows::begin(Flow& flow) {
  flow.order = starts_++;
  flow.units_per_byte = units_per_byte(flow.bytes);
  const auto units = static_cast<std::uint64_t>(flow.bytes * flow.units_per_byte);
  if (units == 0) {  // SimGrid would never start it
    flow.ended = true;
    ended_.emplace(flow.order, &flow);
    if (!reporting_) set_alarm(now());
    return;
  }
  zone_.start_next(flow);
  flow.comm = s4u::Comm::sendto_init();
  flow.comm->set_payload_size(units);
  flow.comm->set_data(&flow);
  flow.comm->set_source(source_)->set_destination(destination_);  // both ends known: it starts
}

void S4uFlows::make_appointment(double date, Flow* flow) {
  calendar_.push({date, appointments_++, flow});
  set_alarm(date);
}

// Timers of SimGrid fire in no particular order at one date, and cost more than our calendar: only one is set
// for the calendar's first date, and another when an earlier one comes.
void S4uFlows::set_alarm(double date) {
  if (!alarms_.empty() && alarms_.back() <= date) return;
  alarms_.push_back(date);
  Timer::set(date, [self = self_] {
    if (*self != nullptr) (*self)->on_alarm();
  });
}

void S4uFlows::on_alarm() {
  alarms_.pop_back();
  reporting_ = true;  // at the end of this function: begin() needs no alarm for it
  while (!calendar_.empty() && calendar_.top().date <= now()) {
    Flow* flow = calendar_.top().flow;
    calendar_.pop();
    if (flow == nullptr)
      ++wakes_due_;
    else
      begin(*flow);
  }
  reporting_ = false;
  if (!calendar_.empty()) set_alarm(calendar_.top().date);
  if (!completions_pending()) report();
}

void S4uFlows::on_completion(const s4u::Activity& comm) {
  Flow& flow = *comm.get_data<Flow>();
  flow.ended = true;
  graves_.push_back(std::move(flow.comm));
  ended_.emplace(flow.order, &flow);
  if (completions_pending()) return;  // more ends at this date
  in_completion_ = true;
  report();
  in_completion_ = false;
}

// Calls back for all that has happened at this date. Callbacks may add to it. Nothing may be thrown through
// SimGrid's code that ends a Comm: a timer of this date throws instead.
void S4uFlows::report() {
  if (failure_) return;
  reporting_ = true;
  try {
    while (!ended_.empty() || wakes_due_ > 0) ended_.empty() ? report_wake() : report_end();
  } catch (...) {
    failure_ = std::current_exception();
    Timer::set(now(), [self = self_] {
      if (*self != nullptr) std::rethrow_exception(std::exchange((*self)->failure_, nullptr));
    });
  }
  reporting_ = false;
}

void S4uFlows::report_end() {
  Flow* flow = ended_.top().second;
  ended_.pop();
  live_.erase(flow->number);
  idle_.push_back(flow);
  (*done_)(flow->number);
}

void S4uFlows::report_wake() {
  --wakes_due_;
  (*woken_)();
}

double S4uFlows::remaining(FlowNumber number) const {
  const auto found = live_.find(number);
  require(found != live_.end(), "no flow of that number is alive");
  const Flow& flow = *found->second;
  if (flow.ended) return 0;
  return flow.comm ? flow.comm->get_remaining() / flow.units_per_byte : flow.bytes;  // brought up to now
}

double S4uFlows::usage(LinkNumber link) const {
  if (in_completion_) release_share(*graves_.back());
  network_.next_occurring_event(now());  // solves if something changed; changes nothing otherwise
  return links_[link]->get_usage();
}

void S4uFlows::run(const std::function<void(FlowNumber)>& done, const std::function<void()>& woken) {
  done_ = &done;
  woken_ = &woken;
  if (!ended_.empty() || wakes_due_ > 0) set_alarm(now());  // left by a run that threw
  engine_.run();
  require(live_.empty() && calendar_.empty(), "SimGrid stopped while flows were alive");
}

}  // namespace

std::unique_ptr<FlowMover> s4u_mover() { return std::make_unique<S4uFlows>(); }

}  // namespace simrun
