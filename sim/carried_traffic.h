#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "schedules/timeline.h"
#include "sim/collective_flows.h"

namespace simrun {

// One position of an exchange as flows, which others may have, too, and how many bytes the shares are of.
class NetworkExchange {
 public:
  NetworkExchange() = default;
  NetworkExchange(ExchangeFlows flows, double of_bytes)
      : NetworkExchange(std::make_shared<const ExchangeFlows>(std::move(flows)), of_bytes) {}
  NetworkExchange(std::shared_ptr<const ExchangeFlows> flows, double of_bytes)
      : bytes(of_bytes), flows_(std::move(flows)) {}
  const ExchangeFlows& flows() const {
    static const ExchangeFlows none;
    return flows_ ? *flows_ : none;
  }
  bool is_last_user() const { return flows_.use_count() == 1; }

  double bytes = 0;

 private:
  std::shared_ptr<const ExchangeFlows> flows_;
};

// A link of a flow that stands for several (sim/symmetry.h, in_step): how many of these cross it, and whether
// they are of more than one transfer.
struct CarriedLink {
  LinkIndex link = 0;
  std::uint32_t flows : 31 = 1;
  std::uint32_t several : 1 = 0;
};

// Flat arrays of what a Network carries: exchanges have phases, these have flows, these have links.
struct CarriedFlow {
  static constexpr std::uint32_t no_ceiling = ~std::uint32_t{0};
  std::uint32_t first_link = 0, links = 0;
  double bytes = 0;
  std::uint32_t alike = 1;             // flows that it stands for
  std::uint32_t ceiling = no_ceiling;  // of its rate, beside that of its links: into CarriedTraffic::ceilings
};
struct CarriedPhase {
  double latency_s = 0;
  std::uint32_t first_flow = 0, flows = 0;
  bool independent = false;  // FlowPhase
};
struct CarriedExchange {
  std::uint32_t first_phase = 0, phases = 0;  // none: not carried
};
struct CarriedPeriodic {  // of another job: sim/other_jobs.h
  CarriedExchange exchange;
  Picoseconds period = 0, phase = 0;
};
struct CarriedTraffic {
  std::vector<std::vector<CarriedExchange>> exchanges;  // by exchange and position
  std::vector<CarriedPeriodic> periodic;
  std::vector<CarriedPhase> phases;
  std::vector<CarriedFlow> flows;
  std::vector<CarriedLink> links;
  std::vector<double> weights;   // by link: its rate / the flow's; empty: as many as there are flows
  std::vector<double> ceilings;  // bytes/s
};

// Room for all of these, so that lists of millions are not copied while they grow.
void reserve(CarriedTraffic& traffic, std::span<const NetworkExchange* const> exchanges);

// Puts exchanges, with every flow for itself, behind those that are there. None is faster than the one of its
// phase that would end last on idle links needs (see in_step()), an independent one than it itself may be.
class TrafficAppender {
 public:
  // Both must outlive it.
  TrafficAppender(const Topology& topology, CarriedTraffic& traffic)
      : topology_(topology), traffic_(traffic) {}
  CarriedExchange append(const NetworkExchange& exchange);

 private:
  void append(const FlowPhase& phase, double bytes);
  std::uint32_t ceiling(const SharedFlow& flow, double seconds_per_byte);

  const Topology& topology_;
  CarriedTraffic& traffic_;
  std::map<double, std::uint32_t> number_;  // of a ceiling, by bytes/s
};

// The same with one flow for each phase but independent ones, whose bytes are those of its largest. A step of
// a ring, a tree or an all-to-all passes on what the step before has brought, so no edge runs ahead of the
// others; were each shared max-min for itself, those inside a node would, and on the PCIe switch hold up the
// one over the NIC that all of them wait for. On links that it has for itself a phase then takes as long as
// their loads need, and so do alike phases that begin together: what the fast engine says.
CarriedTraffic in_step(const CarriedTraffic& traffic, LinkIndex links);

// All of them, as `exchanges[e][position]`: no phases where that position of exchange e is not carried.
CarriedTraffic carried_traffic(const Topology& topology,
                               const std::vector<std::vector<NetworkExchange>>& exchanges);

}  // namespace simrun
