#pragma once

#include <cstdint>
#include <vector>

// How the nodes' NICs are connected.
namespace simrun {

enum class FabricTopology : std::uint8_t { non_blocking, leaf_spine, fat_tree, dragonfly_plus, torus };

// Which of several ways between two NICs a flow takes. ecmp: a hash of the two, so that flows collide by
// chance. static_by_destination: by the destination's number in turn (d-mod-k, as InfiniBand's routing tables
// of fat trees). spray: all of them evenly, as adaptive routing and packet spraying come near to.
enum class PathChoice : std::uint8_t { ecmp, static_by_destination, spray };

// non_blocking: only NICs limit traffic. Otherwise a leaf switch serves nodes_per_leaf nodes, one leaf per
// rail if rail_optimized (NIC i of every node is on rail i), else one for all their NICs.
//
//   leaf_spine      each leaf has one link per direction to each of `spines` switches, together (a full
//                   leaf's NICs) x (NIC bandwidth) / oversubscription. One spine stands for any number of
//                   them between which traffic is spread evenly
//   fat_tree        leaves_per_pod leaves (of every rail) and their `spines` make a pod; each spine has a
//                   link to cores / spines of the `cores` switches above all pods (Al-Fares et al. 2008),
//                   together what its leaves have to it / core_oversubscription
//   dragonfly_plus  pods without cores: spine i of a pod has a link to spine i of every other pod, together
//                   likewise (Shpiner et al. 2017). Shortest ways only
//   torus           no switches and no NICs: every GPU is linked with two neighbours in each dimension, x
//                   first, over links of inter_node; a route takes the dimensions in turn, each the
//                   shorter way
struct Fabric {
  FabricTopology topology = FabricTopology::non_blocking;
  bool rail_optimized = true;
  std::int64_t nodes_per_leaf = 0;
  std::int64_t spines = 0;  // of a pod
  double oversubscription = 1;
  double spine_latency_s = 0;  // added to inter_node's latency where a route crosses a spine switch
  PathChoice routing = PathChoice::ecmp;
  // What goes to another rail first goes over NVLink to the GPU with that rail's NIC (NCCL's PXN).
  bool pxn = false;
  bool rail_only = false;   // no switch joins rails, so that all goes that way
  std::int64_t planes = 1;  // separate equal fabrics; each NIC has a port of 1/planes of its rate on each
  std::int64_t leaves_per_pod = 0;
  std::int64_t cores = 0;
  double core_oversubscription = 1;
  double core_latency_s = 0;             // added where a route leaves its pod
  std::vector<std::int64_t> torus = {};  // GPUs in each of up to three dimensions
  bool torus_wraps = true;               // false: a mesh, without links from the last to the first
  double hop_latency_s = 0;              // of every hop of a torus after the first
  bool operator==(const Fabric&) const = default;
};

}  // namespace simrun
