#include "backend/plugin.h"

#include <catch2/catch.hpp>

// Whatever is wrong with a plugin is a sentence, never a crash.
namespace simrun {
namespace {

const std::string folder = SIMRUN_TEST_PLUGINS;

bool contains(const std::string& text, const std::string& part) {
  CAPTURE(text, part);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a plugin that is there is loaded, and objects and exceptions cross the seam") {
  const LoadedPlugin plugin = load_plugin("probe_whole", {"/nowhere", folder});
  REQUIRE(plugin.usable());
  CHECK(plugin.path == folder + "/libsimrun_probe_whole.so");
  CHECK(plugin.functions->about() == "a test");
  CHECK(plugin.functions->devices() == std::vector<std::string>{"one", "two"});
  CHECK(plugin.functions->make_device == nullptr);
  const std::unique_ptr<ProcessLink> link = plugin.functions->join_processes({.process = 2, .processes = 5});
  CHECK(link->process() == 2);
  CHECK(link->processes() == 5);
  CHECK_THROWS_AS(link->send(0, {}), TransportError);  // thrown there, caught here
  CHECK_THROWS_WITH(link->send(0, {}), "rank 3 is not here, in microbatch 7");
}

TEST_CASE("a plugin that is not there is missing from each folder by name") {
  const LoadedPlugin plugin = load_plugin("telepathy", {"/nowhere", folder});
  CHECK(plugin.path.empty());
  CHECK(plugin.functions == nullptr);
  CHECK(plugin.why_not == "no libsimrun_telepathy.so in /nowhere, " + folder);
}

TEST_CASE("a file that is no library is refused in the loader's words") {
  const LoadedPlugin plugin = load_plugin("text", {folder});
  CHECK(plugin.functions == nullptr);
  CHECK(contains(plugin.why_not, folder + "/libsimrun_text.so"));
  CHECK(contains(plugin.why_not, "file too short"));
}

TEST_CASE("a plugin of another build is refused before any of its functions is called") {
  const LoadedPlugin plugin = load_plugin("probe_other_build", {folder});
  CHECK(plugin.functions == nullptr);
  CHECK(contains(plugin.why_not, "is of another build of simrun: its ABI is "));
}

#ifndef SIMRUN_ADDRESS_SANITIZER  // which gives all libraries their memory
TEST_CASE("a plugin whose memory another library gives is refused", "[long]") {
  const LoadedPlugin plugin = load_plugin("probe_other_memory", {folder});
  CHECK(plugin.functions == nullptr);
  CHECK(contains(plugin.why_not, "takes its memory from another library than simrun does"));
  CHECK(load_plugin("probe_whole", {folder}).usable());
}
#endif

TEST_CASE("a plugin that throws when it is asked whether it can be used cannot be used") {
  const LoadedPlugin plugin = load_plugin("probe_throws", {folder});
  CHECK(plugin.functions == nullptr);
  CHECK(plugin.why_not == "the driver is too old");
}

TEST_CASE("folders of SIMRUN_PLUGIN_PATH come before those of the program") {
  setenv("SIMRUN_PLUGIN_PATH", "/a::/b", 1);
  const std::vector<std::string> folders = plugin_folders();
  unsetenv("SIMRUN_PLUGIN_PATH");
  REQUIRE(folders.size() == 4);
  CHECK(folders[0] == "/a");
  CHECK(folders[1] == "/b");
  CHECK(folders[3].substr(folders[3].size() - 11) == "/lib/simrun");
  CHECK(plugin_folders().size() == 2);
}

}  // namespace simrun
