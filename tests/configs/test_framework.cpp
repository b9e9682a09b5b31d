#include <catch2/catch.hpp>

#include "small_job.h"

namespace simrun {
namespace {

using namespace test;

TEST_CASE("A job names the software that runs it, or writes what is special about it") {
  CHECK(tiny({}).job.framework == Framework{});
  const Framework megatron = tiny({{"framework", "megatron_core"}}).job.framework;
  CHECK(megatron.name == "megatron_core");
  CHECK(megatron.kernels.host_dispatch_s == Approx(80e-6));
  const Framework graphs =
      tiny({{"framework", "megatron_core"}, {"framework.kernels.host_dispatch", "0 us"}}).job.framework;
  CHECK(graphs.name == "megatron_core");
  CHECK(graphs.kernels.host_dispatch_s == 0);
}

TEST_CASE("No framework is the same as none written") {
  for (const char* value : {"null", "none", "{}"}) {
    CAPTURE(value);
    CHECK(tiny({{"framework", value}}).job == tiny({}).job);
  }
}

TEST_CASE("The effective config says the framework again") {
  const LoadedJob loaded = tiny({{"framework", "megatron_core"}, {"framework.memory.context", "1 GiB"}});
  const LoadedJob again = load_job_text(loaded.effective_yaml, "again.yaml", {{}, {preset_directory}});
  CHECK(again.job.framework == loaded.job.framework);
  CHECK(again.job.config_sha256 == loaded.job.config_sha256);
}

TEST_CASE("A framework that there is not is named where it is written") {
  CHECK_THROWS_WITH(tiny({{"framework", "megatron_cor"}}),
                    Catch::Contains("no file 'megatron_cor' in frameworks/"));
  CHECK_THROWS_WITH(tiny({{"framework.kernels.host_dispach", "5 us"}}),
                    Catch::Contains("unknown key 'host_dispach' in"));
}

}  // namespace
}  // namespace simrun
