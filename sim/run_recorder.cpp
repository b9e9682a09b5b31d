#include "sim/run_recorder.h"

#include <algorithm>
#include <utility>

#include "sim/exchange_groups.h"
#include "sim/kernel_slowdowns.h"

namespace simrun {

namespace {

constexpr Index most_classes = 8;  // of a program's GPUs, whose flights are kept

}  // namespace

RunRecorder::RunRecorder(const EngineInput& input)
    : input_(input), keeps_operations_(input.detail == Detail::instructions || !input.watched.empty()) {
  const std::size_t programs = input.compiled.ranks.size();
  run_.ranks.resize(programs);
  run_.issue_times.resize(programs);
  for (std::size_t p = 0; p < programs; ++p) {
    const CompiledRank& code = input.compiled.ranks[p];
    run_.ranks[p].pipeline_rank = input.plan.programs[p].pipeline_rank;
    const std::int32_t rank = run_.ranks[p].pipeline_rank;
    std::int64_t gpus = 0;
    for (Index g = 0; g < input.meetings.gpus[static_cast<std::size_t>(rank)]; ++g)
      gpus += input.meetings.gpus_like(rank, g).gpus;
    for (const CompiledEntry& entry : code.entries) {
      run_.instructions += gpus * code.segments[entry.segment].instructions;
      run_.communications += gpus * code.segments[entry.segment].communications;
    }
    if (input.detail != Detail::totals) run_.issue_times[p].resize(input.plan.programs[p].entries.size());
    if (input.detail == Detail::instructions) reserve_lanes(p);
    if (!input.watched.empty()) number_classes(p);
  }
}

void RunRecorder::number_classes(std::size_t program) {
  const std::int32_t rank = run_.ranks[program].pipeline_rank;
  std::map<std::pair<Index, double>, Index> numbers;  // by class of tables and slowdown
  std::vector<Index>& first = first_of_classes_.emplace_back();
  for (Index g = 0; g < input_.meetings.gpus[static_cast<std::size_t>(rank)]; ++g) {
    const Index local = input_.meetings.gpus_like(rank, g).first;
    const double slowdown =
        input_.slowdowns == nullptr ? 1 : input_.slowdowns->of_gpu(device_at(input_.plan, rank, local));
    const auto [known, fresh] =
        numbers.try_emplace({input_.compiled.class_of(static_cast<Index>(program), local), slowdown},
                            static_cast<Index>(numbers.size()));
    first.push_back(fresh && known->second < most_classes ? known->second : no_index);
  }
  if (run_.flights_of_others.size() + 1 < numbers.size())
    run_.flights_of_others.resize(std::min<std::size_t>(numbers.size(), most_classes) - 1);
}

void RunRecorder::reserve_lanes(std::size_t program) {
  const CompiledRank& code = input_.compiled.ranks[program];
  const std::size_t streams = input_.plan.streams.size();
  std::vector<std::size_t> by_stream(streams, 0), executions(code.segments.size(), 0);
  for (const CompiledEntry& entry : code.entries) ++executions[entry.segment];
  for (std::size_t s = 0; s < code.segments.size(); ++s)
    for (Index i = 0; i < code.segments[s].steps; ++i) {
      const CompiledStep& step = code.steps[code.segments[s].first_step + i];
      by_stream[step.stream] += step.pieces * executions[s];
    }
  for (std::size_t s = 0; s < streams; ++s) {
    run_.ranks[program].lanes.push_back({static_cast<std::uint8_t>(s), {}});
    run_.ranks[program].lanes.back().intervals.reserve(by_stream[s]);
  }
}

void RunRecorder::entry_begins(const DeviceState& device) {
  if (input_.detail == Detail::totals || !recorded(device)) return;
  const Index entry = device.code->entries[device.entry].entry;
  run_.issue_times[device.program][entry].begin = device.compute_tail;
}

void RunRecorder::entry_ends(const DeviceState& device) {
  if (input_.detail == Detail::totals || !recorded(device)) return;
  const CompiledEntry& entry = device.code->entries[device.entry];
  run_.issue_times[device.program][entry.entry].end = device.compute_tail;
  if (device.code->segments[entry.segment].first_compute == no_index) return;
  run_.ranks[device.program].passes.push_back(
      {device.pass_start, device.compute_tail - device.pass_start, entry.entry});
}

void RunRecorder::compute(const DeviceState& device, const CompiledStep& step,
                          const std::vector<Picoseconds>& times) {
  if (input_.detail != Detail::instructions || !recorded(device)) return;
  const CompiledRank& code = *device.code;
  const Index entry = code.entries[device.entry].entry;
  Picoseconds at = device.compute_tail;
  for (Index p = step.first_piece; p < step.first_piece + step.pieces; ++p) {
    const Picoseconds time = times.empty() ? code.pieces[p].duration : times[p - step.first_piece];
    run_.ranks[device.program].lanes[compute_stream].intervals.push_back(
        {at, time, 0, entry, code.pieces[p].instruction});
    at += time;
  }
}

void RunRecorder::keep(const DeviceState& device, const IssuedOperation& operation, Span span,
                       Picoseconds wait) {
  const CompiledRank& code = *device.code;
  const CompiledStep& step = code.steps[operation.step];
  const Index number = number_of(device);
  if (input_.detail == Detail::instructions && number == 0)
    run_.ranks[device.program].lanes[step.stream].intervals.push_back(
        {span.start, span.end - span.start, wait, code.entries[operation.entry].entry,
         code.pieces[step.first_piece].instruction});
  if (step.exchange != no_index && !input_.watched.empty() && input_.watched[step.exchange])
    (number == 0 ? run_.flights : run_.flights_of_others[number - 1])
        .push_back({step.exchange, span.start, span.end});
}

// The recorded GPU of a pipeline rank also stands for those with equal tables and totals; others make classes
// behind.
void RunRecorder::totals(const DeviceState& device, const RankTotals& totals) {
  RankTimeline& first = run_.ranks[device.program];
  const GpuClass alike = input_.meetings.gpus_like(first.pipeline_rank, device.local_gpu);
  const std::int64_t number = device_at(input_.plan, first.pipeline_rank, alike.first);
  if (recorded(device)) {
    first.totals = totals;
    first.device = number;
    first.multiplicity = alike.gpus;
    return;
  }
  const Index own = input_.compiled.class_of(device.program, alike.first);
  if (own == 0 && first.totals == totals) {
    first.multiplicity += alike.gpus;
    return;
  }
  const auto [known, fresh] = further_.try_emplace(
      {device.program, own, totals.compute, totals.exposed, totals.bubble, totals.hidden}, run_.ranks.size());
  if (!fresh) {
    run_.ranks[known->second].multiplicity += alike.gpus;
    return;
  }
  RankTimeline rank;
  rank.pipeline_rank = first.pipeline_rank;
  rank.device = number;
  rank.multiplicity = alike.gpus;
  rank.totals = totals;
  run_.ranks.push_back(std::move(rank));
}

EngineRun RunRecorder::take(Picoseconds step) {
  run_.step = step;
  return std::move(run_);
}

}  // namespace simrun
