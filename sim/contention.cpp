#include "sim/contention.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "schedules/timeline.h"
#include "sim/kernel_cost.h"
#include "sim/link_meter.h"

namespace simrun {

namespace {

struct ExchangeUse {
  Index exchange = 0;
  LinkUse use;
};

// Links that carry the same flows at the same times: the GPUs of a stage are alike.
struct LinkClass {
  LinkIndex first = 0;
  std::int64_t links = 0;
  std::vector<ExchangeUse> uses;
};

std::uint64_t hashed(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 29);
}

std::vector<LinkClass> link_classes(const Topology& topology, const FastRun& run) {
  std::vector<std::uint64_t> hash(topology.links(), 0);
  LinkUses uses(topology);
  const auto visit = [&](const auto& see) {
    for (Index e = 0; e < run.compiled.exchanges.size(); ++e)
      if (counts_traffic(run.compiled, e) && run.traffic.executions[e] > 0)
        for (const LinkUse& use : uses.of(run.traffic.flows[e])) see(e, use);
  };
  visit([&](Index e, const LinkUse& use) {
    std::uint64_t& of = hash[use.link];
    of = hashed(hashed(of, e + 1), std::bit_cast<std::uint64_t>(use.bytes));
    of = hashed(hashed(of, static_cast<std::uint64_t>(use.start)), static_cast<std::uint64_t>(use.end));
  });
  std::map<std::uint64_t, std::size_t> class_of_hash;
  std::vector<LinkClass> classes;
  std::vector<std::size_t> led(topology.links(), ~std::size_t{0});  // the class of which a link is the first
  for (LinkIndex link = 0; link < topology.links(); ++link) {
    if (hash[link] == 0) continue;
    std::uint64_t key = hashed(hash[link], std::bit_cast<std::uint64_t>(topology.bandwidth(link)));
    key = hashed(key, topology.is_inbound(link) ? 1 : 0);
    const auto [found, fresh] = class_of_hash.try_emplace(key, classes.size());
    if (fresh) {
      led[link] = classes.size();
      classes.push_back({link, 0, {}});
    }
    ++classes[found->second].links;
  }
  visit([&](Index e, const LinkUse& use) {
    if (led[use.link] < classes.size()) classes[led[use.link]].uses.push_back({e, use});
  });
  return classes;
}

// What one flight puts on the link.
struct Load {
  Picoseconds start = 0, end = 0;
  double share = 0;  // of the bandwidth
  std::size_t flight = 0;
};

struct Sweep {
  Picoseconds busy = 0, contended = 0;
  double excess_s = 0;
};

// Walks over the loads in order of time; marks the flights that overlap others.
Sweep sweep(std::vector<Load>& loads, std::vector<bool>& overlaps) {
  struct Edge {
    Picoseconds at = 0;
    bool starts = false;
    std::size_t load = 0;
  };
  std::vector<Edge> edges;
  for (std::size_t i = 0; i < loads.size(); ++i) {
    if (loads[i].start == loads[i].end) continue;
    edges.push_back({loads[i].start, true, i});
    edges.push_back({loads[i].end, false, i});
  }
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) {
    return std::tie(a.at, a.starts, a.load) < std::tie(b.at, b.starts, b.load);
  });
  Sweep result;
  std::map<std::size_t, Index> flights;  // present, with how many flows
  double share = 0;
  Picoseconds since = 0;
  for (const Edge& edge : edges) {
    const Picoseconds time = edge.at - since;
    if (!flights.empty()) result.busy += time;
    if (flights.size() > 1) result.contended += time;
    // A collective's own flows fill a link to just its bandwidth.
    if (flights.size() > 1 && share > 1) result.excess_s += (share - 1) * static_cast<double>(time) * 1e-12;
    since = edge.at;
    const Load& load = loads[edge.load];
    if (edge.starts) {
      share += load.share;
      ++flights[load.flight];
      if (flights.size() > 1)
        for (const auto& [flight, flows] : flights) overlaps[flight] = true;
    } else {
      share -= load.share;
      if (--flights[load.flight] == 0) flights.erase(load.flight);
      if (flights.empty()) share = 0;
    }
  }
  return result;
}

// "nic.tx" of "node3.nic1.tx".
std::string kind_of(const std::string& name) {
  std::string kind;
  for (const char c : name)
    if (c < '0' || c > '9') kind += c;
  return kind;
}

constexpr double most_fed_back = 0.9;

class ContentionFinder {
 public:
  ContentionFinder(const Topology& topology, const FastRun& run, Detail detail)
      : topology_(topology), run_(run), detail_(detail), overlaps_(run.flights.size(), false) {
    flights_of_.resize(run.compiled.exchanges.size());
    for (std::size_t f = 0; f < run.flights.size(); ++f) flights_of_[run.flights[f].exchange].push_back(f);
  }

  Contention find() {
    for (const LinkClass& links : link_classes(topology_, run_))
      run_.traffic.shared[links.first] ? add_shared(links) : add_exclusive(links);
    Contention found;
    double excess = 0;
    for (const auto& [place, seconds] : excess_) excess += seconds;
    if (run_.step > 0) found.bound = bound_of_excess(excess / to_seconds(run_.step));
    found.overlapping = std::count(overlaps_.begin(), overlaps_.end(), true);
    order_links(links_);
    found.links = std::move(links_);
    return found;
  }

