// parallelism.rank_order and rank_map: which device runs which rank.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "configs/job_rules.h"
#include "configs/limits.h"
#include "configs/load_sections.h"
#include "configs/rank_order.h"

namespace simrun {

void read_rank_order(SectionReader& section, Reading& reading, Parallelism& parallelism) {
  const std::string order = section.text("rank_order");
  const bool has_map = section.has("rank_map");
  if (order.empty()) {
    if (!has_map) reading.record("parallelism.rank_order", default_rank_order, "default");
  } else if (parse_rank_order(order)) {
    parallelism.rank_order = order;
    const std::optional<EffectiveValue> written = reading.take("parallelism.rank_order");
    reading.record("parallelism.rank_order", order, written->origin);
  } else {
    reading.problem("parallelism.rank_order",
                    fmt::format("'parallelism.rank_order' cannot be {}", in_quotes(order)),
                    fmt::format("name tp, cp, dp and pp once each, the fastest first: {} is Megatron-LM's.",
                                default_rank_order));
  }
  if (has_map)
    parallelism.rank_map = section.integer_list("rank_map", {0, limits::world}, {});
  else
    section.ignore({"rank_map"});
  if (!parallelism.rank_map.empty() && !order.empty())
    reading.problem("parallelism.rank_map", "rank_map and rank_order both say where ranks are",
                    "write one of them.");
}

void check_rank_placement(const Job& job, Reading& reading) {
  const Parallelism& parallelism = job.parallelism;
  const bool is_placed = !parallelism.rank_map.empty() || parallelism.rank_order != default_rank_order;
  if (!is_placed) return;
  const std::string key = parallelism.rank_map.empty() ? "rank_order" : "rank_map";
  if (job.moe.token_dispatcher == TokenDispatcher::deepep || job.optimizer.all_reduce != AllReduceKind::flat)
    reading.problem("parallelism." + key,
                    fmt::format("{} beside exchanges in two stages, whose first is among neighbouring ranks "
                                "of a node",
                                key),
                    job.optimizer.all_reduce != AllReduceKind::flat
                        ? "write optimizer.all_reduce: flat."
                        : "write moe.token_dispatcher: alltoall.");
  const std::vector<std::int64_t>& map = parallelism.rank_map;
  if (map.empty() || job.world_size() == 0) return;
  const std::int64_t ranks = job.world_size() - job.server_gpus();
  if (std::cmp_not_equal(map.size(), ranks))
    return reading.problem("parallelism.rank_map",
                           fmt::format("rank_map has {} entries for {} ranks", map.size(), ranks),
                           "it lists the rank of every device.");
  std::vector<std::int64_t> device_of(map.size(), -1);
  for (std::size_t device = 0; device < map.size(); ++device) {
    if (map[device] >= ranks)
      return reading.problem("parallelism.rank_map",
                             fmt::format("there is no rank {} of {}", map[device], ranks),
                             "ranks count from 0.");
    std::int64_t& of = device_of[static_cast<std::size_t>(map[device])];
    if (of >= 0)
      return reading.problem("parallelism.rank_map",
                             fmt::format("rank {} is on devices {} and {}", map[device], of, device),
                             "every rank is on one device.");
    of = static_cast<std::int64_t>(device);
  }
}

}  // namespace simrun
