#include "schedules/parameter_server.h"

#include <algorithm>
#include <functional>

#include "schedules/flat_buffer.h"
#include "schedules/parameter_buckets.h"

namespace simrun {
namespace {

constexpr int longest_delay = 2;

// The servers' part of a buffer of a bucket: a view of it, or a buffer of their own. `axes`: along which the
// ranks are that have the parts one after the other.
struct ServedPart {
  std::int64_t servers = 1;
  std::string axes;
  bool is_view = false;
};
Index add_part(Plan& plan, Index whole, const ServedPart& served) {
  const Buffer of = plan.buffers[whole];
  const Index part =
      add_flat_buffer(plan, of.name + " part", of.category, of.dtype, of.elements() / served.servers);
  (served.is_view ? plan.buffers[part].parent : plan.buffers[part].shard_of) = whole;
  plan.buffers[part].split = {served.axes};
  return part;
}

Index add_copy(Plan& plan, Index of, const std::string& name) {
  Buffer copy = plan.buffers[of];
  copy.name = name;
  plan.buffers.push_back(std::move(copy));
  return static_cast<Index>(plan.buffers.size() - 1);
}

// Over the coordinates of the axes, as many elements as a whole part where a server is, none elsewhere.
std::int32_t part_table(Plan& plan, const BucketRules& rules, std::vector<AxisId> axes, std::int64_t extent) {
  std::sort(axes.begin(), axes.end(), std::greater<>());  // row-major in the order of the devices
  ExtentTable table;
  table.axes = std::move(axes);
  table.values.assign(static_cast<std::size_t>(rules.mesh.size(table.axes)), 0);
  for (const std::int64_t place :
       server_places(rules.servers, static_cast<std::int64_t>(table.values.size())))
    table.values[static_cast<std::size_t>(place)] = extent;
  table.origin = "parameter servers";
  const auto known = std::find(plan.extent_tables.begin(), plan.extent_tables.end(), table);
  if (known != plan.extent_tables.end()) return static_cast<std::int32_t>(known - plan.extent_tables.begin());
  plan.extent_tables.push_back(std::move(table));
  return static_cast<std::int32_t>(plan.extent_tables.size() - 1);
}

}  // namespace

ServerRules server_rules(const Job& job) {
  if (!job.optimizer.parameter_server) return {};
  const ParameterServerConfig& server = *job.optimizer.parameter_server;
  ServerRules rules;
  rules.count = server.servers;
  rules.dedicated = server.placement == ServerPlacement::dedicated;
  rules.one_sided = server.mode == ServerMode::asynchronous;
  rules.delay = rules.one_sided ? longest_delay
                                : static_cast<int>(std::min<std::int64_t>(server.staleness, longest_delay));
  return rules;
}

std::vector<std::int64_t> server_places(const ServerRules& rules, std::int64_t members) {
  std::vector<std::int64_t> places;
  for (std::int64_t j = 0; j < rules.count; ++j)
    places.push_back(rules.dedicated ? members - rules.count + j : j * members / rules.count);
  return places;
}

void add_served_parts(Plan& plan, ParameterBucket& bucket, const std::string& name,
                      const BucketRules& rules) {
  const ServerRules& servers = rules.servers;
  if (servers.delay >= 1) bucket.incoming = add_copy(plan, bucket.weights, name + " pulled weights");
  if (servers.delay >= 2) bucket.outgoing = add_copy(plan, bucket.gradients, name + " pushed gradients");
  // The weights of a worker that is behind are not those that its server has.
  ServedPart served{servers.count, "", !servers.dedicated && servers.delay == 0};
  for (const AxisId axis : bucket.data_axes)
    served.axes += (served.axes.empty() ? "" : ",") + rules.mesh.mesh.axes[axis].name;
  bucket.weight_shard = add_part(plan, bucket.weights, served);
  const Index pushed = bucket.outgoing == no_index ? bucket.gradients : bucket.outgoing;
  served.is_view = !servers.dedicated;
  bucket.gradient_shard = add_part(plan, pushed, served);
}

void leave_parts_to_servers(Plan& plan, const ParameterBucket& bucket, const BucketRules& rules) {
  if (rules.servers.dedicated || rules.servers.count == rules.mesh.size(bucket.data_axes)) return;
  std::vector<Index> parts = {bucket.weight_shard, bucket.gradient_shard, bucket.main_weights, bucket.exp_avg,
                              bucket.exp_avg_sq};
  parts.insert(parts.end(), bucket.more_state.begin(), bucket.more_state.end());
  for (const Index part : parts) {
    if (part == no_index) continue;
    const std::int64_t extent = plan.buffers[part].dims.front().extent;
    plan.buffers[part].dims.front().table = part_table(plan, rules, bucket.data_axes, extent);
  }
}

}  // namespace simrun
