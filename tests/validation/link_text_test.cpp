#include "validation/link_text.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "validation/row_rules.h"

namespace simrun {
namespace {

struct Sentence {
  const char* text;
  std::int64_t nics;
  double gigabytes;  // per second and NIC
};

std::vector<LinkGeneration> generations() {
  return load_row_rules({{}, {std::string(SIMRUN_SOURCE_DIR) + "/configs"}}).links;
}

TEST_CASE("networks: NICs and rates as sources write them, on nodes of 8 GPUs") {
  const Sentence sentence = GENERATE(
      Sentence{"8x200Gb HDR IB per node (+2 storage HCAs), 3-level fat tree", 8, 25},
      Sentence{"1600 Gbps RoCE per node", 8, 25}, Sentence{"4x Omni-Path 100Gb links per node", 4, 12.5},
      Sentence{"InfiniBand NDR, 8x400 Gb/s NIC per node", 8, 50}, Sentence{"25 Gbps Ethernet", 1, 3.125},
      Sentence{"InfiniBand 400 Gb/s per GPU (50 GB/s)", 8, 50},
      Sentence{"InfiniBand 8x50 GB/s per node", 8, 50},
      Sentence{"8 InfiniBand adapters per server, 100 GB/s per server", 8, 12.5},
      Sentence{"IB (200Gb/s HDR per paper, see md: from memory)", 8, 25},
      Sentence{"2 Tb/s RoCE per node", 8, 31.25}, Sentence{"4x ConnectX-6 HCA per node (HDR IB)", 4, 25},
      Sentence{"4x100Gb RoCE per node", 4, 12.5},
      Sentence{"50 Gbps Ethernet per node (instance class)", 1, 6.25},
      Sentence{"800 Gbps per node (type not stated)", 8, 12.5}, Sentence{"4 x 200 Gb/s per node", 4, 25},
      Sentence{"8 \xC3\x97 200 Gb/s", 8, 25}, Sentence{"8*100Gb/s", 8, 12.5}, Sentence{"8x 400G NDR", 8, 50},
      Sentence{"400 Gb/s/node", 8, 6.25}, Sentence{"800 Gb/s per node (4x200)", 4, 25},
      Sentence{"400 Gbps (2x200)", 2, 25}, Sentence{"200 Gb/s HDR InfiniBand, 4 per node", 4, 25},
      Sentence{"dual 100 GbE", 2, 12.5}, Sentence{"200 Gb/s HDR, dual socket nodes", 8, 25},
      Sentence{"400 Gb/s NDR (8x 50 GB/s)", 8, 50}, Sentence{"four 200 Gb/s HDR", 4, 25},
      Sentence{"4 HDR InfiniBand HCAs per node", 4, 25}, Sentence{"8 400 Gbps InfiniBand HCAs", 8, 50},
      Sentence{"8 NVIDIA Mellanox 400 Gbps HDR InfiniBand HCAs", 8, 50},
      Sentence{"4 x 200 Gb/s per server", 4, 25}, Sentence{"2 switches, 200 Gb/s HDR links", 8, 25},
      Sentence{"4x HDR (800 Gb/s per node)", 4, 25}, Sentence{"one NIC of 400 Gb/s per GPU", 8, 50},
      Sentence{"HDR100", 8, 12.5}, Sentence{"FDR InfiniBand", 8, 6.75}, Sentence{"4x XDR", 4, 100},
      Sentence{"Slingshot-11", 8, 25}, Sentence{"1,600 Gb/s per node", 8, 25}, Sentence{"3.2 Tbps", 8, 50},
      Sentence{"32x EFA per node (about 3.2 Tbps)", 32, 12.5},
      Sentence{"16x 400 Gbps EFAv4 per node (6.4 Tbps/node)", 16, 50}, Sentence{"RoCE 4x 200G", 4, 25},
      Sentence{"8x ConnectX-7 400G IB", 8, 50}, Sentence{"100G per GPU", 8, 12.5},
      Sentence{"400G InfiniBand, 3.2 Tbps per node", 8, 50},
      Sentence{"2x dual-port HDR100 IB per node", 4, 12.5});
  CAPTURE(sentence.text);
  const auto network = node_network_in(sentence.text, 8, generations());
  REQUIRE(network);
  CHECK(network->nics == sentence.nics);
  CHECK(network->bytes_per_second == Approx(sentence.gigabytes * 1e9));
}

TEST_CASE("networks: a bare rate that is all of a node's cards together is the node's") {
  const std::vector<LinkGeneration> known = generations();
  const NodeNetwork of_p4d{4, 12.5e9};  // four cards of 100 Gb/s: 400 Gb/s for eight GPUs
  const auto read = [&](const char* text) { return node_network_in(text, 8, known, of_p4d).value(); };
  CHECK(read("EFA (400 Gbps p4d class)").nics == 4);
  CHECK(read("EFA (400 Gbps p4d class)").bytes_per_second == Approx(12.5e9));
  CHECK(read("400 Gb/s per GPU").nics == 8);
  CHECK(read("400 Gb/s per GPU").bytes_per_second == Approx(50e9));
  CHECK(read("400 Gb/s per NIC").bytes_per_second == Approx(50e9));
  CHECK(read("200 Gb/s").nics == 8);  // no more than a card's or a GPU's
  CHECK(read("200 Gb/s").bytes_per_second == Approx(25e9));
}

TEST_CASE("networks: a rate above the fastest generation's is the node's") {
  const auto rate = [](const std::vector<LinkGeneration>& known) {
    return node_network_in("400 Gb/s RoCE", 8, known).value().bytes_per_second;
  };
  CHECK(rate(generations()) == Approx(50e9));  // XDR has 800 Gb/s
  CHECK(rate({{"hdr", 25e9}}) == Approx(50e9 / 8));
  CHECK(rate({}) == Approx(50e9));
}

TEST_CASE("networks: a sentence without a rate says none") {
  for (const char* text :
       {"", "not stated in README", "single node", "AWS EFA", "RoCE (bandwidth not stated)", "A100 80G"})
    CHECK_FALSE(node_network_in(text, 8, generations()));
}

}  // namespace
}  // namespace simrun
