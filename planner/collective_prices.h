#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

#include "configs/cluster_config.h"
#include "schedules/device_mesh.h"
#include "schedules/plan.h"
#include "sim/exchange_costs.h"
#include "sim/topology.h"

namespace simrun {

// What collectives cost on meshes over the first devices of a cluster: whoever asks for a group first has its
// links loaded, and several threads may ask.
class CollectivePrices {
 public:
  explicit CollectivePrices(const Cluster& cluster) : cluster_(cluster), topology_(cluster_) {}

  // Of a collective over all groups of some axes.
  class Price {
   public:
    // Of bytes as sim/collective_cost.h counts them.
    double seconds(double bytes);

   private:
    friend class CollectivePrices;
    std::mutex mutex_;
    Plan plan_;  // ExchangeCosts looks at both
    Communication communication_;
    std::optional<ExchangeCosts> costs_;
  };
  // It lives as long as this does.
  Price& price(const Mesh& mesh, Opcode opcode, const std::vector<AxisId>& axes);

 private:
  // By the sizes of the mesh's axes.
  using Key = std::tuple<std::vector<std::int64_t>, Opcode, std::vector<AxisId>>;

  Cluster cluster_;
  Topology topology_;
  std::mutex mutex_;
  std::map<Key, Price> known_;
};

}  // namespace simrun
