#include <catch2/catch.hpp>
#include <filesystem>

#include "small_job.h"

namespace simrun {
namespace {

using namespace test;

TEST_CASE("Every framework loads, and its effective config says the same memory again") {
  int frameworks = 0;
  for (const auto& file : std::filesystem::directory_iterator(preset_directory + "/frameworks")) {
    const std::string name = file.path().stem().string();
    CAPTURE(name);
    const LoadedJob loaded = tiny({{"framework", name}});
    const LoadedJob again = load_job_text(loaded.effective_yaml, "again.yaml", {{}, {preset_directory}});
    CHECK(again.job.framework == loaded.job.framework);
    CHECK(again.job.config_sha256 == loaded.job.config_sha256);
    ++frameworks;
  }
  CHECK(frameworks > 5);
}

TEST_CASE("A framework's memory is read key by key") {
  const FrameworkMemory memory = tiny({{"framework.memory.allocator", "caching"},
                                       {"framework.memory.expandable_segments", "true"},
                                       {"framework.memory.weight_gradients", "per_pass"},
                                       {"framework.memory.saved.swiglu", "1.5"},
                                       {"framework.memory.communicator_buffer", "10 MiB"}})
                                     .job.framework.memory;
  CHECK(memory.allocator == AllocatorKind::caching);
  CHECK(memory.expandable_segments);
  CHECK(memory.weight_gradients == WeightGradients::per_pass);
  CHECK(memory.saved == std::map<std::string, double>{{"swiglu", 1.5}});
  CHECK(memory.communicator_buffer_bytes == 10 << 20);
  CHECK(memory.step_bytes_per_parameter == 0);
}

// Message and hint of the only problem.
std::string memory_problem(const std::vector<Override>& overrides) {
  try {
    tiny(overrides);
  } catch (const ConfigError& error) {
    REQUIRE(error.diagnostics().size() == 1);
    return error.diagnostics()[0].message + "; " + error.diagnostics()[0].hint;
  }
  return "accepted";
}

TEST_CASE("What a framework's memory cannot be is named, with what it can") {
  const Override caching{"framework.memory.allocator", "caching"};
  CHECK(memory_problem({{"framework.memory.allocator", "cashing"}}) ==
        "'framework.memory.allocator' cannot be 'cashing'; did you mean 'caching'?");
  CHECK_THAT(memory_problem({caching, {"framework.memory.weight_gradients", "per_step"}}),
             Catch::Contains("per_pass"));
  CHECK_THAT(memory_problem({caching, {"framework.memory.saved.swigul", "1"}}),
             Catch::Contains("did you mean 'swiglu'?"));
  CHECK_THAT(memory_problem({caching, {"framework.memory.matmul_workspaces", "-1"}}),
             Catch::Contains("matmul_workspaces"));
  CHECK_THAT(
      memory_problem({{"framework.memory.allocator", "arena"}, {"framework.memory.arena_share", "1.5"}}),
      Catch::Contains("arena_share"));
  // Of a program without an allocator nothing else is known.
  CHECK_THAT(memory_problem({{"framework.memory.matmul_workspaces", "1"}}), Catch::Contains("unknown key"));
}

}  // namespace
}  // namespace simrun
