#include <catch2/catch.hpp>
#include <map>

#include "sim/network.h"
#include "sim/worker.h"

namespace simrun {

namespace {

// Two nodes of two GPUs with a NIC each; 1 byte per picosecond everywhere, no latency.
Cluster cluster(double flow_bandwidth) {
  Cluster two;
  two.nodes = 2;
  two.gpus_per_node = two.nics_per_node = 2;
  two.intra_node = two.inter_node = {1e12, 0, 1};
  two.inter_node.flow_bandwidth = flow_bandwidth;
  return two;
}

struct Posting {
  Picoseconds at = 0;
  std::int64_t from = 0, to = 0;
  double bytes = 0;
  double latency_s = 0;
};

struct Outcome {
  std::vector<Picoseconds> ends;  // by posting
  std::map<std::string, LinkMeter::Link> links;
  std::vector<float> first_nic_tx;  // utilisation
};

// Ends of transfers that are all posted beforehand. In a worker: a process has one flow engine.
Outcome run_postings(const std::vector<Posting>& postings, double flow_bandwidth = 0) {
  Outcome outcome;
  const std::string bytes = run_in_worker([&] {
    const Topology topology(cluster(flow_bandwidth));
    std::vector<std::vector<NetworkExchange>> exchanges;
    for (const Posting& posting : postings) {
      ExchangeFlows flows = transfer_flows(topology, posting.from, posting.to);
      flows[0].latency_s = posting.latency_s;
      exchanges.push_back({{flows, posting.bytes}});
    }
    LinkMeter meter(topology.links(), std::vector<bool>(topology.links(), true));
    Network network(topology, exchanges, meter);
    for (Index p = 0; p < postings.size(); ++p) network.post(p, 0, postings[p].at, p);
    std::vector<Picoseconds> ends(postings.size());
    Picoseconds last = 0;
    network.run([&](Index ticket, Picoseconds end) { last = ends[ticket] = end; });
    std::string text;
    for (const Picoseconds end : ends) text += std::to_string(end) + " ";
    for (LinkIndex link = 0; link < topology.links(); ++link) {
      const LinkMeter::Link& used = meter.at(link);
      text += topology.name(link) + " " + std::to_string(used.bytes) + " " + std::to_string(used.busy) + " " +
              std::to_string(used.contended) + " ";
      if (topology.name(link) != "node0.nic0.tx") continue;
      text += "shares ";
      for (const float share : meter.utilisation(link, 1e12, last)) text += std::to_string(share) + " ";
      text += "end ";
    }
    return text;
  });
  std::istringstream words(bytes);
  outcome.ends.resize(postings.size());
  for (Picoseconds& end : outcome.ends) words >> end;
  for (std::string name; words >> name;) {
    if (name == "shares") {
      for (std::string share; words >> share && share != "end";)
        outcome.first_nic_tx.push_back(std::stof(share));
      continue;
    }
    LinkMeter::Link& link = outcome.links[name];
    words >> link.bytes >> link.busy >> link.contended;
  }
  return outcome;
}

}  // namespace

TEST_CASE("a transfer that is alone takes its latency and its bytes over the bandwidth") {
  const Outcome outcome = run_postings({{.at = 100, .from = 0, .to = 2, .bytes = 5e6, .latency_s = 2e-6}});
  CHECK(outcome.ends[0] == 100 + 2'000'000 + 5'000'000);
  CHECK(outcome.links.at("node0.nic0.tx").bytes == Approx(5e6));
  CHECK(outcome.links.at("node0.nic0.tx").busy == 5'000'000);  // latency keeps no link busy
  CHECK(outcome.links.at("node0.nic0.tx").contended == 0);
  CHECK(outcome.links.at("node1.nic0.rx").bytes == Approx(5e6));
  CHECK(outcome.links.at("node0.gpu0.nvlink_tx").bytes == 0);
}

TEST_CASE("a second transfer from the same NIC halves the first one from when it joins") {
  // GPU 0 sends 10 MB to GPU 2 at 0; at 4 us, with 6 MB to go, it also sends 10 MB to GPU 3. Each gets
  // half: the first ends at 4 + 12 = 16 us, when the second has 4 MB to go: 20 us.
  const Outcome outcome = run_postings(
      {{.at = 0, .from = 0, .to = 2, .bytes = 10e6}, {.at = 4'000'000, .from = 0, .to = 3, .bytes = 10e6}});
  CHECK(outcome.ends == std::vector<Picoseconds>{16'000'000, 20'000'000});
  const LinkMeter::Link& tx = outcome.links.at("node0.nic0.tx");
  CHECK(tx.bytes == Approx(20e6));
  CHECK(tx.busy == 20'000'000);
  CHECK(tx.contended == 12'000'000);
  CHECK(outcome.links.at("node1.nic0.rx").contended == 0);
  for (const float share : outcome.first_nic_tx) CHECK(share == Approx(1).epsilon(1e-4));
}

TEST_CASE("a link is contended while flows of two transfers use it, however many each has") {
  LinkMeter meter(1, {});
  const CarriedLink one{0, 1, 0}, three{0, 3, 0}, mixed{0, 2, 1};
  meter.begin(three, 7, 0);
  meter.begin(one, 8, 10);
  meter.end(one, 8, 14);  // three of one transfer are left: 4 contended
  meter.end(three, 7, 30);
  meter.begin(mixed, 9, 40);  // stands for flows of more than one
  meter.end(mixed, 9, 45);
  CHECK(meter.at(0).busy == 35);
  CHECK(meter.at(0).contended == 9);
}

TEST_CASE("both directions of a NIC are links of their own") {
  const Outcome outcome = run_postings(
      {{.at = 0, .from = 0, .to = 2, .bytes = 10e6}, {.at = 0, .from = 2, .to = 0, .bytes = 10e6}});
  CHECK(outcome.ends == std::vector<Picoseconds>{10'000'000, 10'000'000});
}

TEST_CASE("three into one NIC: the last two share what the first leaves") {
  // 3, 6 and 9 MB to GPU 0 at once, a third each: 9 us; then 3 and 6 MB at a half: 15 us; then 3 MB: 18 us.
  const Outcome outcome = run_postings({{.at = 0, .from = 2, .to = 0, .bytes = 3e6},
                                        {.at = 0, .from = 3, .to = 0, .bytes = 6e6},
                                        {.at = 0, .from = 2, .to = 0, .bytes = 9e6}});
  // Two of them also share node1.nic0.tx, which is no narrower for them than the receiver.
  CHECK(outcome.ends == std::vector<Picoseconds>{9'000'000, 15'000'000, 18'000'000});
  CHECK(outcome.links.at("node0.nic0.rx").bytes == Approx(18e6));
  CHECK(outcome.links.at("node0.nic0.rx").busy == 18'000'000);
  CHECK(outcome.links.at("node0.nic0.rx").contended == 15'000'000);
}

TEST_CASE("a transfer that ends as another begins does not meet it") {
  const Outcome outcome = run_postings(
      {{.at = 0, .from = 0, .to = 2, .bytes = 5e6}, {.at = 5'000'000, .from = 0, .to = 2, .bytes = 5e6}});
  CHECK(outcome.ends == std::vector<Picoseconds>{5'000'000, 10'000'000});
  CHECK(outcome.links.at("node0.nic0.tx").contended == 0);
}

TEST_CASE("long after one meeting the network still wakes at every date") {
  // Shared 0 to 4 us, alone afterwards, then a pair at 100 us.
  const Outcome outcome =
      run_postings({{.at = 0, .from = 0, .to = 2, .bytes = 2e6},
                    {.at = 0, .from = 0, .to = 3, .bytes = 2e6},
                    {.at = 50'000'000, .from = 1, .to = 3, .bytes = 1e6},
                    {.at = 100'000'000, .from = 0, .to = 2, .bytes = 2e6, .latency_s = 1e-6},
                    {.at = 101'000'000, .from = 0, .to = 2, .bytes = 2e6}});
  CHECK(outcome.ends == std::vector<Picoseconds>{4'000'000, 4'000'000, 51'000'000, 105'000'000, 105'000'000});
}

TEST_CASE("a limited transfer keeps its rate when a second one joins, as long as both fit on the NIC") {
  // At most 0.4 bytes per picosecond each: 10 MB take 25 us, whether SimGrid moves them (from 5 us on) or
  // not.
  const Outcome two = run_postings(
      {{.at = 0, .from = 0, .to = 2, .bytes = 10e6}, {.at = 5'000'000, .from = 0, .to = 3, .bytes = 10e6}},
      0.4e12);
  CHECK(two.ends == std::vector<Picoseconds>{25'000'000, 30'000'000});
  CHECK(two.links.at("node0.nic0.tx").contended == 20'000'000);
  // Three share 1: from 10 us on a third each, 6 MB to go of the first: 28 us. The others, 4 MB further, then
  // get 0.4 each again: 4 MB more, + 10 us.
  const Outcome three = run_postings({{.at = 0, .from = 0, .to = 2, .bytes = 10e6},
                                      {.at = 10'000'000, .from = 0, .to = 3, .bytes = 10e6},
                                      {.at = 10'000'000, .from = 0, .to = 2, .bytes = 10e6}},
                                     0.4e12);
  CHECK(three.ends == std::vector<Picoseconds>{28'000'000, 38'000'000, 38'000'000});
  // Inside a node nothing is limited.
  CHECK(run_postings({{.at = 0, .from = 0, .to = 1, .bytes = 10e6}}, 0.4e12).ends[0] == 10'000'000);
}

TEST_CASE("a transfer of no bytes takes its latency") {
  const Outcome outcome = run_postings({{.at = 0, .from = 0, .to = 2, .bytes = 0, .latency_s = 3e-6},
                                        {.at = 0, .from = 0, .to = 2, .bytes = 8e6}});
  CHECK(outcome.ends == std::vector<Picoseconds>{3'000'000, 8'000'000});
}

}  // namespace simrun
