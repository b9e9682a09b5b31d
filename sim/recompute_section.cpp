#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sim/recompute_search.h"

namespace simrun {

std::string recompute_section(const RecomputeConfig& config) {
  if (config.granularity == RecomputeGranularity::none) return "{granularity: none}";
  if (config.granularity == RecomputeGranularity::full && config.method == RecomputeMethod::uniform)
    return fmt::format("{{granularity: full, method: uniform, num_layers: {}}}", config.num_layers);
  std::string text = "{granularity: selective";
  if (config.granularity == RecomputeGranularity::full)
    text = fmt::format("{{granularity: full, method: block, num_layers: [{}]",
                       fmt::join(config.stage_layers, ", "));
  if (config.modules.empty()) return text + "}";
  std::string counts;
  for (std::size_t m = 0; m < config.modules.size(); ++m)
    counts += fmt::format("{}{}: [{}]", counts.empty() ? "" : ", ", config.modules[m],
                          fmt::join(config.module_layers[m], ", "));
  return text +
         fmt::format(", modules: [{}], module_layers: {{{}}}}}", fmt::join(config.modules, ", "), counts);
}

}  // namespace simrun
