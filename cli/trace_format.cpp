#include "cli/trace_format.h"

namespace simrun {

std::optional<TraceFormat> trace_format(const std::string& path) {
  if (path.ends_with(".json")) return TraceFormat::chrome;
  if (path.ends_with(".json.gz")) return TraceFormat::chrome_gzip;
  if (path.ends_with(".perfetto-trace")) return TraceFormat::perfetto;
  return std::nullopt;
}

}  // namespace simrun
