#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace simrun {

// What a sentence about a node's network says: NICs and the rate of one, per direction.
struct NodeNetwork {
  std::int64_t nics = 0;
  double bytes_per_second = 0;  // of one NIC
};

// A kind of link that a text may name instead of a rate (configs/validation/links.yaml).
struct LinkGeneration {
  std::string name;             // in lower case; one whose name holds another's comes first
  double bytes_per_second = 0;  // of one link, per direction
};

// Reads "8x200Gb HDR IB per node", "1600 Gbps RoCE per node", "400 Gb/s per GPU", "4x100 Gb OPA", "8x50
// GB/s", "800 Gbps per node", "25 Gbps Ethernet", "2 Tb/s RoCE per node", "8 InfiniBand adapters, 100 GB/s
// per server", "4 x 200 Gb/s", "four 200 Gb/s HDR", "4 HDR InfiniBand HCAs", "1x NDR per GPU", "4x 200G". A
// rate without "per GPU", and without a number of links in front of it, is the node's where the text says
// "per node", "per server" or Ethernet, or, of several links, where it is above any link's ("32x EFA (3.2
// Tbps)"), else one GPU's. Without a rate the generation of `generations` that it names (EDR, HDR100) is one.
// Nothing where the text names neither. `usual`: what nodes of this kind have. A bare rate that is as much as
// theirs together is the node's, too: "EFA (400 Gbps p4d class)" are the four cards of 100 Gb/s of such a
// node.
std::optional<NodeNetwork> node_network_in(const std::string& text, std::int64_t gpus_per_node,
                                           const std::vector<LinkGeneration>& generations,
                                           const NodeNetwork& usual = {});

// ASCII.
std::string lower_case(std::string text);

}  // namespace simrun
