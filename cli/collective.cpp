#include "cli/collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/console.h"
#include "cli/output_file.h"
#include "configs/diagnostics.h"
#include "sim/collective_table.h"
#include "visualizer/collective_page.h"

namespace simrun {
namespace {

[[noreturn]] void refuse(const std::string& flag, std::string message, std::string hint) {
  throw ConfigError({{{flag, 0, 0}, std::move(message), std::move(hint)}});
}

// SimGrid ends flows one by one: more than so many at once take minutes.
constexpr std::size_t most_flows = 65'536;

bool is_about_collectives(const Override& flag) { return flag.key.starts_with("cluster.collectives"); }

// The cluster with as many nodes as are asked for at most. Where its file says nothing of collectives, as
// NCCL has them.
Cluster cluster_for(const CollectiveRequest& request, const LoadOptions& load) {
  LoadOptions with = load;
  with.overrides.insert(with.overrides.begin(),
                        {"cluster.nodes", fmt::format("{}", std::ranges::max(request.nodes))});
  LoadOptions without = with;
  std::erase_if(without.overrides, is_about_collectives);
  if (load_cluster(request.cluster, without).collectives == CollectivesConfig{})
    with.overrides.insert(with.overrides.begin(), {"cluster.collectives", "nccl"});
  // For this collective by name, since that goes before what is said of all.
  const std::string own = "cluster.collectives." + request.collective;
  if (!request.algorithm.empty()) with.overrides.push_back({own + ".algorithm", request.algorithm});
  if (!request.protocol.empty()) with.overrides.push_back({own + ".protocol", request.protocol});
  return load_cluster(request.cluster, with);
}

CollectiveQuery query_of(const CollectiveRequest& request, const LoadOptions& load) {
  CollectiveQuery query{.cluster = cluster_for(request, load),
                        .opcode = request.opcode,
                        .nodes = request.nodes,
                        .gpus_per_node = request.gpus_per_node,
                        .bytes = request.bytes};
  const std::int64_t gpus = query.cluster.gpus_per_node;
  if (query.gpus_per_node > gpus)
    refuse("--gpus-per-node",
           fmt::format("a node of {} has {} GPUs, not {}", request.cluster, gpus, query.gpus_per_node),
           fmt::format("{} at most.", gpus));
  if (query.gpus_per_node == 0) query.gpus_per_node = gpus;
  if (query.gpus_per_node == 1 && std::ranges::min(query.nodes) == 1)
    refuse("--nodes", "one GPU has nobody to talk to", "more nodes, or more GPUs per node.");
  return query;
}

// What --set says of all collectives is not what a cluster says of this one by name.
void check_named(const CollectiveRequest& request, const CollectiveQuery& query, const LoadOptions& load) {
  const auto named = query.cluster.collectives.forced_by_name.find(request.collective);
  if (!request.algorithm.empty() || named == query.cluster.collectives.forced_by_name.end()) return;
  const std::string taken = to_string(named->second.algorithm);
  for (const Override& flag : load.overrides)
    if (flag.key == "cluster.collectives.algorithm" && taken != "auto" && flag.value != taken)
      refuse(fmt::format("--set {}={}", flag.key, flag.value),
             fmt::format("{} has cluster.collectives.{}.algorithm: {}, which goes before it", request.cluster,
                         request.collective, taken),
             fmt::format("--algorithm {}.", flag.value));
}

// What is forced must be possible for every number of nodes: the table would show something else.
void check_way(const CollectiveRequest& request, const CollectiveQuery& query) {
  const Topology topology(query.cluster);
  for (const std::int64_t nodes : query.nodes) {
    const TunedCollective tuned = collective_of(query, topology, nodes, query.bytes.front());
    const auto differs = [](const std::string& asked, const std::string& taken) {
      return !asked.empty() && asked != "auto" && asked != taken;
    };
    std::size_t flows = 0;
    for (const FlowPhase& phase : tuned.flows) flows += phase.flows.size();
    if (flows > most_flows)
      refuse("--nodes",
             fmt::format("{} on {} nodes is {} flows, more than {}", request.collective, nodes, flows,
                         most_flows),
             "fewer nodes, or fewer GPUs of each.");
    const std::string places =
        fmt::format("{} node{} x {} GPUs", nodes, nodes == 1 ? "" : "s", query.gpus_per_node);
    if (differs(request.algorithm, to_string(tuned.choice.algorithm)))
      refuse("--algorithm",
             fmt::format("{} cannot run {} on {}", request.algorithm, request.collective, places),
             fmt::format("{} can.", to_string(tuned.choice.algorithm)));
    if (differs(request.protocol, to_string(tuned.choice.protocol)))
      refuse("--protocol",
             fmt::format("no algorithm of {} has protocol {} on {}", request.collective, request.protocol,
                         places),
             fmt::format("{} has {}.", to_string(tuned.choice.algorithm), to_string(tuned.choice.protocol)));
  }
}

}  // namespace

int run_collective(const Options& options, const LoadOptions& load) {
  const CollectiveRequest request = read_collective_flags(options.collective);
  const CollectiveQuery query = query_of(request, load);
  check_named(request, query, load);
  check_way(request, query);
  CollectiveCurves curves{request.collective, std::filesystem::path(request.cluster).stem().string(), {}};
  for (const CollectiveRow& row : collective_table(query))
    curves.points.push_back({row.nodes, row.ranks, row.bytes, to_string(row.choice.algorithm),
                             to_string(row.choice.protocol), row.time_s, row.algbw, row.busbw});
  if (options.html) write_output(*options.html, collective_page(curves));
  if (!options.quiet) print(options.json ? collective_json(curves) : collective_text(curves));
  return 0;
}

}  // namespace simrun
