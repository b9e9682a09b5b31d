#include "configs/deepspeed_keys.h"

#include <fmt/format.h>

#include <algorithm>

namespace simrun {

void refuse_unknown_keys(const ConfigNode& map, const std::vector<std::string>& names,
                         std::vector<Diagnostic>& problems) {
  for (const ConfigNode& child : map.children) {
    if (std::ranges::find(names, child.key) != names.end()) continue;
    const std::string near = closest(child.key, names);
    problems.push_back({child.key_position,
                        fmt::format("{} is not supported, or no key of DeepSpeed", in_quotes(child.key)),
                        near.empty() ? "" : fmt::format("did you mean '{}'?", near)});
  }
}

}  // namespace simrun
