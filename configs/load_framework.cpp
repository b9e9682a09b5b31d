// The framework section: the software that runs the job.
#include "configs/load_sections.h"

namespace simrun {

namespace {

bool says_none(const ConfigNode& node) {
  if (node.kind == ConfigNode::Kind::scalar) return node.text == "none";
  return node.kind == ConfigNode::Kind::null || (node.kind == ConfigNode::Kind::map && node.children.empty());
}

}  // namespace

void read_framework(const ConfigNode* node, const PresetSearch& search, Reading& reading, Job& job) {
  if (node == nullptr || says_none(*node)) return;
  ConfigNode named = *node;
  if (named.kind == ConfigNode::Kind::scalar) {
    ConfigNode name = named;
    name.key = "from";
    named.kind = ConfigNode::Kind::map;
    named.children = {name};
  }
  const ResolvedSection resolved = resolve_from(std::move(named), "frameworks", search, reading);
  if (!resolved.found) reading.partial_sections.emplace_back("framework");
  SectionReader section(reading, &resolved.node, "framework");
  if (section.is_no_map()) return;
  section.ignore({"simrun"});
  Framework& framework = job.framework;
  framework.name = section.name("name", resolved.base_name.empty() ? "custom" : resolved.base_name);
  framework.kernels = read_framework_kernels(section.section("kernels"), reading);
  framework.memory = read_framework_memory(section.section("memory"), reading);
  section.finish();
}

}  // namespace simrun
