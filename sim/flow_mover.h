#pragma once

#include <memory>
#include <span>
#include <stdexcept>
#include <tuple>

#include "sim/flow_engine.h"

// What stands behind a FlowEngine.
namespace simrun {

struct FlowLinks {
  std::span<const LinkNumber> links;
  std::span<const double> weights;  // none: 1 each
};

// As FlowEngine says of its own functions, whose arguments are checked before they come here, but for the
// numbers of flows: whether one is alive is known here.
class FlowMover {
 public:
  FlowMover() = default;
  FlowMover(const FlowMover&) = delete;
  FlowMover& operator=(const FlowMover&) = delete;
  virtual ~FlowMover() = default;

  virtual void add_link(double bytes_per_second) = 0;     // numbers count from 0
  virtual void add_ceiling(double bytes_per_second) = 0;  // numbered among them
  virtual void seal() = 0;                                // before the first flow or wake-up: no more links
  virtual void start(const FlowLinks& links, double bytes, double date, FlowNumber flow) = 0;
  virtual void wake(double date) = 0;
  virtual double now() const = 0;
  virtual std::size_t live() const = 0;
  virtual double remaining(FlowNumber flow) const = 0;
  virtual double usage(LinkNumber link) const = 0;
  virtual void run(const std::function<void(FlowNumber)>& done, const std::function<void()>& woken) = 0;
};

std::unique_ptr<FlowMover> s4u_mover();
std::unique_ptr<FlowMover> lmm_mover();

// A flow to start, or a wake-up if there is none.
template <class Flow>
struct Appointment {
  double date = 0;
  std::uint64_t order = 0;  // of calls: two of one date are kept in it
  Flow* flow = nullptr;
  bool operator>(const Appointment& other) const {
    return std::tie(date, order) > std::tie(other.date, other.order);
  }
};

inline void require(bool right, const char* sentence) {
  if (!right) throw std::logic_error(sentence);
}

}  // namespace simrun
