// The flows of a step of a collective on SimGrid's network: none runs ahead of the one that all wait for.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <sstream>
#include <utility>

#include "configs/load_job.h"
#include "configs/text_file.h"
#include "sim/collective_flows.h"
#include "sim/exchange_costs.h"
#include "sim/network.h"
#include "sim/plan_job.h"
#include "sim/simulate.h"
#include "sim/worker.h"

namespace simrun {

namespace {

// Ends of exchanges that begin together, in a process of their own.
std::vector<Picoseconds> ends_together(const Topology& topology,
                                       const std::vector<NetworkExchange>& exchanges) {
  const std::string text = run_in_worker([&] {
    std::vector<std::vector<NetworkExchange>> all;
    for (const NetworkExchange& exchange : exchanges) all.push_back({exchange});
    LinkMeter meter(topology.links(), {});
    Network network(topology, all, meter);
    for (Index e = 0; e < all.size(); ++e) network.post(e, 0, 0, e);
    std::vector<Picoseconds> ends(all.size());
    network.run([&](Index ticket, Picoseconds end) { ends[ticket] = end; });
    std::string words;
    for (const Picoseconds end : ends) words += std::to_string(end) + " ";
    return words;
  });
  std::istringstream words(text);
  std::vector<Picoseconds> ends(exchanges.size());
  for (Picoseconds& end : ends) words >> end;
  return ends;
}

// As many nodes of a shipped cluster; of one with groups of nodes, all.
Cluster nodes_of(const std::string& name, int nodes) {
  LoadOptions options;
  options.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
  const std::string text =
      *read_text_file(options.preset_directories[0] + "/clusters/" + name + ".yaml").text;
  if (text.find("node_groups:") == std::string::npos)
    options.overrides = {{"cluster.nodes", std::to_string(nodes)}};
  return load_cluster(name, options);
}

// Groups of every `stride`-th GPU.
std::vector<std::vector<std::int64_t>> strided_groups(std::int64_t gpus, std::int64_t stride) {
  std::vector<std::vector<std::int64_t>> all(static_cast<std::size_t>(stride));
  for (std::int64_t gpu = 0; gpu < gpus; ++gpu) all[static_cast<std::size_t>(gpu % stride)].push_back(gpu);
  return all;
}

// "node.nic.tx" of "node3.nic1.tx".
std::string kind_of_link(std::string name) {
  std::erase_if(name, [](char c) { return c >= '0' && c <= '9'; });
  return name;
}

}  // namespace

TEST_CASE("a step that waits for its NIC leaves the rest of NVLink to others") {
  // NVLink of 1.5 bytes per picosecond, NICs of 0.5. A step sends 1 MB over each, and takes the 2 us of the
  // NIC, at 0.5 on both. Another transfer over the same NVLink port has the other 1.0: 1 us. Were the step's
  // own shared max-min by itself, each would get 0.75 there.
  Cluster cluster;
  cluster.nodes = 2;
  cluster.gpus_per_node = cluster.nics_per_node = 2;
  cluster.intra_node = {1.5e12, 0, 1};
  cluster.inter_node = {0.5e12, 0, 1};
  const Topology topology(cluster);
  const ExchangeFlows step{{0, {{topology.route(0, 2), 1}, {topology.route(0, 1), 1}}}};
  const std::vector<Picoseconds> ends =
      ends_together(topology, {{step, 1e6}, {transfer_flows(topology, 0, 1), 1e6}});
  if (flow_solvers().front() == FlowSolver::lmm) CHECK(ends[1] == 1'000'000);
  CHECK(ends[0] == 2'000'000);
}

TEST_CASE(
    "collectives that begin together take in SimGrid what the fast engine says, on every shipped cluster",
    "[long]") {
  if (flow_solvers().front() != FlowSolver::lmm) return;
  int compared = 0, shared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(SIMRUN_SOURCE_DIR "/configs/clusters")) {
    const std::string name = entry.path().stem();
    const Cluster cluster = nodes_of(name, 2);
    const Topology topology(cluster);
    for (const std::int64_t stride : {1, 2, 4})
      for (const Opcode opcode : {Opcode::all_reduce, Opcode::all_gather, Opcode::all_to_all}) {
        CAPTURE(name, stride, to_string(opcode));
        constexpr double bytes = 3e7;
        std::vector<ExchangeFlows> flows;
        std::vector<NetworkExchange> exchanges;
        for (const std::vector<std::int64_t>& devices :
             strided_groups(cluster.nodes * cluster.gpus_per_node, stride)) {
          flows.push_back(collective_flows(topology, cluster, opcode, devices, bytes));
          exchanges.push_back({flows.back(), bytes});
        }
        const LockstepCosts costs = lockstep_costs(topology, flows);
        if (costs.each.size() > 1) continue;  // unlike groups: the faster ones leave links to the others
        ++compared;
        shared += stride > 1 ? 1 : 0;
        const double expected = 1e12 * costs.together.at(bytes);
        for (const Picoseconds end : ends_together(topology, exchanges))
          REQUIRE(static_cast<double>(end) == Approx(expected).epsilon(1e-7));
      }
  }
  CHECK(compared > 200);
  CHECK(shared > 100);
}

TEST_CASE("both engines say the same of how busy links are where they say the same of the step") {
  if (flow_solvers().front() != FlowSolver::lmm) return;
  // Rings of tensor-parallel groups inside a node, and of data-parallel ones over NICs and NVLink, that
  // overlap.
  LoadOptions options;
  options.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
  const Job job = load_job_text(R"(simrun: 1
model: {from: llama3-8b, num_hidden_layers: 2}
training: {seq_length: 2048, micro_batch_size: 1, global_batch_size: 16, precision: bf16}
parallelism: {tensor_model_parallel_size: 2}
optimizer: {zero_stage: 1, overlap_grad_reduce: true, overlap_param_gather: true}
cluster: {from: dgx_h100, nodes: 4}
)",
                                "job.yaml", options)
                      .job;
  const auto links_of = [&](EngineChoice engine) {
    std::map<std::string, LinkTimeline> links;
    const Timeline timeline = simulate(plan_job(job), {.engine = engine});
    for (const LinkTimeline& link : timeline.links) links.emplace(kind_of_link(link.name), link);
    return std::pair(timeline.step, links);
  };
  const auto [fast_step, fast] = links_of(EngineChoice::fast);
  const auto [shared_step, shared] = links_of(EngineChoice::simgrid);
  REQUIRE(static_cast<double>(shared_step) == Approx(static_cast<double>(fast_step)).epsilon(1e-3));
  REQUIRE(fast.size() >= 4);
  for (const auto& [kind, link] : fast) {
    CAPTURE(kind);
    REQUIRE(shared.contains(kind));
    CHECK(shared.at(kind).bytes == link.bytes);
    CHECK(static_cast<double>(shared.at(kind).busy) == Approx(static_cast<double>(link.busy)).epsilon(0.01));
  }
}

}  // namespace simrun
