#include "sim/symmetry.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "sim/equitable_partition.h"
#include "sim/flow_engine.h"

namespace simrun {

namespace {

using Colour = std::uint64_t;

// The mixing steps are splitmix64's (Steele et al. 2014).
Colour mixed(Colour a, Colour b) {
  Colour x = a * 0x9e3779b97f4a7c15u + b + 0x632be59bd9b4e019u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
Colour bits(double number) { return std::bit_cast<Colour>(number); }

Colour colour_of(const CarriedFlow& flow, Index phase) {
  return mixed(mixed(mixed(4, Colour{phase}), bits(flow.bytes)), Colour{flow.ceiling});
}

bool is_transfer(const CompiledPlan& compiled, const CompiledExchange& exchange) {
  if (exchange.channel != no_index) return compiled.channels[exchange.channel].point_to_point;
  return exchange.instruction->opcode == Opcode::send || exchange.instruction->opcode == Opcode::recv;
}

// Who is alike. A graph of GPUs, exchanges at the positions where they meet (several have a place in common),
// their flows and the links that these cross: an edge from each to the next.
class Likeness {
 public:
  explicit Likeness(const FoldInput& of) : of_(of) {
    colours_.reserve(of.traffic.flows.size() + of.topology.links());
    flow_.reserve(of.traffic.flows.size());
    add_gpus();
    for (Index e = 0; e < of.compiled.exchanges.size(); ++e) add_exchange(e);
    add_links();
    class_of_ = equitable_classes(std::move(colours_), [this](const SeeEdge& see) { visit(see); });
  }

  // Equal numbers: alike.
  Index gpu(std::size_t rank, Index local) const { return class_of_[first_gpu_[rank] + local]; }
  Index place(Index number) const { return class_of_[place_.at(number)]; }
  Index flow(Index number) const { return class_of_[flow_[number]]; }
  Index link(LinkIndex number) const { return class_of_[link_[number]]; }
  bool is_used(LinkIndex link) const { return link_[link] != no_index; }
  const std::string& name(LinkIndex link) const { return name_[link]; }

 private:
  Index add_vertex(Colour colour) {
    colours_.push_back(colour);
    return static_cast<Index>(colours_.size() - 1);
  }

  void add_gpus() {
    for (std::size_t rank = 0; rank < of_.meetings.gpus.size(); ++rank) {
      first_gpu_.push_back(static_cast<Index>(colours_.size()));
      for (Index g = 0; g < of_.meetings.gpus[rank]; ++g)
        colours_.push_back(mixed(mixed(1, rank), of_.compiled.class_of(static_cast<Index>(rank), g)));
    }
  }

  void add_exchange(Index e) {
    const Meeting& meeting = of_.meetings.of_exchange[e];
    first_instance_.push_back(static_cast<Index>(colours_.size()));
    for (Index p = 0; p < meeting.positions; ++p) {
      Colour colour = mixed(mixed(2, Colour{e}), bits(meeting.bytes[p]));
      colour = mixed(colour, static_cast<Colour>(meeting.durations[p]));
      const CarriedExchange& carried = of_.traffic.exchanges[e][p];
      for (Index i = 0; i < carried.phases; ++i)
        colour = mixed(colour, bits(of_.traffic.phases[carried.first_phase + i].latency_s));
      add_vertex(colour);
    }
    for (Index p = 0; p < meeting.positions; ++p) {
      const auto [place, fresh] = place_.try_emplace(meeting.first + p, 0);
      if (fresh) place->second = add_vertex(3);
    }
    for (const CarriedExchange& carried : of_.traffic.exchanges[e])
      for (Index i = 0; i < carried.phases; ++i) {
        const CarriedPhase& phase = of_.traffic.phases[carried.first_phase + i];
        for (Index f = phase.first_flow; f < phase.first_flow + phase.flows; ++f)
          flow_.push_back(add_vertex(colour_of(of_.traffic.flows[f], i)));
      }
  }

  void add_links() {
    const LinkIndex links = of_.topology.links();
    link_.assign(links, no_index);
    name_.resize(links);
    std::vector<bool> carries(links, false);
    for (const CarriedLink& link : of_.traffic.links) carries[link.link] = true;
    for (LinkIndex link = 0; link < links; ++link) {
      const LinkMeter::Link& alone = of_.meter.at(link);
      if (!carries[link] && alone.bytes <= 0) continue;
      name_[link] = of_.topology.name(link);
      Colour colour = mixed(5, bits(of_.topology.bandwidth(link)));
      colour = mixed(colour, static_cast<Colour>(std::llround(alone.bytes)));
      colour = mixed(colour, static_cast<Colour>(alone.busy));
      for (const char c : name_[link])  // its kind: "nic.tx" of "node3.nic1.tx"
        if (c < '0' || c > '9') colour = mixed(colour, static_cast<Colour>(c));
      link_[link] = add_vertex(colour);
    }
  }

  void visit(const SeeEdge& see) const {
    for (Index e = 0; e < of_.compiled.exchanges.size(); ++e) {
      const Meeting& meeting = of_.meetings.of_exchange[e];
      const Index gpus = first_gpu_[static_cast<std::size_t>(of_.compiled.exchanges[e].pipeline_rank)];
      for (Index g = 0; g < meeting.position.size(); ++g)
        if (meeting.position[g] != no_index) see({gpus + g, first_instance_[e] + meeting.position[g]});
      for (Index p = 0; p < meeting.positions; ++p) {
        see({first_instance_[e] + p, place_.at(meeting.first + p)});
        visit_flows(of_.traffic.exchanges[e][p], first_instance_[e] + p, see);
      }
    }
  }
  void visit_flows(const CarriedExchange& carried, Index instance, const SeeEdge& see) const {
    for (Index i = carried.first_phase; i < carried.first_phase + carried.phases; ++i) {
      const CarriedPhase& phase = of_.traffic.phases[i];
      for (Index f = phase.first_flow; f < phase.first_flow + phase.flows; ++f) {
        see({instance, flow_[f]});
        const CarriedFlow& flow = of_.traffic.flows[f];
        for (Index l = flow.first_link; l < flow.first_link + flow.links; ++l)
          see({flow_[f], link_[of_.traffic.links[l].link]});
      }
    }
  }

  const FoldInput& of_;
  std::vector<Colour> colours_;             // by vertex
  std::vector<Index> first_gpu_;            // by pipeline rank: vertex
  std::vector<Index> first_instance_;       // by exchange: vertex of its position 0
  std::unordered_map<Index, Index> place_;  // by number of the first rendezvous there: vertex
  std::vector<Index> flow_, link_;  // as in the traffic and the topology: vertices; no_index: not used
  std::vector<std::string> name_;   // by link
  std::vector<Index> class_of_;     // by vertex
};

class Folder {
 public:
  Folder(const FoldInput& of, const Likeness& likeness) : of_(of), likeness_(likeness) {}

  std::optional<Folding> fold() {
    fold_gpus();
    if (simulated_ == gpus_) return {};
    fold_links();
    folded_.meetings.instantiation = of_.meetings.instantiation;
    folded_.traffic.ceilings = of_.traffic.ceilings;
    for (Index e = 0; e < of_.compiled.exchanges.size(); ++e) {
      const std::vector<Index>* const firsts = fold_meeting(e);
      if (firsts == nullptr) return {};
      fold_traffic(e, *firsts);
    }
    return std::move(folded_);
  }

 private:
  // Positions that several exchanges have in common, by the number of the first rendezvous.
  struct Family {
    Index first = 0;                // of the folded ones
    std::vector<Index> class_of;    // by position
    std::vector<Index> first_like;  // by class: a position
  };

  void fold_gpus() {
    for (std::size_t rank = 0; rank < of_.meetings.gpus.size(); ++rank) {
      std::unordered_map<Index, Index> known;
      std::vector<GpuClass>& classes = folded_.meetings.classes.emplace_back();
      std::vector<Index>& class_of = folded_.meetings.class_of_gpu.emplace_back();
      for (Index g = 0; g < of_.meetings.gpus[rank]; ++g) {
        const auto [found, fresh] =
            known.try_emplace(likeness_.gpu(rank, g), static_cast<Index>(classes.size()));
        if (fresh) classes.push_back({g, 0});
        ++classes[found->second].gpus;
        class_of.push_back(found->second);
      }
      folded_.meetings.gpus.push_back(static_cast<Index>(classes.size()));
      simulated_ += classes.size();
      gpus_ += class_of.size();
    }
  }

  void fold_links() {
    const LinkIndex links = of_.topology.links();
    folded_.leader.resize(links);
    folded_.alike.assign(links, 0);
    std::unordered_map<Index, LinkIndex> leaders;
    const auto before = [&](LinkIndex a, LinkIndex b) {
      if (of_.recorded[a] != of_.recorded[b]) return bool{of_.recorded[a]};
      return likeness_.name(a) < likeness_.name(b);
    };
    for (LinkIndex link = 0; link < links; ++link) {
      if (!likeness_.is_used(link)) continue;
      const auto [found, fresh] = leaders.try_emplace(likeness_.link(link), link);
      if (!fresh && before(link, found->second)) found->second = link;
    }
    for (LinkIndex link = 0; link < links; ++link) {
      folded_.leader[link] = likeness_.is_used(link) ? leaders.at(likeness_.link(link)) : link;
      if (likeness_.is_used(link)) ++folded_.alike[folded_.leader[link]];
    }
  }

  Family& family_of(Index e) {
    const Meeting& meeting = of_.meetings.of_exchange[e];
    const auto [found, fresh] = families_.try_emplace(meeting.first);
    Family& family = found->second;
    if (!fresh) return family;
    std::unordered_map<Index, Index> known;
    for (Index p = 0; p < meeting.positions; ++p) {
      const auto [place, is_new] =
          known.try_emplace(likeness_.place(meeting.first + p), static_cast<Index>(family.first_like.size()));
      if (is_new) family.first_like.push_back(p);
      family.class_of.push_back(place->second);
    }
    const Index channel = of_.compiled.exchanges[e].channel;
    const Index instances =
        meeting.per_instance ? std::max<Index>(of_.compiled.channels[channel].instances, 1) : 1;
    family.first = folded_.meetings.rendezvous;
    folded_.meetings.rendezvous += static_cast<Index>(family.first_like.size()) * instances;
    return family;
  }

  // The positions that are kept; nullptr: exchanges that meet at the same places have different ones.
  const std::vector<Index>* fold_meeting(Index e) {
    const Meeting& whole = of_.meetings.of_exchange[e];
    const CompiledExchange& exchange = of_.compiled.exchanges[e];
    const Family& family = family_of(e);
    if (family.class_of.size() != whole.positions) return nullptr;
    Meeting& meeting = folded_.meetings.of_exchange.emplace_back();
    meeting.first = family.first;
    meeting.positions = static_cast<Index>(family.first_like.size());
    meeting.per_instance = whole.per_instance;
    for (const GpuClass& gpus : folded_.meetings.classes[static_cast<std::size_t>(exchange.pipeline_rank)]) {
      const Index position = whole.position[gpus.first];
      meeting.position.push_back(position == no_index ? no_index : family.class_of[position]);
    }
    for (const Index p : family.first_like) {
      meeting.expected.push_back(is_transfer(of_.compiled, exchange) ? whole.expected[p] : arrivals(e, p));
      meeting.durations.push_back(whole.durations[p]);
      meeting.bytes.push_back(whole.bytes[p]);
      meeting.members.push_back(whole.members[p]);
    }
    return &family.first_like;
  }

  // Simulated GPUs that come to a collective: over several pipeline ranks, those of all its exchanges.
  Index arrivals(Index e, Index position) {
    const Index channel = of_.compiled.exchanges[e].channel;
    std::unordered_set<Colour> present;
    for (Index other = 0; other < of_.compiled.exchanges.size(); ++other) {
      if (other != e && (channel == no_index || of_.compiled.exchanges[other].channel != channel)) continue;
      add_present(other, position, present);
    }
    return static_cast<Index>(present.size());
  }
  void add_present(Index e, Index position, std::unordered_set<Colour>& present) {
    const auto rank = static_cast<std::size_t>(of_.compiled.exchanges[e].pipeline_rank);
    std::vector<std::vector<Index>>& gpus = gpus_at_[e];
    const Meeting& meeting = of_.meetings.of_exchange[e];
    if (gpus.empty()) {
      gpus.resize(meeting.positions);
      for (Index g = 0; g < meeting.position.size(); ++g)
        if (meeting.position[g] != no_index) gpus[meeting.position[g]].push_back(g);
    }
    for (const Index g : gpus[position]) present.insert(mixed(rank, folded_.meetings.class_of_gpu[rank][g]));
  }

  struct KeptFlow {
    Index whole = 0, folded = 0;         // numbers in the traffic
    std::vector<LinkIndex> links;        // of the whole one, one for each class
    std::vector<Index> first_positions;  // by link: of the first flow that was found on it
  };

  void fold_traffic(Index e, const std::vector<Index>& firsts) {
    const CarriedTraffic& whole = of_.traffic;
    CarriedTraffic& traffic = folded_.traffic;
    std::vector<CarriedExchange>& positions = traffic.exchanges.emplace_back();
    std::vector<KeptFlow> kept;
    std::unordered_map<Index, Index> kept_of;  // by class, into `kept`
    for (const Index p : firsts) {
      const CarriedExchange& exchange = whole.exchanges[e][p];
      positions.push_back({static_cast<Index>(traffic.phases.size()), exchange.phases});
      for (Index i = exchange.first_phase; i < exchange.first_phase + exchange.phases; ++i) {
        const CarriedPhase& phase = whole.phases[i];
        traffic.phases.push_back(
            {phase.latency_s, static_cast<Index>(traffic.flows.size()), 0, phase.independent});
        for (Index f = phase.first_flow; f < phase.first_flow + phase.flows; ++f)
          if (kept_of.try_emplace(likeness_.flow(f), static_cast<Index>(kept.size())).second) {
            kept.push_back(keep(f));
            ++traffic.phases.back().flows;
          }
      }
    }
    if (kept.empty()) return;
    for (Index p = 0; p < whole.exchanges[e].size(); ++p) {
      const CarriedExchange& exchange = whole.exchanges[e][p];
      for (Index i = exchange.first_phase; i < exchange.first_phase + exchange.phases; ++i)
        for (Index f = whole.phases[i].first_flow; f < whole.phases[i].first_flow + whole.phases[i].flows;
             ++f)
          count(f, p, kept[kept_of.at(likeness_.flow(f))]);
    }
  }

  KeptFlow keep(Index f) {
    const CarriedFlow& flow = of_.traffic.flows[f];
    CarriedTraffic& traffic = folded_.traffic;
    KeptFlow kept{f, static_cast<Index>(traffic.flows.size()), {}, {}};
    const auto first_link = static_cast<Index>(traffic.links.size());
    for (Index i = flow.first_link; i < flow.first_link + flow.links; ++i) {
      const LinkIndex link = of_.traffic.links[i].link, leader = folded_.leader[link];
      const bool is_known = std::any_of(traffic.links.begin() + first_link, traffic.links.end(),
                                        [&](const CarriedLink& known) { return known.link == leader; });
      if (is_known) continue;
      kept.links.push_back(link);
      kept.first_positions.push_back(no_index);
      traffic.links.push_back({leader, 0, 0});
    }
    traffic.flows.push_back({first_link, static_cast<Index>(kept.links.size()), flow.bytes, 0, flow.ceiling});
    return kept;
  }

  void count(Index f, Index position, KeptFlow& kept) {
    const CarriedFlow& flow = of_.traffic.flows[f];
    CarriedFlow& folded = folded_.traffic.flows[kept.folded];
    ++folded.alike;
    for (Index i = flow.first_link; i < flow.first_link + flow.links; ++i) {
      const auto found = std::find(kept.links.begin(), kept.links.end(), of_.traffic.links[i].link);
      if (found == kept.links.end()) continue;
      const auto at = static_cast<std::size_t>(found - kept.links.begin());
      CarriedLink& link = folded_.traffic.links[folded.first_link + at];
      ++link.flows;
      if (kept.first_positions[at] == no_index) kept.first_positions[at] = position;
      if (kept.first_positions[at] != position) link.several = 1;
    }
  }

  const FoldInput& of_;
  const Likeness& likeness_;
  Folding folded_;
  std::size_t simulated_ = 0, gpus_ = 0;
  std::unordered_map<Index, Family> families_;
  std::unordered_map<Index, std::vector<std::vector<Index>>>
      gpus_at_;  // by exchange and position: local indices
};

bool can_fold(const FoldInput& of) {
  return std::all_of(
      of.meetings.of_exchange.begin(), of.meetings.of_exchange.end(),
      [](const Meeting& meeting) { return meeting.servers.members.empty() && !meeting.servers.one_sided; });
}

}  // namespace

std::optional<Folding> fold_alike(const FoldInput& input) {
  const bool can_weigh = input.traffic.flows.empty() || flow_solvers().front() == FlowSolver::lmm;
  if (!can_weigh || !can_fold(input)) return {};
  const Likeness likeness(input);
  return Folder(input, likeness).fold();
}

Meetings fold_alike_alone(const CompiledPlan& compiled, const Topology& topology, Meetings meetings) {
  CarriedTraffic nothing;
  for (const Meeting& of : meetings.of_exchange) nothing.exchanges.emplace_back(of.positions);
  const LinkMeter meter(topology.links(), {});
  const std::vector<bool> recorded(topology.links(), false);
  std::optional<Folding> folding = fold_alike({compiled, meetings, nothing, topology, meter, recorded});
  return folding ? std::move(folding->meetings) : std::move(meetings);
}

}  // namespace simrun
