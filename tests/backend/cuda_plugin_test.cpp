#include <catch2/catch.hpp>
#include <filesystem>

#include "backend/plugin.h"

// The CUDA plugin on a machine with and without a GPU; a machine without its libraries.
namespace simrun {

TEST_CASE(
    "without the CUDA plugin there is a sentence that says where it was looked for or why it was not built") {
  const LoadedPlugin plugin = load_plugin("cuda", {"/nowhere"});
  CHECK(plugin.functions == nullptr);
  CHECK((plugin.why_not == "no libsimrun_cuda.so in /nowhere" ||
         plugin.why_not.find("simrun was built without it: ") == 0));
}

TEST_CASE("the CUDA plugin is loaded, and without a GPU says what CUDA says, by name and number") {
  const std::string folder = SIMRUN_CUDA_PLUGIN_FOLDER;
  if (folder.empty()) {
    WARN("skipped: built without a CUDA toolkit");
    return;
  }
  const LoadedPlugin plugin = load_plugin("cuda", {folder});
  REQUIRE(plugin.functions != nullptr);
  CHECK(plugin.functions->about().find("CUDA 1") == 0);
  CHECK(plugin.functions->about().find("cuBLAS") != std::string::npos);
  if (plugin.usable()) {
    CHECK(!plugin.functions->devices().empty());
    return;
  }
  CAPTURE(plugin.why_not);
  CHECK(plugin.why_not.find("no GPU: cudaGetDeviceCount: cudaError") == 0);
  const std::size_t number = plugin.why_not.find(" (");
  REQUIRE(number != std::string::npos);
  CHECK(std::stoi(plugin.why_not.substr(number + 2)) > 0);
  CHECK(plugin.functions->devices().empty());
  CHECK_THROWS_WITH(plugin.functions->make_device({}), Catch::Contains("cudaGetDeviceCount: cudaError"));
}

}  // namespace simrun
