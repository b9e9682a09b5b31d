// In which step a kernel ran, and what for: by where the host launched it.
#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>

#include "schedules/measured_comparison.h"
#include "traces/trace_ranks.h"

namespace simrun {
namespace {

using LaunchOf = std::unordered_map<std::int64_t, const TracedLaunch*>;

LaunchOf launches_of(const RecordedTrace& trace) {
  LaunchOf launches;
  for (const TracedLaunch& launch : trace.launches) launches.try_emplace(launch.correlation, &launch);
  return launches;
}

const TracedLaunch* launch_of(const LaunchOf& launches, const TracedKernel& kernel) {
  const auto found = kernel.correlation > 0 ? launches.find(kernel.correlation) : launches.end();
  return found == launches.end() ? nullptr : found->second;
}

// The innermost of a thread's spans at any moment, where they lie inside one another. Moments are asked for
// in ascending order.
class SpansOfThread {
 public:
  void add(const TracedSpan& span) { spans_.push_back(&span); }
  void sort() {
    std::stable_sort(spans_.begin(), spans_.end(), [](const TracedSpan* a, const TracedSpan* b) {
      return std::pair(a->start_ns, -a->duration_ns) < std::pair(b->start_ns, -b->duration_ns);
    });
  }
  const TracedSpan* at(std::int64_t moment) {
    while (next_ < spans_.size() && spans_[next_]->start_ns <= moment) open_.push_back(spans_[next_++]);
    while (!open_.empty() && open_.back()->start_ns + open_.back()->duration_ns < moment) open_.pop_back();
    return open_.empty() ? nullptr : open_.back();
  }

