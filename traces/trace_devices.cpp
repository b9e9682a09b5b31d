// Which device and which stream a kernel ran on.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <numeric>
#include <string_view>
#include <tuple>
#include <utility>

#include "traces/trace_ranks.h"

namespace simrun {
namespace {

constexpr std::size_t most_devices = 256;  // in one file
constexpr std::size_t most_at_once = 64;   // kernels that overlap on one stream

// The number behind the last `word` in a text that one follows: "rank" in "worker_rank-12_of_16_ranks.json".
std::optional<std::int64_t> number_behind(const std::string& text, const std::string& word) {
  for (std::size_t found = text.rfind(word); found != std::string::npos;
       found = found == 0 ? std::string::npos : text.rfind(word, found - 1)) {
    const std::size_t at = text.find_first_not_of("_- .", found + word.size());
    std::int64_t number = 0;
    if (at == std::string::npos) continue;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), number);
    if (error == std::errc() && number >= 0) return number;
  }
  return std::nullopt;
}

std::optional<std::int64_t> rank_of(const RecordedTrace& trace, const std::string& process, bool is_only) {
  const auto named = trace.processes.find(process);
  const bool is_own = trace.origin == TraceOrigin::simrun || trace.origin == TraceOrigin::measured;
  if (is_own && named != trace.processes.end()) return number_behind(named->second, "gpu");
  if (!is_only) return std::nullopt;
  return trace.rank ? trace.rank : number_behind(trace.path.substr(trace.path.rfind('/') + 1), "rank");
}

// Kernels by stream, then start; of equal starts the longest first.
std::vector<std::size_t> by_stream(const RecordedTrace& trace) {
  std::vector<std::size_t> order(trace.kernels.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const TracedKernel &x = trace.kernels[a], &y = trace.kernels[b];
    return std::tuple(x.stream, x.start_ns, -x.duration_ns) <
           std::tuple(y.stream, y.start_ns, -y.duration_ns);
  });
  return order;
}

// A copy for some of the kernels, which brings those names and streams alone that it needs.
RecordedTrace without_tables(RecordedTrace& trace) {
  std::vector<std::string> names;
  std::vector<TracedStream> streams;
  names.swap(trace.names);
  streams.swap(trace.streams);
  RecordedTrace copy = trace;
  names.swap(trace.names);
  streams.swap(trace.streams);
  return copy;
}

void add_tables(const RecordedTrace& trace, RecordedTrace& part) {
  NameTable names(part.names);
  std::map<Index, Index> streams;
  const auto move_stream = [&](Index& stream) {
    const auto [place, is_new] = streams.try_emplace(stream, static_cast<Index>(part.streams.size()));
    if (is_new) part.streams.push_back(trace.streams[stream]);
    stream = place->second;
  };
  const auto move_name = [&](Index& name) {
    if (name != no_index) name = names.index_of(trace.names[name]);
  };
  for (TracedKernel& kernel : part.kernels) {
    for (Index* const name : {&kernel.name, &kernel.phase, &kernel.function}) move_name(*name);
    move_stream(kernel.stream);
  }
  for (std::vector<TracedSpan>* const spans : {&part.spans, &part.device_steps})
    for (TracedSpan& span : *spans) move_stream(span.thread);
  for (TracedLaunch& launch : part.launches) move_stream(launch.thread);
}

// "/device:GPU:0" (XLA), "Device 0" (Nsight Systems).
bool is_named_device(const RecordedTrace& trace, const std::string& process) {
  const auto named = trace.processes.find(process);
  if (named == trace.processes.end() || named->second.find("/device:CPU") != std::string::npos) return false;
  return named->second.find("/device:") != std::string::npos || named->second.starts_with("Device ");
}

// XLA's lines: "Stream #13(compute)" of a GPU, "XLA Ops" where the device has no streams.
constexpr std::array<std::string_view, 2> xla_lines{"Stream #", "XLA Ops"};

// Drops the kernels for which `drops` holds, of one process or line.
void drop(RecordedTrace& trace, const char* what, const auto& drops) {
  const auto dropped = std::erase_if(
      trace.kernels, [&](const TracedKernel& kernel) { return drops(trace.streams[kernel.stream]); });
  if (dropped > 0) add_note(trace.notes, what, {trace.path, 0, 0}, static_cast<std::int64_t>(dropped));
}

std::int64_t end_of(const TracedKernel& kernel) { return kernel.start_ns + kernel.duration_ns; }

}  // namespace

