#include "sim/alike_communications.h"

#include <cstdint>
#include <map>
#include <tuple>

namespace simrun {

std::vector<Index> first_alike(const Plan& plan) {
  using Key = std::tuple<Index, std::uint8_t, std::vector<std::uint8_t>, std::vector<std::int32_t>,
                         std::vector<std::int32_t>, std::vector<std::int64_t>, std::vector<std::int64_t>>;
  std::map<Key, Index> known;
  std::vector<Index> first;
  for (const Communication& c : plan.communications) {
    std::vector<std::int32_t> peer{c.peer.pipeline_rank, c.peer.offset, c.peer.wrap ? 1 : 0};
    peer.insert(peer.end(), c.peer.axes.begin(), c.peer.axes.end());
    std::vector<std::int64_t> servers{c.servers.dedicated ? 1 : 0, c.servers.one_sided ? 1 : 0};
    servers.insert(servers.end(), c.servers.members.begin(), c.servers.members.end());
    const Key key{c.channel, c.group.mesh,          c.group.axes, c.group.pipeline_ranks,
                  peer,      c.peer.coordinate_map, servers};
    first.push_back(known.try_emplace(key, static_cast<Index>(first.size())).first->second);
  }
  return first;
}

}  // namespace simrun
