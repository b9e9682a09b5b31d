#include "visualizer/held_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "visualizer/quantity.h"

namespace simrun {

namespace {

std::string words(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

std::string line(const HeldMemory& held, HeldLevel level, std::int64_t total) {
  std::string text = fmt::format("  {:<9} {:>10}", to_string(level), memory_text(total));
  for (const HeldPart& part : held.parts)
    if (part.level == level) text += fmt::format("  + {} {}", words(part.name), memory_text(part.bytes));
  return text + "\n";
}

}  // namespace

std::string held_text(const Summary& summary) {
  const auto worst = std::find_if(
      summary.stages.begin(), summary.stages.end(),
      [&](const StageSummary& stage) { return stage.pipeline_rank == summary.peak_pipeline_rank; });
  if (worst == summary.stages.end() || !worst->held) return "";
  const HeldMemory& held = *worst->held;
  return fmt::format(" memory of pp {}, from the plan's tensors to what nvidia-smi shows\n  {:<9} {:>10}\n",
                     worst->pipeline_rank, "live", memory_text(held.live_bytes)) +
         line(held, HeldLevel::allocated, held.allocated_bytes) +
         line(held, HeldLevel::reserved, held.reserved_bytes) +
         line(held, HeldLevel::device, held.device_bytes);
}

}  // namespace simrun
