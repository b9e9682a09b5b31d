#include "cli/print_topology.h"

#include <filesystem>

#include "cli/read_input.h"
#include "sim/describe_topology.h"
#include "visualizer/topology_text.h"

namespace simrun {
namespace {

constexpr const char* preset_nodes = "64";

bool is_preset_name(const std::string& input) {
  std::error_code error;  // what cannot be looked at is no file
  return !input.ends_with(".yaml") && input.find('/') == std::string::npos &&
         !std::filesystem::exists(input, error);
}

}  // namespace

std::string topology_report_text(const Options& options, const LoadOptions& load) {
  LoadOptions with_nodes = load;  // unless --set says how many
  with_nodes.overrides.insert(with_nodes.overrides.begin(), {"cluster.nodes", preset_nodes});
  const Cluster cluster = is_preset_name(options.input)
                              ? load_cluster(options.input, with_nodes)
                              : read_input(options.input, options, load).plan.cluster;
  const TopologyReport report = describe_topology(cluster);
  return options.json ? topology_json(report) : topology_text(report);
}

}  // namespace simrun
