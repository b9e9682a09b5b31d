#include "sim/exchange_costs.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <utility>

#include "sim/exchange_groups.h"
#include "sim/kernel_cost.h"
#include "sim/server_flows.h"

namespace simrun {

namespace {

// The sum of shares on each of at most so many links: a hash table of a fixed size, since most links of a
// cluster are idle.
class LinkLoads {
 public:
  explicit LinkLoads(std::size_t most_links) : slots_(std::bit_ceil(2 * most_links + 1)) {}
  void add(LinkIndex link, double share) {
    Slot& slot = slots_[slot_of(link)];
    slot.link_plus_1 = std::uint64_t{link} + 1;
    slot.load += share;
  }
  double of(LinkIndex link) const { return slots_[slot_of(link)].load; }

 private:
  struct Slot {
    std::uint64_t link_plus_1 = 0;  // 0: free
    double load = 0;
  };
  std::size_t slot_of(LinkIndex link) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = std::uint64_t{link} * 0x9e3779b97f4a7c15u >> 32 & mask;
    while (slots_[slot].link_plus_1 != 0 && slots_[slot].link_plus_1 != std::uint64_t{link} + 1)
      slot = (slot + 1) & mask;
    return slot;
  }
  std::vector<Slot> slots_;
};

void add_loads(const FlowPhase& phase, LinkLoads& loads) {
  for (const SharedFlow& flow : phase.flows)
    for (const LinkIndex link : flow.route.links()) loads.add(link, flow.share);
}

std::size_t uses_of_links(const FlowPhase& phase) {
  std::size_t links = 0;
  for (const SharedFlow& flow : phase.flows) links += flow.route.count();
  return links;
}

double busy_seconds(const Topology& topology, const SharedFlow& flow, const LinkLoads& loads) {
  double busy = flow.share / most_rate(topology, flow);
  for (const LinkIndex link : flow.route.links())
    busy = std::max(busy, loads.of(link) / topology.bandwidth(link));
  return busy;
}

// Adds what the exchanges put on links in one of their phases.
void load_phase(std::span<const ExchangeFlows> exchanges, std::size_t phase, LinkLoads& loads) {
  for (const ExchangeFlows& flows : exchanges)
    if (phase < flows.size()) add_loads(flows[phase], loads);
}

std::size_t uses_of_links(std::span<const ExchangeFlows> exchanges, std::size_t phase) {
  std::size_t links = 0;
  for (const ExchangeFlows& flows : exchanges)
    if (phase < flows.size()) links += uses_of_links(flows[phase]);
  return links;
}

void add_phase(const Topology& topology, std::span<const ExchangeFlows> exchanges, std::size_t phase,
               LockstepCosts& costs) {
  LinkLoads loads(std::min<std::size_t>(uses_of_links(exchanges, phase), topology.links()));
  load_phase(exchanges, phase, loads);
  LinearCost slowest;
  for (std::size_t i = 0; i < exchanges.size(); ++i) {
    if (phase >= exchanges[i].size()) continue;
    LinearCost own{exchanges[i][phase].latency_s, 0};
    for (const SharedFlow& flow : exchanges[i][phase].flows)
      own.seconds_per_byte = std::max(own.seconds_per_byte, busy_seconds(topology, flow, loads));
    costs.each[i].latency_s += own.latency_s;
    costs.each[i].seconds_per_byte += own.seconds_per_byte;
    slowest.latency_s = std::max(slowest.latency_s, own.latency_s);
    slowest.seconds_per_byte = std::max(slowest.seconds_per_byte, own.seconds_per_byte);
  }
  costs.together.latency_s += slowest.latency_s;
  costs.together.seconds_per_byte += slowest.seconds_per_byte;
}

// Exchanges of unlike ways, a ring beside one by levels, meet on a link in phases of other numbers: the last
// of them is done when their links have carried all of it, and each is taken to be so.
void add_other_phases(const Topology& topology, std::span<const ExchangeFlows> exchanges, std::size_t phases,
                      LockstepCosts& costs) {
  std::size_t uses = 0;
  for (std::size_t phase = 0; phase < phases; ++phase) uses += uses_of_links(exchanges, phase);
  LinkLoads loads(std::min<std::size_t>(uses, topology.links()));
  for (std::size_t phase = 0; phase < phases; ++phase) load_phase(exchanges, phase, loads);
  for (std::size_t i = 0; i < exchanges.size(); ++i) {
    double& own = costs.each[i].seconds_per_byte;
    for (const FlowPhase& phase : exchanges[i])
      for (const SharedFlow& flow : phase.flows)
        for (const LinkIndex link : flow.route.links())
          own = std::max(own, loads.of(link) / topology.bandwidth(link));
    costs.together.seconds_per_byte = std::max(costs.together.seconds_per_byte, own);
  }
}

void keep_one_if_equal(std::vector<LinearCost>& costs) {
  if (!costs.empty() && std::adjacent_find(costs.begin(), costs.end(), std::not_equal_to<>()) == costs.end())
    costs.resize(1);
}

LinearCost idle_cost(const Topology& topology, const ExchangeFlows& flows) {
  return lockstep_costs(topology, {&flows, 1}).together;
}

}  // namespace

