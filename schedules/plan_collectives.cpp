#include "schedules/plan_collectives.h"

#include <cmath>
#include <utility>

#include "plan.pb.h"
#include "schedules/plan_message.h"

namespace simrun {
namespace {

void encode(const std::string& collective, const CollectiveChoice& choice, proto::CollectiveChoice& out) {
  out.set_collective(collective);
  out.set_algorithm(to_string(choice.algorithm));
  out.set_protocol(to_string(choice.protocol));
}

void encode(const CollectiveChoice& choice, const CollectivePace& pace, proto::CollectivePace& out) {
  encode("", choice, *out.mutable_choice());
  out.set_base_s(pace.base_s);
  out.set_nvlink_s(pace.nvlink_s);
  out.set_pcie_s(pace.pcie_s);
  out.set_network_s(pace.network_s);
  out.set_rank_s(pace.rank_s);
  out.set_efficiency(pace.efficiency);
  out.set_reduction_efficiency(pace.reduction_efficiency);
  out.set_channel_bandwidth(pace.channel_bandwidth);
  out.set_one_node_bandwidth(pace.one_node_bandwidth);
  out.set_two_nodes_bandwidth(pace.two_nodes_bandwidth);
  out.set_more_nodes_bandwidth(pace.more_nodes_bandwidth);
}

CollectiveChoice decode_choice(const proto::CollectiveChoice& in) {
  const std::optional<CollectiveAlgorithm> algorithm = collective_algorithm_of(in.algorithm());
  const std::optional<CollectiveProtocol> protocol = collective_protocol_of(in.protocol());
  if (!algorithm) throw MalformedPlan("unknown algorithm of collectives " + in.algorithm());
  if (!protocol) throw MalformedPlan("unknown protocol of collectives " + in.protocol());
  return {*algorithm, *protocol};
}

CollectivePace decode_pace(const proto::CollectivePace& in) {
  CollectivePace pace{in.base_s(),
                      in.nvlink_s(),
                      in.pcie_s(),
                      in.network_s(),
                      in.rank_s(),
                      in.efficiency(),
                      in.reduction_efficiency(),
                      in.channel_bandwidth(),
                      in.one_node_bandwidth(),
                      in.two_nodes_bandwidth(),
                      in.more_nodes_bandwidth()};
  for (const double of :
       {pace.base_s, pace.nvlink_s, pace.pcie_s, pace.network_s, pace.rank_s, pace.channel_bandwidth,
        pace.one_node_bandwidth, pace.two_nodes_bandwidth, pace.more_nodes_bandwidth})
    if (!std::isfinite(of) || of < 0) throw MalformedPlan("what a collective costs is not a number from 0");
  for (const double share : {pace.efficiency, pace.reduction_efficiency})
    if (!(share > 0 && share <= 1))
      throw MalformedPlan("the efficiency of a collective is not above 0 and at most 1");
  return pace;
}

}  // namespace

void encode(const CollectivesConfig& config, proto::Collectives& out) {
  for (const auto& [choice, pace] : config.paces) encode(choice, pace, *out.add_paces());
  if (config.forced != CollectiveChoice{}) encode("", config.forced, *out.add_forced());
  for (const auto& [name, choice] : config.forced_by_name) encode(name, choice, *out.add_forced());
  out.set_channels(config.channels);
  out.set_experts_per_token(config.experts_per_token);
  out.set_nodes_per_token(config.nodes_per_token);
}

CollectivesConfig decode_collectives(const proto::Collectives& in) {
  CollectivesConfig config;
  for (const proto::CollectivePace& pace : in.paces())
    config.paces[decode_choice(pace.choice())] = decode_pace(pace);
  for (const proto::CollectiveChoice& forced : in.forced())
    (forced.collective().empty() ? config.forced : config.forced_by_name[forced.collective()]) =
        decode_choice(forced);
  config.channels = in.channels();
  config.experts_per_token = in.experts_per_token();
  config.nodes_per_token = in.nodes_per_token();
  if (config.channels < 0 || config.experts_per_token < 0 || config.nodes_per_token < 0)
    throw MalformedPlan("a number of channels, experts or nodes is below 0");
  return config;
}

MeasuredExchanges decode_measured_exchanges(const proto::Cluster& in) {
  MeasuredExchanges measured;
  for (const proto::MeasuredExchange& of : in.measured()) {
    if (!std::isfinite(of.latency_s()) || !std::isfinite(of.bandwidth()))
      throw MalformedPlan("what was measured of an exchange is not a finite number");
    measured[of.name()].push_back({of.ranks(), of.latency_s(), of.bandwidth()});
  }
  return measured;
}

}  // namespace simrun
