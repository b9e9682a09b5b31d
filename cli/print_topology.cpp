#include "cli/print_topology.h"

#include <filesystem>

#include "cli/output_file.h"
#include "cli/outputs.h"
#include "cli/read_input.h"
#include "sim/describe_topology.h"
#include "visualizer/topology_page.h"
#include "visualizer/topology_text.h"

namespace simrun {
namespace {

bool is_preset_name(const std::string& input) {
  std::error_code error;  // what cannot be looked at is no file
  return !input.ends_with(".yaml") && input.find('/') == std::string::npos &&
         !std::filesystem::exists(input, error);
}

// Presets of several kinds of GPU say how many nodes they have.
Cluster preset(const std::string& name, LoadOptions load) {
  try {
    return load_cluster(name, load);
  } catch (const ConfigError&) {  // what else is wrong with it is said below
  }
  load.overrides.insert(load.overrides.begin(), {"cluster.nodes", "64"});
  return load_cluster(name, load);
}

}  // namespace

std::string topology_report_text(const Options& options, const LoadOptions& load) {
  if (options.html) probe_outputs({*options.html}, {options.input});
  const Cluster cluster = is_preset_name(options.input)
                              ? preset(options.input, load)
                              : read_input(options.input, options, load).plan.cluster;
  const TopologyReport report = describe_topology(cluster);
  if (options.html) write_output(*options.html, topology_page(cluster, report));
  return options.json ? topology_json(report) : topology_text(report);
}

}  // namespace simrun