 private:
  LinkTimeline timeline(const LinkClass& links) const {
    LinkTimeline link;
    link.name = topology_.name(links.first);
    link.bandwidth = topology_.bandwidth(links.first);
    link.multiplicity = links.links;
    double bytes = 0;
    for (const auto& [exchange, use] : links.uses)
      bytes += use.bytes * static_cast<double>(run_.traffic.executions[exchange]);
    link.bytes = std::llround(bytes);
    return link;
  }

  void add_exclusive(const LinkClass& links) {
    LinkTimeline link = timeline(links);
    for (const auto& [exchange, use] : links.uses)
      link.busy += (use.end - use.start) * run_.traffic.executions[exchange];
    add(std::move(link), links);
  }

  // With the use over time while there is room for lanes.
  void add(LinkTimeline link, const LinkClass& links) {
    if (detail_ != Detail::totals && lanes_ < recorded_link_limit) {
      ByteHistogram histogram;
      for (const auto& [exchange, use] : links.uses)
        for (const std::size_t f : flights_of_[exchange])
          histogram.add(run_.flights[f].start + use.start, run_.flights[f].start + use.end, use.bytes);
      link.utilisation = utilisation(histogram, link.bandwidth, run_.step);
      ++lanes_;
    }
    links_.push_back(std::move(link));
  }

  // The first pipeline rank that uses the link, collectives over several ranks left out if there are others.
  std::int32_t first_rank(const LinkClass& links) const {
    std::pair first{true, std::numeric_limits<std::int32_t>::max()};
    for (const ExchangeUse& use : links.uses) {
      const CompiledExchange& exchange = run_.compiled.exchanges[use.exchange];
      const bool many =
          exchange.channel != no_index && !run_.compiled.channels[exchange.channel].point_to_point;
      first = std::min(first, std::pair(many, exchange.pipeline_rank));
    }
    return first.second;
  }

  void add_shared(const LinkClass& links) {
    LinkTimeline link = timeline(links);
    std::vector<Load> loads;
    for (const auto& [exchange, use] : links.uses) {
      const double time = to_seconds(use.end - use.start);
      const double share = time > 0 ? use.bytes / link.bandwidth / time : 0;
      for (const std::size_t f : flights_of_[exchange]) {
        const Picoseconds start = run_.flights[f].start;
        loads.push_back({start + use.start, start + use.end, share, f});
      }
    }
    const Sweep swept = sweep(loads, overlaps_);
    link.busy = swept.busy;
    link.contended = swept.contended;
    double& worst = excess_[{first_rank(links), topology_.is_inbound(links.first)}];
    worst = std::max(worst, swept.excess_s);
    add(std::move(link), links);
  }

  const Topology& topology_;
  const FastRun& run_;
  const Detail detail_;
  std::vector<bool> overlaps_;                              // by flight
  std::vector<std::vector<std::size_t>> flights_of_;        // by exchange
  std::map<std::pair<std::int32_t, bool>, double> excess_;  // by pipeline rank and direction
  std::vector<LinkTimeline> links_;
  std::size_t lanes_ = 0;
};

}  // namespace

double bound_of_excess(double excess) { return excess / (1 - std::min(excess, most_fed_back)); }

double excess_of_bound(double bound) { return std::max(bound / (1 + bound), bound * (1 - most_fed_back)); }

Contention find_contention(const Topology& topology, const FastRun& run, Detail detail) {
  return ContentionFinder(topology, run, detail).find();
}

void order_links(std::vector<LinkTimeline>& links) {
  const auto figures = [](const LinkTimeline& link) {
    const double full_s = link.bandwidth > 0 ? static_cast<double>(link.bytes) / link.bandwidth : 0;
    return std::tuple(-to_picoseconds(full_s), -link.busy, -link.contended, -link.bytes, link.bandwidth,
                      kind_of(link.name));
  };
  std::stable_sort(links.begin(), links.end(), [&](const LinkTimeline& a, const LinkTimeline& b) {
    // Recorded ones first: they lead their kind.
    return std::tuple(figures(a), a.utilisation.empty(), a.name) <
           std::tuple(figures(b), b.utilisation.empty(), b.name);
  });
  std::vector<LinkTimeline> kinds;
  std::size_t first_alike = 0;  // of the kinds with the figures of the last
  for (LinkTimeline& link : links) {
    if (kinds.empty() || figures(kinds[first_alike]) != figures(link)) first_alike = kinds.size();
    const auto alike = std::find_if(kinds.begin() + static_cast<std::ptrdiff_t>(first_alike), kinds.end(),
                                    [&](const LinkTimeline& kind) {
                                      return link.utilisation.empty() || kind.utilisation == link.utilisation;
                                    });
    if (alike == kinds.end())
      kinds.push_back(std::move(link));
    else
      alike->multiplicity += link.multiplicity;
  }
  links = std::move(kinds);
}

}  // namespace simrun
