#include <catch2/catch.hpp>
#include <map>

#include "schedules/compile.h"
#include "sim/simulate.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

Timeline totals_of(const Plan& plan, EngineChoice engine) { return simulate(plan, {Detail::totals, engine}); }

std::string kind_of(const std::string& name) {
  std::string kind;
  for (const char c : name)
    if (c < '0' || c > '9') kind += c;
  return kind;
}

// Bytes over all links of a kind, "node.nic.tx".
std::map<std::string, std::int64_t> bytes_by_kind(const Timeline& timeline) {
  std::map<std::string, std::int64_t> bytes;
  for (const LinkTimeline& link : timeline.links) bytes[kind_of(link.name)] += link.bytes * link.multiplicity;
  return bytes;
}

}  // namespace

TEST_CASE("a NIC carries the activations, the tied embedding's gradients and the gradient norm, once each") {
  // Two nodes of one GPU, pipeline 2, 8 microbatches.
  const Plan plan = compile(job_from(small_gpt(4, 1, 2, 2), {{"cluster.gpus_per_node", "1"},
                                                             {"cluster.nics_per_node", "1"},
                                                             {"training.global_batch_size", "16"}}));
  const std::int64_t activation = 512 * 2 * 1024 * 2;  // sequence x batch x hidden x fp16
  const std::int64_t embedding = 51200 * 1024 * 4;     // fp32; all-reduce over 2: 2 x 1/2 of it each way
  const std::int64_t expected = 8 * activation + embedding + 4;  // the norm is one fp32
  CHECK(expected == 226'492'420);
  for (const EngineChoice engine : {EngineChoice::fast, EngineChoice::simgrid}) {
    const Timeline timeline = totals_of(plan, engine);
    for (const LinkTimeline& link : timeline.links) {
      CAPTURE(timeline.engine, link.name);
      CHECK(link.bytes == expected);
    }
    std::int64_t links = 0;
    for (const LinkTimeline& link : timeline.links) links += link.multiplicity;
    CHECK(links == 4);  // two NICs, both directions
  }
}

TEST_CASE("both engines move the same bytes, no link is busier than the step or contended longer than busy") {
  for (const auto& [nics, tp] :
       std::vector<std::pair<const char*, int>>{{"1", 1}, {"2", 4}, {"4", 1}, {"8", 4}})
    for (const char* fabric : {"{topology: non_blocking}",
                               "{topology: leaf_spine, nodes_per_leaf: 1, spines: 3, oversubscription: 4}"}) {
      CAPTURE(nics, fabric, tp);
      const Plan plan = compile(
          job_from(small_gpt(4, tp, 2, 3), {{"cluster.nics_per_node", nics},
                                            {"cluster.fabric", fabric},
                                            {"training.global_batch_size", "48"},
                                            {"optimizer", "{zero_stage: 1, overlap_grad_reduce: true}"}}));
      const Timeline fast = totals_of(plan, EngineChoice::fast),
                     simgrid = totals_of(plan, EngineChoice::simgrid);
      CHECK(bytes_by_kind(fast).size() == bytes_by_kind(simgrid).size());
      for (const auto& [kind, bytes] : bytes_by_kind(simgrid)) {
        CAPTURE(kind);
        // Each of up to 48 links rounds its bytes.
        CHECK(std::abs(bytes_by_kind(fast)[kind] - bytes) <= 48);
      }
      for (const Timeline* timeline : {&fast, &simgrid})
        for (const LinkTimeline& link : timeline->links) {
          CAPTURE(timeline->engine, link.name);
          CHECK(link.busy <= timeline->step);
          CHECK(link.contended <= link.busy);
        }
      // A transfer cannot be faster for sharing; the bound says how much slower the step may be.
      const double excess = static_cast<double>(simgrid.step - fast.step) / static_cast<double>(fast.step);
      CHECK(excess <= fast.contention_bound + 1e-6);
    }
}

TEST_CASE("what is recorded changes no link and no bound of contention") {
  const Plan plan = compile(job_from(small_gpt(4, 2, 2, 3), {{"cluster.nics_per_node", "1"},
                                                             {"training.global_batch_size", "48"},
                                                             {"optimizer", "{zero_stage: 1}"}}));
  const Timeline totals = simulate(plan), whole = simulate(plan, {.detail = Detail::instructions});
  CHECK(totals.contention_bound == whole.contention_bound);
  CHECK(totals.engine_reason == whole.engine_reason);
  REQUIRE(totals.links.size() == whole.links.size());
  for (std::size_t l = 0; l < totals.links.size(); ++l) {
    CHECK(totals.links[l].name == whole.links[l].name);
    CHECK(totals.links[l].bytes == whole.links[l].bytes);
    CHECK(totals.links[l].busy == whole.links[l].busy);
    CHECK(totals.links[l].contended == whole.links[l].contended);
  }
}

TEST_CASE("instances that share a NIC occupy it for their common time") {
  // 8 GPUs of a node send 2 MiB at once over one NIC of 25 GB/s x 0.91: 8 microbatches keep it busy for 8 x
  // 8 x 2 MiB / 22.75 GB/s, and the gradients as long the other way.
  const Plan plan =
      compile(job_from(small_gpt(4, 8, 2, 2), {{"cluster.nics_per_node", "1"},
                                               {"model.untie_embeddings_and_output_weights", "true"},
                                               {"training.global_batch_size", "16"}}));
  const double sending = 8.0 * 8 * 512 * 2 * 1024 * 2 / (25e9 * 0.91);
  const Timeline fast = totals_of(plan, EngineChoice::fast);
  bool found = false;
  for (const LinkTimeline& link : fast.links) {
    if (link.name != "node0.nic0.tx") continue;
    found = true;
    CHECK(static_cast<double>(link.busy) * 1e-12 == Approx(sending).epsilon(1e-3));
  }
  CHECK(found);
}

}  // namespace simrun
