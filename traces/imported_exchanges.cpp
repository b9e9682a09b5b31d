#include "traces/imported_exchanges.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace simrun {

std::vector<ImportedExchange> imported_exchanges(const ImportedRun& run) {
  std::map<std::tuple<Opcode, std::int64_t, std::int64_t>, std::vector<std::int64_t>> durations;
  for (const ImportedRank& rank : run.ranks)
    for (const ImportedKernel& kernel : rank.kernels) {
      if (kernel.exchange == no_index || !kernel.kind.opcode) continue;
      const TracedExchange& of = rank.exchanges[kernel.exchange];
      const std::int64_t bytes = std::max(of.bytes_in, of.bytes_out);
      if (bytes > 0)
        durations[{*kernel.kind.opcode, of.group_size, bytes}].push_back(kernel.duration_ns - kernel.wait_ns);
    }
  std::vector<ImportedExchange> exchanges;
  for (auto& [key, ns] : durations) {
    std::sort(ns.begin(), ns.end());
    ImportedExchange exchange;
    std::tie(exchange.opcode, exchange.ranks, exchange.bytes) = key;
    exchange.count = static_cast<std::int64_t>(ns.size());
    exchange.median_s = static_cast<double>(ns[(ns.size() - 1) / 2]) * 1e-9;
    for (const std::int64_t one : ns) exchange.total_s += static_cast<double>(one) * 1e-9;
    exchanges.push_back(exchange);
  }
  std::stable_sort(
      exchanges.begin(), exchanges.end(),
      [](const ImportedExchange& a, const ImportedExchange& b) { return a.total_s > b.total_s; });
  return exchanges;
}

}  // namespace simrun
