#include "cli/config_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "configs/config_node.h"
#include "configs/node_groups.h"
#include "schedules/stage_sizes.h"

namespace simrun {
namespace {

using Values =
    std::vector<std::pair<std::string, std::string>>;  // dotted path, spelling; in the config's order

std::string spelled(const ConfigNode& node) {
  if (node.kind == ConfigNode::Kind::scalar) return node.text;
  std::string items;
  for (const ConfigNode& child : node.children) items += (items.empty() ? "" : ", ") + spelled(child);
  return "[" + items + "]";
}

void add_values(const ConfigNode& node, const std::string& path, Values& values) {
  if (node.kind != ConfigNode::Kind::map) {
    values.emplace_back(path, spelled(node));
    return;
  }
  for (const ConfigNode& child : node.children)
    add_values(child, path.empty() ? child.key : path + "." + child.key, values);
}

Values values_of(const LoadedJob& job) {
  std::vector<Diagnostic> none;
  Values values;
  add_values(read_yaml(job.effective_yaml, "", none), "", values);
  return values;
}

Values values_of(const Plan& plan) {
  const JobFacts& job = plan.job;
  const Cluster& cluster = plan.cluster;
  const auto text = [](const auto& value) { return fmt::format("{}", value); };
  return {{"model_type", job.model_type},
          {"parameters", text(job.parameters)},
          {"seq_length", text(job.seq_length)},
          {"micro_batch_size", text(job.micro_batch_size)},
          {"microbatches", text(job.microbatches)},
          {"precision", to_string(job.precision)},
          {"tensor_parallel", ranks_along_text(plan, "tp")},
          {"context_parallel", text(job.context_parallel)},
          {"pipeline_parallel", text(job.pipeline_parallel)},
          {"virtual_pipeline", text(job.virtual_pipeline)},
          {"expert_parallel", text(job.expert_parallel)},
          {"data_parallel", ranks_along_text(plan, "dp")},
          {"schedule", job.schedule},
          {"cluster.name", cluster.name},
          {"cluster.nodes", text(cluster.nodes)},
          {"cluster.gpus_per_node", text(cluster.gpus_per_node)},
          {"cluster.gpu", gpus_text(cluster)},
          {"cluster.intra_node.bandwidth", text(cluster.intra_node.bandwidth)},
          {"cluster.intra_node.latency", text(cluster.intra_node.latency_s)},
          {"cluster.inter_node.bandwidth", text(cluster.inter_node.bandwidth)},
          {"cluster.inter_node.latency", text(cluster.inter_node.latency_s)},
          {"cluster.inter_node.flow_bandwidth", text(cluster.inter_node.flow_bandwidth)},
          {"config_sha256", job.config_sha256}};
}

std::string section_of(const ConfigDifference& difference) {
  return difference.key.substr(0, difference.key.find('.'));
}

}  // namespace

std::vector<ConfigDifference> config_differences(const Input& a, const Input& b) {
  const bool has_configs = a.job && b.job;
  const Values of_a = has_configs ? values_of(*a.job) : values_of(a.plan);
  const Values of_b = has_configs ? values_of(*b.job) : values_of(b.plan);
  const std::map<std::string, std::string> in_a(of_a.begin(), of_a.end()), in_b(of_b.begin(), of_b.end());
  std::vector<ConfigDifference> differences;
  for (const auto& [path, value] : of_a) {
    const auto other = in_b.find(path);
    const std::string in_other = other == in_b.end() ? "" : other->second;
    if (value != in_other) differences.push_back({path, value, in_other});
  }
  for (const auto& [path, value] : of_b)
    if (!in_a.contains(path)) differences.push_back({path, "", value});
  std::vector<std::string> sections;  // in the order of A
  for (const ConfigDifference& difference : differences)
    if (std::ranges::find(sections, section_of(difference)) == sections.end())
      sections.push_back(section_of(difference));
  std::ranges::stable_sort(differences, {}, [&](const ConfigDifference& difference) {
    return std::ranges::find(sections, section_of(difference)) - sections.begin();
  });
  return differences;
}

}  // namespace simrun