 private:
  std::vector<const TracedSpan*> spans_, open_;
  std::size_t next_ = 0;
};

ImportedPhase phase_of(SpanKind kind) {
  switch (kind) {
    case SpanKind::backward: return ImportedPhase::backward;
    case SpanKind::recompute: return ImportedPhase::recompute;
    case SpanKind::optimizer: return ImportedPhase::optimizer;
    case SpanKind::step: break;
  }
  return ImportedPhase::forward;
}

// By correlation. Empty where the host's operators were not recorded.
std::unordered_map<std::int64_t, ImportedPhase> phases_of_launches(const RecordedTrace& trace) {
  std::map<Index, SpansOfThread> threads;
  bool has_backward = false;
  for (const TracedSpan& span : trace.spans) {
    has_backward = has_backward || span.kind == SpanKind::backward;
    if (span.kind != SpanKind::step) threads[span.thread].add(span);
  }
  if (!has_backward) return {};
  for (auto& [thread, spans] : threads) spans.sort();
  std::vector<TracedLaunch> launches = trace.launches;
  std::stable_sort(launches.begin(), launches.end(),
                   [](const TracedLaunch& a, const TracedLaunch& b) { return a.start_ns < b.start_ns; });
  std::unordered_map<std::int64_t, ImportedPhase> phases;
  for (const TracedLaunch& launch : launches) {
    const auto thread = threads.find(launch.thread);
    const TracedSpan* const span = thread == threads.end() ? nullptr : thread->second.at(launch.start_ns);
    phases.try_emplace(launch.correlation, span == nullptr ? ImportedPhase::forward : phase_of(span->kind));
  }
  return phases;
}

// simrun's own traces name the Plan's phase.
std::optional<ImportedPhase> phase_named(const std::string& name) {
  static const std::map<std::string, ImportedPhase> phases{
      {to_string(Phase::forward), ImportedPhase::forward},
      {to_string(Phase::recompute), ImportedPhase::recompute},
      {to_string(Phase::backward_input), ImportedPhase::backward},
      {to_string(Phase::backward_weight), ImportedPhase::backward},
      {to_string(Phase::reduction), ImportedPhase::optimizer},
      {to_string(Phase::optimizer), ImportedPhase::optimizer}};
  const auto found = phases.find(name);
  if (found == phases.end()) return std::nullopt;
  return found->second;
}

std::vector<TracedSpan> sorted_steps(const RecordedTrace& trace, bool of_device) {
  std::vector<TracedSpan> steps;
  std::ranges::copy_if(of_device ? trace.device_steps : trace.spans, std::back_inserter(steps),
                       [](const TracedSpan& span) { return span.kind == SpanKind::step; });
  std::stable_sort(steps.begin(), steps.end(),
                   [](const TracedSpan& a, const TracedSpan& b) { return a.start_ns < b.start_ns; });
  // The same step may be marked on several streams or threads.
  std::map<std::int64_t, bool> seen;
  std::erase_if(steps, [&](const TracedSpan& step) { return !seen.try_emplace(step.number, true).second; });
  return steps;
}

std::int64_t step_at(const std::vector<TracedSpan>& steps, std::int64_t moment) {
  const auto behind = std::upper_bound(steps.begin(), steps.end(), moment,
                                       [](std::int64_t at, const TracedSpan& s) { return at < s.start_ns; });
  if (behind == steps.begin()) return -1;
  const TracedSpan& step = *(behind - 1);
  return moment <= step.start_ns + step.duration_ns ? behind - steps.begin() - 1 : -1;
}

// Of a kernel whose launch is not known: until the next step begins, it is taken for this one's.
std::int64_t step_before(const std::vector<TracedSpan>& steps, std::int64_t moment) {
  const auto behind = std::upper_bound(steps.begin(), steps.end(), moment,
                                       [](std::int64_t at, const TracedSpan& s) { return at < s.start_ns; });
  return behind - steps.begin() - 1;
}

// When the first kernel of a step begins and the last one ends.
struct KernelTimes {
  std::int64_t first = std::numeric_limits<std::int64_t>::max(),
               last = std::numeric_limits<std::int64_t>::min();
  bool is_empty() const { return first > last; }
};

// Whether the step before is the one that the profiler counted before, and its kernels are known.
bool follows(const std::vector<TracedSpan>& marks, const std::vector<KernelTimes>& kernels, std::size_t s) {
  return s > 0 && marks[s].number == marks[s - 1].number + 1 && !kernels[s - 1].is_empty();
}

// Where the GPU turns from the step before to step s: with its mark, or where it is behind the host when it
// has done the step before, but no later than with the first kernel.
std::int64_t turn_to(const std::vector<TracedSpan>& marks, const std::vector<KernelTimes>& kernels,
                     std::size_t s) {
  const std::int64_t free_from = follows(marks, kernels, s) ? kernels[s - 1].last : marks[s].start_ns;
  return std::min(std::max(marks[s].start_ns, free_from), kernels[s].first);
}

// The step of a host's mark: it takes until the next mark begins, so that time in which the GPU waits for the
// host counts, or where a host that does not wait for the GPU marks steps faster than it runs them, as long
// as the GPU takes from turn to turn; one that the next step's mark does not follow (the last, or before
// steps that the profiler left out) until its mark ends, or as long as its kernels if that is longer. It
// begins with the mark, or later by what the GPU is behind the host.
ImportedStep marked_step(const std::vector<TracedSpan>& marks, const std::vector<KernelTimes>& kernels,
                         std::size_t s) {
  const TracedSpan& mark = marks[s];
  const auto [first, last] = kernels[s];
  const bool is_followed = s + 1 < marks.size() && marks[s + 1].number == mark.number + 1;
  std::int64_t length = is_followed ? marks[s + 1].start_ns - mark.start_ns : mark.duration_ns;
  if (last - first > length) {
    const bool turns = is_followed && !kernels[s + 1].is_empty();
    const std::int64_t begin = follows(marks, kernels, s) ? turn_to(marks, kernels, s) : first;
    length = std::max(length, turns ? turn_to(marks, kernels, s + 1) - begin : last - first);
  }
  return {mark.number, std::clamp(last - length, std::min(mark.start_ns, first), first), length};
}

std::vector<std::int64_t> steps_of_kernels(const RecordedTrace& trace, const std::vector<TracedSpan>& host,
                                           const std::vector<TracedSpan>& device) {
  const LaunchOf launches = launches_of(trace);
  std::vector<std::int64_t> steps;
  for (const TracedKernel& kernel : trace.kernels) {
    const TracedLaunch* const launch = launch_of(launches, kernel);
    if (host.empty())
      steps.push_back(step_at(device, kernel.start_ns));
    else if (launch != nullptr)
      steps.push_back(step_at(host, launch->start_ns));
    else
      steps.push_back(step_before(host, kernel.start_ns));
  }
  return steps;
}

// The step into which the cut of a file falls: what stood behind it is missing.
std::int64_t step_of_cut(const RecordedTrace& trace, const std::vector<TracedSpan>& marks,
                         const std::vector<std::int64_t>& of_kernel) {
  if (trace.last_is_kernel) return of_kernel.empty() ? -1 : of_kernel.back();
  return step_before(marks, trace.last_ns);
}

}  // namespace

std::vector<ImportedPhase> phases_of(const RecordedTrace& trace, const std::vector<KernelKind>& kinds) {
  const std::unordered_map<std::int64_t, ImportedPhase> launched = phases_of_launches(trace);
  std::vector<ImportedPhase> phases;
  for (std::size_t i = 0; i < trace.kernels.size(); ++i) {
    const TracedKernel& kernel = trace.kernels[i];
    const auto launch = launched.find(kernel.correlation);
    std::optional<ImportedPhase> named;
    if (kernel.phase != no_index) named = phase_named(trace.names[kernel.phase]);
    if (kinds[i].exchanges)
      phases.push_back(ImportedPhase::communication);
    else if (named)
      phases.push_back(*named);
    else if (kinds[i].opcode == Opcode::optimizer)
      phases.push_back(ImportedPhase::optimizer);
    else if (launch != launched.end())
      phases.push_back(launch->second);
    else
      phases.push_back(kinds[i].backward ? ImportedPhase::backward : ImportedPhase::unassigned);
  }
  return phases;
}

TracedSteps steps_of(const RecordedTrace& trace) {
  const std::vector<TracedSpan> host = sorted_steps(trace, false), device = sorted_steps(trace, true);
  const std::vector<TracedSpan>& marks = host.empty() ? device : host;
  std::vector<std::int64_t> of_kernel(trace.kernels.size(), 0);
  if (!marks.empty()) of_kernel = steps_of_kernels(trace, host, device);
  std::vector<KernelTimes> kernels(std::max<std::size_t>(marks.size(), 1));
  for (std::size_t i = 0; i < of_kernel.size(); ++i) {
    if (of_kernel[i] < 0) continue;
    KernelTimes& of = kernels[static_cast<std::size_t>(of_kernel[i])];
    of.first = std::min(of.first, trace.kernels[i].start_ns);
    of.last = std::max(of.last, trace.kernels[i].start_ns + trace.kernels[i].duration_ns);
  }
  if (trace.is_cut_off && std::ranges::count_if(kernels, &KernelTimes::is_empty) + 1 < std::ssize(kernels))
    if (const std::int64_t cut = step_of_cut(trace, marks, of_kernel); cut >= 0)
      kernels[static_cast<std::size_t>(cut)] = {};
  // Marks without a kernel are no steps.
  TracedSteps found;
  std::vector<std::int64_t> place(kernels.size(), -1);
  for (std::size_t s = 0; s < kernels.size(); ++s) {
    if (kernels[s].is_empty()) continue;
    place[s] = static_cast<std::int64_t>(found.steps.size());
    if (!host.empty()) {
      found.steps.push_back(marked_step(host, kernels, s));
      continue;
    }
    const auto [first, last] = kernels[s];
    if (!found.steps.empty())
      found.steps.back().length_ns = std::max<std::int64_t>(first - found.steps.back().begin_ns, 0);
    if (marks.empty() && trace.step_ns > 0 && !trace.is_cut_off)
      found.steps.push_back({0, 0, std::max(trace.step_ns, last)});
    else
      found.steps.push_back({marks.empty() ? 0 : marks[s].number, first, last - first});
  }
  for (std::int64_t& step : of_kernel)
    if (step >= 0) step = place[static_cast<std::size_t>(step)];
  found.of_kernel = std::move(of_kernel);
  return found;
}

}  // namespace simrun