LockstepCosts lockstep_costs(const Topology& topology, std::span<const ExchangeFlows> exchanges) {
  LockstepCosts costs;
  costs.each.resize(exchanges.size());
  std::size_t phases = 0, fewest = std::numeric_limits<std::size_t>::max();
  for (const ExchangeFlows& flows : exchanges) {
    phases = std::max(phases, flows.size());
    if (!flows.empty()) fewest = std::min(fewest, flows.size());
  }
  for (std::size_t phase = 0; phase < phases; ++phase) add_phase(topology, exchanges, phase, costs);
  if (fewest < phases) add_other_phases(topology, exchanges, phases, costs);
  keep_one_if_equal(costs.each);
  return costs;
}

std::vector<double> busy_seconds_per_byte(const Topology& topology, const FlowPhase& phase) {
  LinkLoads loads(std::min<std::size_t>(uses_of_links(phase), topology.links()));
  add_loads(phase, loads);
  std::vector<double> busy;
  busy.reserve(phase.flows.size());
  for (const SharedFlow& flow : phase.flows) busy.push_back(busy_seconds(topology, flow, loads));
  return busy;
}

ExchangeCosts::ExchangeCosts(const Topology& topology, const Plan& plan, std::int32_t pipeline_rank,
                             Opcode opcode, const Communication& communication)
    : topology_(topology),
      plan_(plan),
      communication_(communication),
      pipeline_rank_(pipeline_rank),
      opcode_(opcode) {
  if (is_by_device())
    classify_transfers();
  else
    classify_collectives();
}

void ExchangeCosts::add(const Class& instance) {
  const auto found = std::find(classes_.begin(), classes_.end(), instance);
  class_of_.push_back(static_cast<Index>(found - classes_.begin()));
  if (found == classes_.end()) classes_.push_back(instance);
}

void ExchangeCosts::classify_collectives() {
  std::map<std::pair<std::size_t, std::size_t>, Class> inside_node;  // by ranks and kind of links
  for (const std::vector<std::int64_t>& devices :
       group_instances(plan_, pipeline_rank_, communication_.group)) {
    const bool is_inside = !topology_.has_faults() && topology_.is_switched() &&
                           topology_.domain_of(devices.front()) == topology_.domain_of(devices.back());
    inside_nodes_ &= is_inside;
    const std::pair key(devices.size(), topology_.link_kind_of(devices.front()));
    if (const auto known = inside_node.find(key); is_inside && known != inside_node.end()) {
      add(known->second);
      continue;
    }
    const Class instance = class_of(devices);
    if (is_inside) inside_node.emplace(key, instance);
    add(instance);
  }
}

void ExchangeCosts::classify_transfers() {
  if (communication_.servers.one_sided) one_sided_ = one_sided_members(plan_, pipeline_rank_, communication_);
  inside_nodes_ = false;  // their ends need not be distinct devices
  const std::int64_t devices = device_count(plan_, pipeline_rank_);
  for (std::int64_t i = 0; i < devices; ++i)
    add({{.choice = {}, .cost = idle_cost(topology_, transfer_of(i))}});
}

