#include "schedules/expert_tables.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "models/expert_fanout.h"
#include "schedules/extent_tables.h"

namespace simrun {
namespace {

bool is_even(const Job& job) {
  const MoeConfig& moe = job.moe;
  if (job.model.experts.count == 0 || moe.capacity_factor > 0) return true;
  return moe.load_imbalance == 1 && moe.zipf == 0 && !moe.histogram;
}

std::vector<double> loads_of_experts(const Job& job) {
  std::vector<double> loads;
  for (std::int64_t e = 0; e < job.model.experts.count; ++e)
    loads.push_back(job.moe.histogram
                        ? static_cast<double>(job.moe.histogram->tokens.at(static_cast<std::size_t>(e)))
                        : std::pow(static_cast<double>(e + 1), -job.moe.zipf));
  return loads;
}

bool is_row_of_experts(const std::string& dimension) {
  return dimension == "capacity" || dimension == "node_rows" || dimension == "gpu_rows";
}

void limit_to(double most, std::vector<double>& loads) {
  for (double& load : loads) load = std::min(load, most);
}

std::vector<double> means_of_groups(const std::vector<double>& loads, std::size_t groups) {
  const std::size_t size = loads.size() / groups;
  std::vector<double> means;
  for (auto first = loads.begin(); first != loads.end(); first += static_cast<std::ptrdiff_t>(size))
    means.push_back(std::accumulate(first, first + static_cast<std::ptrdiff_t>(size), 0.0) /
                    static_cast<double>(size));
  return means;
}

// Loads, in rows of a dimension, of groups of neighbouring expert-parallel ranks (nodes, or ranks): the mean
// of each group's ranks. Where a destination gets a token once, it has at most all tokens.
std::vector<double> loads_of_groups(const Job& job, const std::string& rows, std::int64_t groups) {
  const std::int64_t ep = job.parallelism.expert_model_parallel_size;
  if (groups > ep || ep % groups != 0) return expert_loads(job, groups);
  std::vector<double> of_rank = expert_loads(job, ep);
  const ExpertConfig& experts = job.model.experts;
  if (rows == "gpu_rows") limit_to(static_cast<double>(ep) / expected_destinations(experts, ep), of_rank);
  std::vector<double> loads = means_of_groups(of_rank, static_cast<std::size_t>(groups));
  if (rows == "node_rows")
    limit_to(static_cast<double>(groups) / expected_nodes(experts, job.moe.node_limit, groups), loads);
  return loads;
}

class ExpertTables {
 public:
  ExpertTables(Plan& plan, const Job& job) : plan_(plan), job_(job) {}

  void run() {
    const Mesh& mesh = plan_.stages.front().meshes.front();
    for (Buffer& buffer : plan_.buffers) {
      std::vector<std::uint8_t> axes;
      for (std::size_t d = 0; d < buffer.dims.size() && d < buffer.split.size(); ++d)
        if (plan_.dimension_names[buffer.dims[d].name] == "experts")
          axes = axes_of_split(buffer.split[d], mesh);
      if (axes.empty()) continue;
      for (BufferDim& dim : buffer.dims)
        if (is_row_of_experts(plan_.dimension_names[dim.name])) set_table(dim, axes);
    }
  }

 private:
  void set_table(BufferDim& dim, const std::vector<std::uint8_t>& axes) {
    const auto [known, is_new] = known_.try_emplace({axes, dim.name, dim.extent},
                                                    static_cast<std::int32_t>(plan_.extent_tables.size()));
    if (is_new) plan_.extent_tables.push_back(table_of(axes, dim));
    const std::vector<std::int64_t>& values =
        plan_.extent_tables[static_cast<std::size_t>(known->second)].values;
    dim.table = known->second;
    dim.extent = *std::max_element(values.begin(), values.end());
  }

  ExtentTable table_of(const std::vector<std::uint8_t>& axes, const BufferDim& dim) const {
    const Mesh& mesh = plan_.stages.front().meshes.front();
    std::int64_t ranks = 1;
    for (const std::uint8_t axis : axes) ranks *= mesh.axes[axis].size;
    ExtentTable table;
    table.source = job_.moe.histogram ? ExtentSource::recorded_histogram : ExtentSource::plan_table;
    table.axes = axes;
    if (job_.moe.histogram) table.origin = job_.moe.histogram->path;
    for (const double load : loads_of_groups(job_, plan_.dimension_names[dim.name], ranks))
      table.values.push_back(std::llround(load * static_cast<double>(dim.extent)));
    return table;
  }

  Plan& plan_;
  const Job& job_;
  std::map<std::tuple<std::vector<std::uint8_t>, std::uint16_t, std::int64_t>, std::int32_t> known_;
};

}  // namespace

std::vector<double> expert_loads(const Job& job, std::int64_t ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  std::vector<double> loads(n, 1);
  if (is_even(job) || n == 1) return loads;
  if (job.moe.zipf == 0 && !job.moe.histogram) {
    const double busiest = std::min(job.moe.load_imbalance, static_cast<double>(n));
    loads.assign(n, (static_cast<double>(n) - busiest) / static_cast<double>(n - 1));
    loads.front() = busiest;
    return loads;
  }
  const std::vector<double> experts = loads_of_experts(job);
  const double total = std::accumulate(experts.begin(), experts.end(), 0.0);
  if (!(total > 0)) return loads;
  const std::size_t per_rank = experts.size() / n;
  for (std::size_t r = 0; r < n; ++r) {
    const auto first = experts.begin() + static_cast<std::ptrdiff_t>(r * per_rank);
    loads[r] = std::accumulate(first, first + static_cast<std::ptrdiff_t>(per_rank), 0.0) / total *
               static_cast<double>(n);
  }
  return loads;
}

void add_expert_tables(Plan& plan, const Job& job) {
  if (!is_even(job)) ExpertTables(plan, job).run();
}

}  // namespace simrun
