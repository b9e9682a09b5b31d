#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace simrun {

using LinkNumber = std::uint32_t;
using FlowNumber = std::uint64_t;

// Who shares the links: SimGrid's max-min solver itself, through a plug-in below what SimGrid's packages have
// headers for, so only built where cmake/checks/lmm_check.cpp passes; or SimGrid's communications, through
// installed headers alone. They agree to 1e-9. With n flows alive at once an end costs the second n steps
// more.
enum class FlowSolver : std::uint8_t { lmm, s4u };
std::vector<FlowSolver> flow_solvers();  // those that are built in; the first is the default
std::string why_flow_solver();           // why that is the default, a sentence

class FlowMover;

// The seam to SimGrid: a fluid network. A flow moves bytes over a set of directed links; links are shared
// max-min fairly among the flows that are alive, whatever their routes' latencies (which callers add to a
// flow's start date). Dates are seconds from 0; events within 1 ps of each other are one event.
//
// One engine per process, ever: construct it in a worker (sim/worker.h), call link() for every link, then
// start() and wake(), then run(). Pure otherwise: the same calls give the same dates on every machine.
// Arguments outside of their range are std::logic_error.
class FlowEngine {
 public:
  explicit FlowEngine(FlowSolver solver = flow_solvers().front());
  ~FlowEngine();
  FlowEngine(const FlowEngine&) = delete;
  FlowEngine& operator=(const FlowEngine&) = delete;

  // A directed link of `bytes_per_second` > 0; numbers count from 0. Not after the first start() or wake().
  LinkNumber link(double bytes_per_second);

  // A limit of every single flow that has it among its links: it takes at most `bytes_per_second` > 0, and
  // nothing from others. Numbered among the links, and as early.
  LinkNumber ceiling(double bytes_per_second);

  // Starts a flow at `date`; a date before now() starts it now. Links must differ from one another and be at
  // least one beside ceilings. Bytes may be a fraction, up to 1e18; fewer than 2^-64 are none, and a flow of
  // none ends when it starts. Flows alive at one time need different numbers. `weights`, one per link
  // (whatever of a ceiling), > 0: a flow of rate r takes weight x r of a link, as so many flows of rate r do
  // that are alike in all they meet; none: 1 each. Other weights than 1 need FlowSolver::lmm.
  void start(std::span<const LinkNumber> links, double bytes, double date, FlowNumber flow,
             std::span<const double> weights = {});

  // Calls `woken` (see run) once at `date`, or at once when run() goes on if that is past.
  void wake(double date);

  double now() const;

  // Flows that have been started (or are to start) and whose end has not been reported.
  std::size_t live() const;

  // Bytes that a live flow has yet to move, as of now(); all of them before it starts.
  double remaining(FlowNumber flow) const;

  // Bytes/s on a link that is no ceiling, all flows together, from now() on: flows that `done` or `woken`
  // started at now() count, flows that ended at now() do not. Solves for the rates if something changed: read
  // many links in a row, not one per start().
  double usage(LinkNumber link) const;

  // Runs until no flow is alive and no wake-up is left. Both callbacks may call start(), wake(), remaining()
  // and usage(). An exception of a callback leaves run(); another run() goes on with the next event. At one
  // date, starts come first, then ends in the order in which the flows were started, then `woken`.
  void run(const std::function<void(FlowNumber)>& done, const std::function<void()>& woken);

 private:
  void seal();

  std::unique_ptr<FlowMover> mover_;
  std::vector<bool> is_ceiling_;  // by link
  bool sealed_ = false;
  bool running_ = false;
};

}  // namespace simrun