ExchangeCosts::Class ExchangeCosts::class_of(std::span<const std::int64_t> devices) const {
  if (has_servers(opcode_))
    return {
        {.choice = {},
         .cost = idle_cost(topology_, server_flows(topology_, opcode_, communication_.servers, devices))}};
  Class instance;
  for (const TunedCollective& way : collective_ways(topology_, plan_.cluster, opcode_, devices))
    instance.push_back({way.choice, idle_cost(topology_, way.flows)});
  if (instance.empty()) instance.emplace_back();  // one device
  return instance;
}

ExchangeFlows ExchangeCosts::transfer_of(std::int64_t local_index) const {
  if (communication_.servers.one_sided) {
    const std::span<const std::int64_t> members = one_sided_.at(static_cast<std::size_t>(local_index));
    return one_sided_flows(topology_, opcode_, members.front(), members.subspan(1));
  }
  const std::int64_t own = device_at(plan_, pipeline_rank_, local_index);
  const std::int64_t peer = peer_of(plan_, pipeline_rank_, communication_, local_index);
  if (peer < 0) return {};
  return opcode_ == Opcode::send ? transfer_flows(topology_, own, peer)
                                 : transfer_flows(topology_, peer, own);
}

ExchangeCosts::Choice ExchangeCosts::choice(double bytes) const {
  Choice choice(classes_.size());
  for (std::size_t i = 0; i < classes_.size(); ++i) {
    const auto fastest = std::ranges::min_element(classes_[i], std::less<>(),
                                                  [&](const Way& way) { return way.cost.at(bytes); });
    choice[i] = static_cast<std::uint8_t>(fastest - classes_[i].begin());
  }
  return choice;
}

std::vector<ExchangeFlows> ExchangeCosts::flows(const Choice& choice) const {
  std::vector<ExchangeFlows> flows;
  flows.reserve(class_of_.size());
  if (is_by_device()) {
    for (std::size_t i = 0; i < class_of_.size(); ++i)
      flows.push_back(transfer_of(static_cast<std::int64_t>(i)));
    return flows;
  }
  for (const std::vector<std::int64_t>& devices :
       group_instances(plan_, pipeline_rank_, communication_.group)) {
    const Index index = class_of_[flows.size()];
    flows.push_back(has_servers(opcode_) ? server_flows(topology_, opcode_, communication_.servers, devices)
                                         : flows_of_way(topology_, plan_.cluster, opcode_, devices,
                                                        classes_[index][choice[index]].choice));
  }
  return flows;
}

const LockstepCosts& ExchangeCosts::costs(double bytes) {
  const auto [found, is_new] = costs_.try_emplace(choice(bytes));
  LockstepCosts& costs = found->second;
  const bool is_alone = class_of_.size() == 1 && !is_by_device();
  if (is_new && (inside_nodes_ || is_alone)) {
    // One instance meets no other, and a GPU's NVLink ports serve one: nothing is shared, and the flows need
    // not be listed.
    for (const Index index : class_of_) {
      const LinearCost& own = classes_[index][found->first[index]].cost;
      costs.together.latency_s = std::max(costs.together.latency_s, own.latency_s);
      costs.together.seconds_per_byte = std::max(costs.together.seconds_per_byte, own.seconds_per_byte);
      costs.each.push_back(own);
    }
    keep_one_if_equal(costs.each);
  } else if (is_new) {
    costs = lockstep_costs(topology_, flows(found->first));
  }
  return costs;
}

Picoseconds ExchangeCosts::together(double bytes) { return to_picoseconds(costs(bytes).together.at(bytes)); }

Picoseconds ExchangeCosts::of_device(std::int32_t pipeline_rank, std::int64_t local_index, double bytes) {
  const LockstepCosts& all = costs(bytes);
  auto exchange = static_cast<std::size_t>(local_index);
  if (all.each.size() > 1 && !is_by_device()) {
    const auto [found, is_new] = instances_.try_emplace(pipeline_rank);
    if (is_new) found->second = instance_of_devices(plan_, pipeline_rank, communication_.group);
    exchange = found->second.at(exchange);
  }
  return to_picoseconds(all.of(exchange).at(bytes));
}

bool ExchangeCosts::is_uniform(double bytes) const {
  const Choice chosen = choice(bytes);
  const auto alone = [&](std::size_t i) { return to_picoseconds(classes_[i][chosen[i]].cost.at(bytes)); };
  for (std::size_t i = 1; i < classes_.size(); ++i)
    if (alone(i) != alone(0)) return false;
  return true;
}

}  // namespace simrun
