#include <algorithm>
#include <catch2/catch.hpp>

#include "schedules/compile.h"
#include "sim/choose_collectives.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

const ChosenCollective* find(const std::vector<ChosenCollective>& chosen, const std::string& collective,
                             const std::string& group) {
  const auto found = std::ranges::find_if(chosen, [&](const ChosenCollective& of) {
    return of.collective == collective && of.group == group && of.most_bytes > 1'000'000;
  });
  return found == chosen.end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("each group's collectives are named with what carries them out") {
  // 8 tensor ranks in each of 4 nodes, 4 replicas.
  const std::vector<Override> nccl{{"cluster.collectives.from", "nccl_ampere"}};
  const Plan plan = compile(job_from(small_gpt(4, 8, 1, 4), nccl));
  const std::vector<ChosenCollective> chosen = choose_collectives(plan);
  const ChosenCollective* const tensor = find(chosen, "all_reduce", "tp");
  REQUIRE(tensor != nullptr);
  CHECK(tensor->ranks == 8);
  CHECK(tensor->protocol == "ll128");
  CHECK(tensor->most_bytes == 2 * 512 * 1024 * 2);  // micro batch x sequence x hidden, fp16
  const ChosenCollective* const data = find(chosen, "all_reduce", "dp");
  REQUIRE(data != nullptr);
  CHECK(data->ranks == 4);
  // What is forced is what is taken.
  std::vector<Override> forced = nccl;
  forced.push_back({"cluster.collectives.algorithm", "tree"});
  for (const ChosenCollective& of : choose_collectives(compile(job_from(small_gpt(4, 8, 1, 4), forced))))
    if (of.collective == "all_reduce") CHECK(of.algorithm == "tree");
}

TEST_CASE("collectives are counted over the step of the pipeline rank that has most of them") {
  // 64 sequences in micro batches of 2 over 4 replicas: 8 microbatches. Each of a rank's two layers reduces
  // twice forwards and twice backwards, the embedding once forwards, the head once backwards.
  const Plan plan = compile(job_from(small_gpt(4, 8, 1, 4)));
  const std::vector<ChosenCollective> chosen = choose_collectives(plan);
  const ChosenCollective* const tensor = find(chosen, "all_reduce", "tp");
  REQUIRE(tensor != nullptr);
  CHECK(tensor->times >= 8 * 4 * 4);
  CHECK(
      choose_collectives(compile(job_from(small_gpt(4, 1, 1, 1), {{"cluster.gpus_per_node", "1"}}))).empty());
}

}  // namespace simrun
