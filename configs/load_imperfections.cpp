// The imperfections section: what is wrong with the cluster.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "configs/limits.h"
#include "configs/load_sections.h"

namespace simrun {

bool is_entry_name(const std::string& key) {
  return !key.empty() && key.size() <= 100 && std::ranges::all_of(key, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-';
  });
}

namespace {

constexpr RealRange slowdowns = {1, 1000};
constexpr RealRange variations = {0, 10};  // of a lognormal distribution; others are checked
constexpr RealRange shares = {0, 1};
constexpr RealRange used_shares = {0, 0.99};
constexpr RealRange sizes = {1, 1e15};
constexpr RealRange periods = {1e-5, 1e5};
constexpr RealRange phases = {0, 1e5};
constexpr IntegerRange seeds = {0, 1'000'000'000};

// "a, b and c".
std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  return text;
}

// Just one of several keys is written.
bool has_one_of(const SectionReader& section, const std::string& path, const std::vector<std::string>& keys,
                Reading& reading) {
  const auto written = std::ranges::count_if(keys, [&](const std::string& key) { return section.has(key); });
  if (written == 1) return true;
  reading.problem(
      path, fmt::format("'{}' has {} of {}", path, written == 0 ? "none" : "more than one", listed(keys)),
      "write just one of them.");
  return false;
}

std::vector<std::int64_t> numbers(SectionReader& section, const std::string& key, std::int64_t count,
                                  Reading& reading) {
  if (!section.has(key)) {
    section.ignore({key});
    return {};
  }
  std::vector<std::int64_t> read = section.integer_list(key, {0, std::max<std::int64_t>(count, 1) - 1}, {});
  std::vector<std::int64_t> sorted = read;
  std::ranges::sort(sorted);
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end())
    reading.problem(section.path_of(key), fmt::format("'{}' is listed twice", *twice));
  return read;
}

// The entries of a map of named ones, each read by `read(section, path, name)`.
template <class Read>
void read_entries(SectionReader& parent, const std::string& key, Reading& reading, const Read& read) {
  const ConfigNode* const node = parent.section(key);
  if (node == nullptr) return;
  SectionReader entries(reading, node, parent.path_of(key));
  if (entries.is_no_map()) return;
  for (const ConfigNode& child : node->children) {
    if (!is_entry_name(child.key)) {
      entries.ignore({child.key});
      reading.problems.push_back(
          {child.key_position,
           fmt::format("{} in '{}' is no name for an entry", in_quotes(child.key), parent.path_of(key)),
           "letters, digits, _ and - are."});
      continue;
    }
    const std::string path = entries.path_of(child.key);
    SectionReader section(reading, entries.section(child.key), path);
    if (section.is_no_map()) continue;
    read(section, path, child.key);
    section.finish();
  }
  entries.finish();
}

void read_jitter(SectionReader& parent, Reading& reading, Imperfections& imperfections) {
  const ConfigNode* const node = parent.section("jitter");
  if (node == nullptr) return;
  SectionReader section(reading, node, parent.path_of("jitter"));
  if (section.is_no_map()) return;
  Jitter& jitter = imperfections.jitter;
  const std::string word = section.word("distribution", {{"normal", "lognormal", "uniform"}}, "lognormal");
  jitter.distribution = word == "normal"    ? JitterDistribution::normal
                        : word == "uniform" ? JitterDistribution::uniform
                                            : JitterDistribution::lognormal;
  jitter.coefficient_of_variation = section.real("coefficient_of_variation", variations);
  section.finish();
  // Below, no factor is negative; a normal one is with a probability of 0.04 % at most, and is then 0.
  const double most = word == "normal" ? 0.3 : word == "uniform" ? 0.577 : variations.most;
  if (jitter.coefficient_of_variation > most)
    reading.problem(
        section.path_of("coefficient_of_variation"),
        fmt::format("a {} distribution of mean 1 and coefficient_of_variation {} has negative times", word,
                    jitter.coefficient_of_variation),
        fmt::format("{} is the most; a lognormal one has no such limit.", most));
}

Straggler read_straggler(SectionReader& section, const std::string& path, const Cluster& cluster,
                         Reading& reading) {
  const std::int64_t world = std::max<std::int64_t>(cluster.nodes * cluster.gpus_per_node, 1);
  Straggler straggler;
  has_one_of(section, path, {"gpus", "nodes", "count"}, reading);
  straggler.gpus = numbers(section, "gpus", world, reading);
  straggler.nodes = numbers(section, "nodes", cluster.nodes, reading);
  if (section.has("count")) straggler.count = section.integer("count", {1, world});
  section.ignore({"count"});
  straggler.slowdown = section.real("slowdown", slowdowns);
  return straggler;
}

LinkFault read_fault(SectionReader& section, const std::string& path, Reading& reading) {
  LinkFault fault;
  fault.pattern = section.text("pattern");
  if (!section.has("pattern"))
    reading.problem(path, fmt::format("missing required key 'pattern' in '{}'", path),
                    "for example pattern: \"node0.nic1.*\".");
  fault.bandwidth_share = section.real("bandwidth_share", shares, 1.0);
  fault.added_latency_s = section.quantity("added_latency", Unit::seconds, limits::latency, "0 us");
  if (fault.bandwidth_share > 0 && fault.bandwidth_share < limits::share.least)
    reading.problem(section.path_of("bandwidth_share"),
                    fmt::format("bandwidth_share {} is next to nothing", fault.bandwidth_share),
                    fmt::format("0 is a failed link, {} the least of one that works.", limits::share.least));
  return fault;
}

