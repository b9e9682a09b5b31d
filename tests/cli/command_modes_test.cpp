#include "cli/command_modes.h"

#include <catch2/catch.hpp>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "cli/options.h"
#include "tests/cli/run_simrun.h"

namespace simrun {
namespace {

// "--json", "-o" of the help.
std::set<std::string> flags_of_help() {
  const std::string help = run_simrun("--help").output;
  const std::regex flag("\\n  (-\\w,)?(--[a-z-]+)");
  std::set<std::string> flags;
  for (std::sregex_iterator at(help.begin(), help.end(), flag), end; at != end; ++at)
    flags.insert((*at)[1].length() > 0 ? (*at)[1].str().substr(0, 2) : (*at)[2].str());
  flags.erase("-h");
  flags.erase("--version");
  return flags;
}

ParsedOptions parsed(std::vector<const char*> words) {
  words.insert(words.begin(), "simrun");
  return parse_options(static_cast<int>(words.size()), words.data());
}

TEST_CASE("flags: what a mode reads is a flag, and every flag is read by a mode or asks for one") {
  const std::set<std::string> known = flags_of_help();
  REQUIRE(known.size() > 60);
  std::set<std::string> read = {"--color", "-q", "-v", "--no-html"};
  for (const CommandMode& mode : command_modes()) {
    CAPTURE(mode.name);
    if (mode.name.starts_with('-')) read.insert(std::string(mode.name));
    for (const std::string_view flag : mode.reads) {
      CAPTURE(flag);
      CHECK(known.contains(std::string(flag)));
      read.insert(std::string(flag));
    }
  }
  for (const std::string& flag : known) {
    CAPTURE(flag);
    CHECK(read.contains(flag));
  }
}

TEST_CASE("flags: what a mode does not read is refused, and a simulation says where it is read") {
  std::set<std::string> known = flags_of_help();
  for (const CommandMode& mode : command_modes()) known.erase(std::string(mode.name));
  for (const CommandMode& mode : command_modes())
    for (const std::string& flag : known) {
      CAPTURE(mode.name, flag);
      const OptionFault fault = unread_flag(mode, {flag});
      if (fault.message.empty()) continue;
      CHECK(fault.message.starts_with(flag + " "));
      CHECK_FALSE(fault.message.ends_with("with "));
    }
  CHECK(unread_flag(command_modes().back(), {"--port"}).message == "--port goes with --serve");
}

TEST_CASE("flags: what was ignored before is refused") {
  CHECK(parsed({"--validate", "rows.csv", "--export", "megatron"}).error ==
        "simrun: error: --export does not go with --validate\n");
  CHECK(parsed({"--plan", "a.yaml", "--engine", "fast"}).error ==
        "simrun: error: --engine does not go with a search (--plan)\n");
  CHECK(parsed({"a.yaml", "--check", "--html", "a.html"}).error ==
        "simrun: error: --html does not go with --check\n");
  CHECK(parsed({"a.yaml", "--execute", "--device", "null", "--save-every", "5"}).exit_code == 2);
  CHECK(parsed({"a.yaml", "--export", "torchtitan", "--engine", "fast"}).exit_code == 2);
  CHECK_FALSE(parsed({"a.yaml", "--export", "chakra", "--engine", "fast"}).exit_code);
  CHECK_FALSE(parsed({"a.yaml", "--check", "--no-html", "--color", "never", "-q"}).exit_code);
}

TEST_CASE("flags: each mode is what its flag asks for") {
  const std::map<std::string, std::vector<const char*>> asked = {
      {"--serve", {"--serve"}},
      {"--doctor", {"--doctor"}},
      {"--fit", {"--fit", "rows.csv", "--device", "a10"}},
      {"--validate", {"--validate", "rows.csv"}},
      {"--import-trace", {"--import-trace", "trace.json"}},
      {"--collective", {"--collective", "all_reduce", "--cluster", "dgx_h100"}},
      {"--export", {"a.yaml", "--export", "megatron"}},
      {"--import", {"a.sh", "--import", "megatron"}},
      {"a search (--plan)", {"a.yaml", "--plan"}},
      {"--calibrate", {"--calibrate"}},
      {"--execute", {"a.yaml", "--execute"}},
      {"--schedule", {"--schedule", "1f1b", "--ranks", "4", "--microbatches", "8"}},
      {"--placement", {"a.yaml", "--placement", "auto"}},
      {"--sweep", {"a.yaml", "--sweep", "a.b=1"}},
      {"a comparison of two jobs", {"a.yaml", "b.yaml"}},
      {"--sensitivity", {"a.yaml", "--sensitivity"}},
      {"--check", {"a.yaml", "--check"}},
      {"--print-config", {"a.yaml", "--print-config"}},
      {"--print-schedule", {"a.yaml", "--print-schedule"}},
      {"--print-layout", {"a.yaml", "--print-layout"}},
      {"--print-topology", {"a.yaml", "--print-topology"}},
      {"simulating a job", {"a.yaml"}}};
  for (const CommandMode& mode : command_modes()) {
    CAPTURE(mode.name);
    const ParsedOptions options = parsed(asked.at(std::string(mode.name)));
    CHECK(options.error.empty());
    CHECK(mode_of(options.options).name == mode.name);
  }
}

TEST_CASE("flags: a mode takes as many jobs as it says") {
  CHECK(parsed({}).error.find("no job given") != std::string::npos);
  CHECK(parsed({"--sweep", "a.b=1"}).error.find("no job given") != std::string::npos);
  CHECK(parsed({"--fit", "rows.csv", "--device", "a10", "a.yaml"}).error.find("--fit takes no job") !=
        std::string::npos);
  CHECK(parsed({"--serve", "a.yaml", "b.yaml"}).error == "simrun: error: --serve takes one job, not two\n");
  CHECK_FALSE(parsed({"--serve"}).exit_code);
  CHECK_FALSE(parsed({"a.yaml", "b.yaml", "--json"}).exit_code);
}

}  // namespace
}  // namespace simrun
