// What the traces of several ranks say together.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "traces/trace_ranks.h"

namespace simrun {
namespace {

constexpr std::int64_t trusted_difference_ns = 100'000;

// The n-th exchange of one kind in one group is the same on all of its ranks.
using ExchangeKey = std::tuple<std::string, std::string, Opcode, std::int64_t>;

struct ExchangeEnd {
  std::size_t rank = 0, kernel = 0;
};
using Meetings = std::map<ExchangeKey, std::vector<ExchangeEnd>>;

Meetings meetings_of(const ImportedRun& run) {
  Meetings meetings;
  for (std::size_t r = 0; r < run.ranks.size(); ++r) {
    std::map<std::tuple<std::string, std::string, Opcode>, std::int64_t> counts;
    const ImportedRank& rank = run.ranks[r];
    for (std::size_t k = 0; k < rank.kernels.size(); ++k) {
      const ImportedKernel& kernel = rank.kernels[k];
      if (kernel.exchange == no_index || !kernel.kind.opcode) continue;
      const TracedExchange& exchange = rank.exchanges[kernel.exchange];
      if (exchange.ranks.empty() || exchange.group_size < 2 || *kernel.kind.opcode == Opcode::send ||
          *kernel.kind.opcode == Opcode::recv)
        continue;
      const std::int64_t n = counts[{exchange.group, exchange.ranks, *kernel.kind.opcode}]++;
      meetings[{exchange.group, exchange.ranks, *kernel.kind.opcode, n}].push_back({r, k});
    }
  }
  return meetings;
}

std::int64_t begin_of(const ImportedRun& run, const ExchangeEnd& end) {
  const ImportedRank& rank = run.ranks[end.rank];
  return rank.step.begin_ns + rank.kernels[end.kernel].start_ns;
}
std::int64_t end_of(const ImportedRun& run, const ExchangeEnd& end) {
  return begin_of(run, end) + run.ranks[end.rank].kernels[end.kernel].duration_ns;
}

std::int64_t median(std::vector<std::int64_t> values) {
  std::sort(values.begin(), values.end());
  return values[(values.size() - 1) / 2];
}

}  // namespace

void align_clocks(ImportedRun& run) {
  const Meetings meetings = meetings_of(run);
  std::vector<std::vector<std::pair<ExchangeEnd, ExchangeEnd>>> meets(run.ranks.size());
  for (const auto& [key, ends] : meetings)  // ends: by rank
    for (const ExchangeEnd& end : ends)
      if (end.rank != ends.front().rank) meets[end.rank].emplace_back(end, ends.front());
  // Ascending: whom a rank meets first has its clock set.
  for (std::size_t r = 1; r < run.ranks.size(); ++r) {
    std::vector<std::int64_t> ahead;
    for (const auto& [own, other] : meets[r]) ahead.push_back(end_of(run, own) - end_of(run, other));
    if (ahead.empty()) continue;
    const std::int64_t by = median(std::move(ahead));
    if (std::abs(by) <= trusted_difference_ns) continue;
    run.ranks[r].step.begin_ns -= by;
    for (ImportedStep& step : run.ranks[r].steps) step.begin_ns -= by;
    add_note(run.notes, "clocks that differ, set by the ends of common exchanges", {run.ranks[r].path, 0, 0});
  }
}

void split_waits(ImportedRun& run) {
  std::map<Opcode, std::int64_t> unknown;
  for (const ImportedRank& rank : run.ranks)
    for (const ImportedKernel& kernel : rank.kernels)
      if (kernel.kind.opcode && is_communication(*kernel.kind.opcode)) ++unknown[*kernel.kind.opcode];
  for (const auto& [key, ends] : meetings_of(run)) {
    const ImportedRank& first = run.ranks[ends[0].rank];
    const TracedExchange& exchange = first.exchanges[first.kernels[ends[0].kernel].exchange];
    if (static_cast<std::int64_t>(ends.size()) != exchange.group_size) continue;
    std::int64_t latest = begin_of(run, ends[0]);
    for (const ExchangeEnd& end : ends) latest = std::max(latest, begin_of(run, end));
    for (const ExchangeEnd& end : ends) {
      ImportedKernel& kernel = run.ranks[end.rank].kernels[end.kernel];
      kernel.wait_ns = std::min(latest - begin_of(run, end), kernel.duration_ns);
      --unknown[*kernel.kind.opcode];
    }
  }
  // simrun's own begin when the last rank has come.
  for (const auto& [opcode, count] : unknown)
    if (count == 0 || run.origin == TraceOrigin::simrun) run.split.insert(opcode);
}

}  // namespace simrun
