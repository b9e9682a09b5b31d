#include "cli/plan_progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include "cli/console.h"

namespace simrun {

PlanProgressLine::PlanProgressLine(const Options& options)
    : shows_(!options.quiet && isatty(STDERR_FILENO) == 1) {}

PlanProgressLine::~PlanProgressLine() {
  if (shows_) complain("\r\033[K");
}

PlanProgress PlanProgressLine::progress() const {
  return [this](const char* phase, std::int64_t done, std::int64_t all) {
    if (shows_)
      complain(all == 0 ? fmt::format("\r\033[Kplan: {} ...", phase)
                        : fmt::format("\r\033[Kplan: {} {}/{}", phase, done, all));
    return !note_.was_interrupted();
  };
}

}  // namespace simrun
