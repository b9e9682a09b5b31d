#include "traces/imported_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include "traces/refuse_trace.h"
#include "traces/trace_ranks.h"

namespace simrun {
namespace {

constexpr std::int64_t longest_step_ns = 3'600'000'000'000;  // an hour

void merge(TraceNotes& notes, const TraceNotes& more) {
  for (const auto& [what, note] : more) add_note(notes, what, note.first, note.count);
}

struct DeviceTrace {
  RecordedTrace trace;
  std::vector<KernelKind> kinds;  // by kernel
  TracedSteps steps;
};

std::vector<KernelKind> kinds_of(const RecordedTrace& trace) {
  std::vector<std::optional<KernelKind>> by_name(trace.names.size());
  std::vector<KernelKind> kinds;
  kinds.reserve(trace.kernels.size());
  for (const TracedKernel& kernel : trace.kernels) {
    std::optional<KernelKind>& known = by_name[kernel.name];
    if (!known) known = kernel_kind(trace.names[kernel.name]);
    kinds.push_back(*known);
    if (kernel.exchange == no_index) continue;
    kinds.back().exchanges = true;
    if (const std::optional<Opcode> opcode = exchange_opcode(trace.exchanges[kernel.exchange]))
      kinds.back().opcode = opcode;
  }
  return kinds;
}

DeviceTrace prepared(RecordedTrace trace) {
  if (trace.origin == TraceOrigin::chrome) keep_innermost(trace);
  separate_overlapping(trace);
  DeviceTrace device;
  device.kinds = kinds_of(trace);
  device.steps = steps_of(trace);
  if (device.steps.steps.empty())
    refuse_trace(trace.path, "no kernel ran in any of the steps that are marked", "");
  device.trace = std::move(trace);
  return device;
}

// Of the steps that every device has, behind the first of each, the one of median length: its number.
// Nothing where they have none in common.
std::optional<std::int64_t> common_step(const std::vector<DeviceTrace>& devices) {
  std::map<std::int64_t, std::pair<std::size_t, std::int64_t>> lengths;  // devices and longest, by number
  for (const DeviceTrace& device : devices)
    for (const ImportedStep& step : device.steps.steps) {
      auto& [count, longest] = lengths[step.number];
      ++count;
      longest = std::max(longest, step.length_ns);
    }
  std::erase_if(lengths, [&](const auto& of) { return of.second.first < devices.size(); });
  if (lengths.size() > 1) lengths.erase(lengths.begin());
  std::vector<std::pair<std::int64_t, std::int64_t>> sorted;
  sorted.reserve(lengths.size());
  for (const auto& [number, of] : lengths) sorted.emplace_back(of.second, number);
  if (sorted.empty()) return std::nullopt;
  std::sort(sorted.begin(), sorted.end());
  return sorted[(sorted.size() - 1) / 2].second;
}

std::size_t own_median(const std::vector<ImportedStep>& steps) {
  std::vector<std::pair<std::int64_t, std::size_t>> lengths;
  for (std::size_t s = steps.size() > 1 ? 1 : 0; s < steps.size(); ++s)
    lengths.emplace_back(steps[s].length_ns, s);
  std::sort(lengths.begin(), lengths.end());
  return lengths[(lengths.size() - 1) / 2].second;
}

std::size_t chosen_step(const std::vector<ImportedStep>& steps, std::optional<std::int64_t> number) {
  for (std::size_t s = 0; s < steps.size(); ++s)
    if (number && steps[s].number == *number) return s;
  return own_median(steps);
}

ImportedRank imported_rank(DeviceTrace device, std::size_t step) {
  const RecordedTrace& trace = device.trace;
  const std::vector<ImportedPhase> phases = phases_of(trace, device.kinds);
  ImportedRank rank;
  rank.path = trace.path;
  rank.steps = device.steps.steps;
  rank.step = rank.steps[step];
  for (const TracedStream& stream : trace.streams) rank.streams.push_back(stream.name);
  for (std::size_t i = 0; i < trace.kernels.size(); ++i) {
    if (device.steps.of_kernel[i] != static_cast<std::int64_t>(step)) continue;
    const TracedKernel& of = trace.kernels[i];
    rank.kernels.push_back({of.start_ns - rank.step.begin_ns, of.duration_ns, 0, device.kinds[i], phases[i],
                            of.name, of.stream, of.exchange});
  }
  std::stable_sort(rank.kernels.begin(), rank.kernels.end(),
                   [](const ImportedKernel& a, const ImportedKernel& b) { return a.start_ns < b.start_ns; });
  std::int64_t end = 0;
  for (const ImportedKernel& kernel : rank.kernels) end = std::max(end, kernel.start_ns + kernel.duration_ns);
  if (std::max(end, rank.step.length_ns) > longest_step_ns)
    refuse_trace(trace.path,
                 fmt::format("the step would take {:.3g} hours",
                             static_cast<double>(std::max(end, rank.step.length_ns)) / 3.6e12),
                 "ts and dur are microseconds.");
  rank.names = trace.names;
  rank.exchanges = trace.exchanges;
  return rank;
}

void note_outside(const DeviceTrace& device, TraceNotes& notes) {
  const std::int64_t outside = std::ranges::count(device.steps.of_kernel, -1);
  if (outside > 0)
    add_note(notes, "kernels outside of every marked step", {device.trace.path, 0, 0}, outside);
}

void set_length(ImportedRun& run) {
  std::int64_t first = run.ranks.front().step.begin_ns, shortest = run.ranks.front().step.length_ns;
  for (const ImportedRank& rank : run.ranks) {
    first = std::min(first, rank.step.begin_ns);
    shortest = std::min(shortest, rank.step.length_ns);
  }
  const bool is_one_clock = std::ranges::all_of(
      run.ranks, [&](const ImportedRank& rank) { return rank.step.begin_ns - first <= shortest; });
  for (ImportedRank& rank : run.ranks) {
    rank.late_ns = is_one_clock ? rank.step.begin_ns - first : 0;
    run.length_ns = std::max(run.length_ns, rank.late_ns + rank.step.length_ns);
  }
}

// Without the exchanges' arguments nothing tells a rank that begins later from a clock that is ahead.
void note_late_ranks(ImportedRun& run) {
  const bool knows_exchanges =
      std::ranges::any_of(run.ranks, [](const ImportedRank& rank) { return !rank.exchanges.empty(); });
  const bool is_own = run.origin == TraceOrigin::simrun || run.origin == TraceOrigin::measured;
  if (knows_exchanges || is_own) return;
  constexpr double noticed = 0.01;  // of the step
  for (const ImportedRank& rank : run.ranks)
    if (static_cast<double>(rank.late_ns) > noticed * static_cast<double>(rank.step.length_ns))
      add_note(run.notes,
               "ranks that begin later by their clock, which may be wrong: no exchange names its group to "
               "set it by",
               {rank.path, 0, 0});
}

// Ranks that no trace names get the lowest numbers that are free.
void number_ranks(ImportedRun& run, const std::vector<std::optional<std::int64_t>>& told) {
  std::map<std::int64_t, std::string> taken;
  const bool are_several = std::ranges::any_of(
      run.ranks, [&](const ImportedRank& rank) { return rank.path != run.ranks.front().path; });
  for (std::size_t i = 0; i < told.size(); ++i) {
    if (!told[i] && are_several)
      add_note(run.notes, "ranks that neither trace nor file name tells, numbered in the order of the files",
               {run.ranks[i].path, 0, 0});
    if (!told[i]) continue;
    const auto [other, is_new] = taken.try_emplace(*told[i], run.ranks[i].path);
    if (!is_new)
      refuse_trace(run.ranks[i].path,
                   fmt::format("this trace is of rank {}, as {} is", *told[i], other->second),
                   "give one trace of each rank.");
  }
  std::int64_t next = 0;
  for (std::size_t i = 0; i < told.size(); ++i) {
    while (!told[i] && taken.contains(next)) ++next;
    run.ranks[i].rank = told[i] ? *told[i] : next++;
  }
  std::stable_sort(run.ranks.begin(), run.ranks.end(),
                   [](const ImportedRank& a, const ImportedRank& b) { return a.rank < b.rank; });
}

}  // namespace

const char* to_string(ImportedPhase phase) {
  static constexpr std::array<const char*, imported_phase_count> names{
      "forward", "recompute", "backward", "optimizer", "communication", "unassigned"};
  return names.at(static_cast<std::size_t>(phase));
}

ImportedRun imported_run(std::vector<RecordedTrace> traces) {
  ImportedRun run;
  std::vector<DeviceTrace> devices;
  for (RecordedTrace& trace : traces) {
    keep_devices(trace);
    for (RecordedTrace& device : devices_of(std::move(trace))) devices.push_back(prepared(std::move(device)));
  }
  const std::optional<std::int64_t> number = common_step(devices);
  std::vector<std::optional<std::int64_t>> told;
  for (DeviceTrace& device : devices) {
    merge(run.notes, device.trace.notes);
    note_outside(device, run.notes);
    run.origin = device.trace.origin;
    run.events += device.trace.events;
    run.world_size = std::max(run.world_size, device.trace.world_size);
    if (run.device.empty()) run.device = device.trace.device;
    if (run.config_sha256.empty()) run.config_sha256 = device.trace.config_sha256;
    told.push_back(device.trace.rank);
    const std::size_t step = chosen_step(device.steps.steps, number);
    run.ranks.push_back(imported_rank(std::move(device), step));
  }
  number_ranks(run, told);
  align_clocks(run);
  set_length(run);
  note_late_ranks(run);
  split_waits(run);
  return run;
}

}  // namespace simrun
