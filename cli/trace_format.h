#pragma once

#include <optional>
#include <string>

namespace simrun {

enum class TraceFormat : std::uint8_t { chrome, chrome_gzip, perfetto };

// By the end of the file's name: .json, .json.gz, .perfetto-trace.
std::optional<TraceFormat> trace_format(const std::string& path);

}  // namespace simrun