template <class Traffic>
void read_ends(SectionReader& section, const Cluster& cluster, Reading& reading, Traffic& traffic) {
  traffic.from = numbers(section, "from", cluster.nodes, reading);
  if (!section.has("to"))
    return reading.problem(section.path_of("from"), "traffic 'from' nodes goes nowhere",
                           "write to: [...], as many nodes.");
  traffic.to = numbers(section, "to", cluster.nodes, reading);
  if (traffic.from.empty() || traffic.to.empty()) return;  // refused
  if (traffic.from.size() != traffic.to.size())
    return reading.problem(section.path_of("to"),
                           fmt::format("{} nodes send to {}", traffic.from.size(), traffic.to.size()),
                           "the i-th of 'from' sends to the i-th of 'to'.");
  for (std::size_t i = 0; i < traffic.from.size(); ++i)
    if (traffic.from[i] == traffic.to[i])
      reading.problem(section.path_of("to"), fmt::format("node {} sends to itself", traffic.from[i]));
}

BackgroundTraffic read_background(SectionReader& section, const std::string& path, const Cluster& cluster,
                                  Reading& reading) {
  BackgroundTraffic traffic;
  has_one_of(section, path, {"from", "permutation", "pattern"}, reading);
  if (section.has("from"))
    read_ends(section, cluster, reading, traffic);
  else if (section.has("to") && !section.has("permutation") && !section.has("pattern"))
    reading.problem(section.path_of("to"), "traffic 'to' nodes comes from nowhere",
                    "write from: [...], as many nodes.");
  section.ignore({"from", "to", "permutation"});
  traffic.pattern = section.text("pattern");
  if (section.has("permutation")) {
    traffic.permutation = section.boolean("permutation");
    if (!traffic.permutation)
      reading.problem(section.path_of("permutation"), "traffic of no permutation goes nowhere",
                      "write permutation: true, or from and to.");
    if (traffic.permutation && cluster.nodes == 1)
      reading.problem(section.path_of("permutation"), "a cluster of 1 node has no other to send to");
  }
  has_one_of(section, path, {"rate", "share"}, reading);
  if (section.has("rate")) traffic.rate = section.quantity("rate", Unit::bytes_per_second, limits::bandwidth);
  if (section.has("share")) traffic.share = section.real("share", used_shares);
  section.ignore({"rate", "share"});
  return traffic;
}

OtherJob read_other_job(SectionReader& section, const std::string& path, const Cluster& cluster,
                        Reading& reading) {
  OtherJob job;
  has_one_of(section, path, {"nodes", "from"}, reading);
  job.nodes = numbers(section, "nodes", cluster.nodes, reading);
  if (job.nodes.size() == 1 && cluster.gpus_per_node == 1)
    reading.problem(section.path_of("nodes"), "a job on one GPU has nobody to communicate with");
  if (section.has("from")) read_ends(section, cluster, reading, job);
  section.ignore({"from", "to"});
  if (section.has("collective") && section.has("from"))
    reading.problem(section.path_of("collective"), "'collective' is what all of 'nodes' do",
                    "leave it out: 'from' nodes send to others.");
  if (section.has("from"))
    section.ignore({"collective"});
  else
    job.collective = section.word(
        "collective", {{"all_reduce", "all_gather", "reduce_scatter", "all_to_all"}}, "all_reduce");
  job.bytes = section.quantity("bytes", Unit::bytes, sizes);
  job.period_s = section.quantity("period", Unit::seconds, periods);
  job.phase_s = section.quantity("phase", Unit::seconds, phases, "0 ms");
  return job;
}

}  // namespace

void read_imperfections(const ConfigNode* node, Reading& reading, Job& job) {
  if (node == nullptr) return;
  SectionReader section(reading, node, "imperfections");
  if (section.is_no_map()) return;
  Imperfections& imperfections = job.cluster.imperfections;
  imperfections.seed = section.integer("seed", seeds, 0);
  read_jitter(section, reading, imperfections);
  const auto with_name = [](auto entry, const std::string& name) {
    entry.name = name;
    return entry;
  };
  read_entries(
      section, "stragglers", reading, [&](SectionReader& of, const std::string& path, const auto& name) {
        imperfections.stragglers.push_back(with_name(read_straggler(of, path, job.cluster, reading), name));
      });
  read_entries(section, "links", reading, [&](SectionReader& of, const std::string& path, const auto& name) {
    imperfections.links.push_back(with_name(read_fault(of, path, reading), name));
  });
  read_entries(
      section, "background", reading, [&](SectionReader& of, const std::string& path, const auto& name) {
        imperfections.background.push_back(with_name(read_background(of, path, job.cluster, reading), name));
      });
  read_entries(
      section, "other_jobs", reading, [&](SectionReader& of, const std::string& path, const auto& name) {
        imperfections.other_jobs.push_back(with_name(read_other_job(of, path, job.cluster, reading), name));
      });
  section.finish();
}

}  // namespace simrun