void keep_devices(RecordedTrace& trace) {
  if (trace.origin != TraceOrigin::chrome) return;
  std::map<std::string, std::size_t> line_of;  // by device: which of xla_lines is kept, beyond them: all
  for (const TracedKernel& kernel : trace.kernels) {
    const TracedStream& stream = trace.streams[kernel.stream];
    if (!is_named_device(trace, stream.process)) continue;
    const auto line = std::ranges::find_if(
        xla_lines, [&](std::string_view start) { return stream.name.starts_with(start); });
    std::size_t& kept = line_of.try_emplace(stream.process, xla_lines.size()).first->second;
    kept = std::min(kept, static_cast<std::size_t>(line - xla_lines.begin()));
  }
  if (line_of.empty()) return;
  drop(trace, "events of processes that are no device, left out",
       [&](const TracedStream& of) { return !line_of.contains(of.process); });
  drop(trace, "events of lines that repeat what a device's streams run, left out",
       [&](const TracedStream& of) {
         const std::size_t kept = line_of.at(of.process);
         return kept < xla_lines.size() && !of.name.starts_with(xla_lines[kept]);
       });
}

std::vector<RecordedTrace> devices_of(RecordedTrace trace) {
  // Numbers in their order, 9 before 10.
  const auto before = [](const std::string& a, const std::string& b) {
    return std::pair(a.size(), a) < std::pair(b.size(), b);
  };
  std::map<std::string, std::vector<TracedKernel>, decltype(before)> by_process(before);
  for (const TracedKernel& kernel : trace.kernels)
    by_process[trace.streams[kernel.stream].process].push_back(kernel);
  if (by_process.size() > most_devices)
    throw ConfigError({{{trace.path, 0, 0},
                        fmt::format("events of {} processes lie in one file", by_process.size()),
                        fmt::format("one file may have {} devices.", most_devices)}});
  std::vector<RecordedTrace> parts;
  if (by_process.size() == 1) {
    trace.rank = rank_of(trace, by_process.begin()->first, true);
    parts.push_back(std::move(trace));
    return parts;
  }
  trace.kernels.clear();
  for (auto& [process, kernels] : by_process) {
    RecordedTrace part = without_tables(trace);
    part.rank = rank_of(part, process, false);
    part.kernels = std::move(kernels);
    add_tables(trace, part);
    if (!parts.empty()) {  // told once
      part.notes.clear();
      part.events = 0;
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

void keep_innermost(RecordedTrace& trace) {
  std::vector<bool> encloses(trace.kernels.size(), false);
  const std::vector<std::size_t> order = by_stream(trace);
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    const TracedKernel &outer = trace.kernels[order[i]], &inner = trace.kernels[order[i + 1]];
    encloses[order[i]] = outer.stream == inner.stream && inner.start_ns < end_of(outer) &&
                         inner.duration_ns > 0 && end_of(inner) <= end_of(outer);
  }
  std::vector<TracedKernel> kept;
  for (std::size_t i = 0; i < trace.kernels.size(); ++i)
    if (!encloses[i]) kept.push_back(trace.kernels[i]);
  if (kept.size() < trace.kernels.size())
    add_note(trace.notes, "events around others, which are counted instead", {trace.path, 0, 0},
             static_cast<std::int64_t>(trace.kernels.size() - kept.size()));
  trace.kernels = std::move(kept);
}

void separate_overlapping(RecordedTrace& trace) {
  std::vector<std::pair<Index, std::int64_t>> lanes;  // of the stream at hand: stream and end
  Index stream = no_index;
  std::int64_t moved = 0;
  for (const std::size_t i : by_stream(trace)) {
    TracedKernel& kernel = trace.kernels[i];
    if (kernel.stream != stream) {
      stream = kernel.stream;
      lanes = {{stream, kernel.start_ns}};
    }
    auto lane = std::ranges::find_if(lanes, [&](const auto& of) { return of.second <= kernel.start_ns; });
    if (lane == lanes.end()) {
      if (lanes.size() == most_at_once)
        throw ConfigError(
            {{{trace.path, 0, 0},
              fmt::format("more than {} events overlap on {}", most_at_once, trace.streams[stream].name),
              "a stream of a device runs one kernel at a time."}});
      TracedStream further = trace.streams[stream];
      further.name += fmt::format(" ({})", lanes.size() + 1);
      lanes.emplace_back(static_cast<Index>(trace.streams.size()), 0);
      trace.streams.push_back(further);
      lane = lanes.end() - 1;
    }
    if (lane != lanes.begin()) ++moved;
    kernel.stream = lane->first;
    lane->second = end_of(kernel);
  }
  if (moved > 0)
    add_note(trace.notes, "kernels that overlap others of their stream, drawn beside them",
             {trace.path, 0, 0}, moved);
}

}  // namespace simrun
