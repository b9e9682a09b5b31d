#include "cli/refusal_position.h"

#include <optional>

namespace simrun {
namespace {

// Of the key, or of the innermost section around it that was written.
std::optional<SourcePosition> written_position(const LoadedJob& job, std::string key) {
  for (;;) {
    const auto at = job.positions.find(key);
    if (at != job.positions.end()) return at->second;
    const std::size_t dot = key.rfind('.');
    if (dot == std::string::npos) return std::nullopt;
    key.resize(dot);
  }
}

// A --set of something in the section: it, not what the file says, makes the job another one.
std::optional<SourcePosition> flag_in(const LoadedJob& job, const std::string& section) {
  const std::string begin = section + ".";
  for (auto at = job.positions.lower_bound(begin); at != job.positions.end(); ++at) {
    if (!at->first.starts_with(begin)) break;
    if (at->second.line == 0) return at->second;
  }
  return std::nullopt;
}

}  // namespace

SourcePosition refusal_position(const Input& input, const std::string& refusal) {
  const SourcePosition file{input.path, 0, 0};
  if (!input.job) return file;
  for (std::size_t colon = refusal.rfind(": "); colon != std::string::npos && colon > 0;
       colon = refusal.rfind(": ", colon - 1)) {
    const std::size_t begin = colon + 2;
    const std::string key = refusal.substr(begin, refusal.find_first_of(" ,:", begin) - begin);
    if (const std::optional<SourcePosition> at = written_position(*input.job, key))
      return flag_in(*input.job, key).value_or(*at);
  }
  return file;
}

SourcePosition key_position(const LoadedJob& job, const std::string& file, const std::string& key) {
  return written_position(job, key).value_or(SourcePosition{file, 0, 0});
}

}  // namespace simrun
