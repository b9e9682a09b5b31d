#include "traces/recorded_trace.h"

#include <array>

namespace simrun {

void add_note(TraceNotes& notes, const std::string& what, const SourcePosition& where, std::int64_t count) {
  TraceNote& note = notes[what];
  if (note.count == 0) note.first = where;
  note.count += count;
}

const char* to_string(TraceOrigin origin) {
  static constexpr std::array<const char*, 5> names{"PyTorch profiler (Kineto)", "Chrome trace",
                                                    "simrun trace", "Chakra execution trace",
                                                    "a measured step that simrun wrote"};
  return names.at(static_cast<std::size_t>(origin));
}

Index NameTable::index_of(const std::string& name) {
  const auto [place, is_new] = places_.try_emplace(name, static_cast<Index>(names_.size()));
  if (is_new) names_.push_back(name);
  return place->second;
}

}  // namespace simrun
