#include "cli/written_trace.h"

#include "cli/trace_format.h"
#include "visualizer/chrome_trace.h"
#include "visualizer/gzip.h"
#include "visualizer/perfetto_trace.h"

namespace simrun {

std::string trace_bytes(const std::string& path, const Plan& plan, const Timeline& timeline) {
  switch (trace_format(path).value()) {
    case TraceFormat::chrome: return chrome_trace(plan, timeline);
    case TraceFormat::chrome_gzip: return gzip(chrome_trace(plan, timeline));
    case TraceFormat::perfetto: return perfetto_trace(plan, timeline);
  }
  return "";
}

}  // namespace simrun
