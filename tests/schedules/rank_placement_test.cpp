#include "schedules/rank_placement.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "schedules/lint.h"
#include "two_stage_plan.h"

namespace simrun {
namespace {

// tp 2, cp 1, dp 2, pp 2 on 8 GPUs.
Job job_with(const std::string& order, std::vector<std::int64_t> map = {}) {
  Job job;
  job.parallelism.tensor_model_parallel_size = 2;
  job.parallelism.data_parallel_size = 2;
  job.parallelism.pipeline_model_parallel_size = 2;
  job.parallelism.rank_order = order;
  job.parallelism.rank_map = std::move(map);
  return job;
}

using Devices = std::vector<std::vector<std::int64_t>>;

Devices devices_of(const Job& job) {
  Devices all;
  for (const std::vector<DeviceRange>& ranges : placed_devices(job)) {
    all.emplace_back();
    for (const DeviceRange& range : ranges)
      for (std::int64_t i = 0; i < range.count; ++i) all.back().push_back(range.first + i);
  }
  return all;
}

}  // namespace

TEST_CASE("the order of axes says which ranks are neighbouring GPUs") {
  // A stage's devices are listed tp fastest, then dp.
  CHECK(devices_of(job_with("tp-cp-ep-dp-pp")) == Devices{{0, 1, 2, 3}, {4, 5, 6, 7}});
  CHECK(devices_of(job_with("tp-cp-ep-pp-dp")) == Devices{{0, 1, 4, 5}, {2, 3, 6, 7}});
  CHECK(devices_of(job_with("pp-dp-cp-tp")) == Devices{{0, 4, 2, 6}, {1, 5, 3, 7}});
  CHECK(devices_of(job_with("dp-tp-cp-pp")) == Devices{{0, 2, 1, 3}, {4, 6, 5, 7}});
  CHECK(placed_devices(job_with("tp-cp-ep-dp-pp"))[1] == std::vector<DeviceRange>{{4, 4}});
}

TEST_CASE("a map lists the rank of every device") {
  // Device 0 runs rank 7: the last of the second pipeline rank.
  CHECK(devices_of(job_with("tp-cp-ep-dp-pp", {7, 6, 5, 4, 3, 2, 1, 0})) ==
        Devices{{7, 6, 5, 4}, {3, 2, 1, 0}});
  CHECK(devices_of(job_with("tp-cp-ep-dp-pp", {0, 1, 2, 3, 4, 5, 6, 7})) ==
        devices_of(job_with("tp-cp-ep-dp-pp")));
}

TEST_CASE("two ranks on one device are a fault of the plan") {
  Plan plan = two_stage_plan();
  REQUIRE(lint(plan).empty());
  plan.stages[1].devices = plan.stages[0].devices;
  const std::vector<std::string> findings = lint(plan);
  CHECK(std::ranges::any_of(findings, [](const std::string& finding) {
    return finding.find("two ranks are on device 0, of pipeline rank 0 and of 1") != std::string::npos;
  }));
}

TEST_CASE("every order gives every device to one rank") {
  std::vector<std::string> axes{"cp", "dp", "pp", "tp"};
  do {
    Job job = job_with(axes[0] + "-" + axes[1] + "-" + axes[2] + "-" + axes[3]);
    job.parallelism.context_parallel_size = 3;
    std::vector<std::int64_t> all;
    for (const std::vector<std::int64_t>& devices : devices_of(job))
      all.insert(all.end(), devices.begin(), devices.end());
    std::ranges::sort(all);
    CHECK(all.size() == 24);
    for (std::size_t i = 0; i < all.size(); ++i) CHECK(all[i] == static_cast<std::int64_t>(i));
  } while (std::ranges::next_permutation(axes).found);
}

}  // namespace simrun
