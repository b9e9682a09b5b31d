#include <catch2/catch.hpp>
#include <filesystem>

#include "small_job.h"

namespace simrun {
namespace {

using namespace test;

LoadedJob tiny_on(const std::string& framework, std::vector<Override> overrides = {}) {
  overrides.insert(overrides.begin(), {"framework", framework});
  return tiny(overrides);
}

TEST_CASE("every framework preset loads and keeps its kernels over a reload") {
  int count = 0;
  for (const auto& file : std::filesystem::directory_iterator(preset_directory + "/frameworks")) {
    const std::string name = file.path().stem().string();
    CAPTURE(name);
    const LoadedJob loaded = tiny_on(name);
    CHECK(loaded.job.framework.name == name);
    CHECK(loaded.job.framework.kernels != FrameworkKernels{});
    const LoadedJob again = load_job_text(loaded.effective_yaml, "again.yaml", {{}, {preset_directory}});
    CHECK(again.job.framework == loaded.job.framework);
    CHECK(again.job.cluster == loaded.job.cluster);
    CHECK(again.job.config_sha256 == loaded.job.config_sha256);
    ++count;
  }
  CHECK(count > 10);
}

TEST_CASE("a framework from another one keeps what it does not say") {
  const FrameworkKernels before = tiny_on("megatron_2021").job.framework.kernels;
  const FrameworkKernels after = tiny_on("megatron_2022").job.framework.kernels;
  CHECK_FALSE(before.fused_weight_gradient);
  CHECK(after.fused_weight_gradient);
  CHECK(after.softmax == SoftmaxKernel::megatron);
  CHECK(after.host_dispatch_s == before.host_dispatch_s);
}

TEST_CASE("kernels that there are not are named where they are written") {
  CHECK_THROWS_WITH(tiny_on("megatron_2021", {{"framework.kernels.softmax", "megatrom"}}),
                    Catch::Contains("cannot be 'megatrom'"));
  CHECK_THROWS_WITH(tiny_on("megatron_2021", {{"framework.kernels.flash_attention", "4"}}),
                    Catch::Contains("flash_attention"));
  CHECK_THROWS_WITH(tiny_on("megatron_2021", {{"cluster.gpu.kernels.sustained", "1.5"}}),
                    Catch::Contains("sustained"));
}

}  // namespace
}  // namespace simrun
