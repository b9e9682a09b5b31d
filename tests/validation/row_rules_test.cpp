#include "validation/row_rules.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

namespace simrun {
namespace {

namespace fs = std::filesystem;

TEST_CASE("patterns: '*' is any text, '{}' a word, '{#}' a number, case does not count") {
  CHECK(matched("A100*40GB", "NVIDIA a100-SXM4-40gb") == "");
  CHECK_FALSE(matched("A100*40GB", "A100-80GB"));
  CHECK(matched("ETP={#}", "EP8, ETP=2; more") == "2");
  CHECK(matched("capacity factor {#}", "capacity factor 1.25.") == "1.25");
  CHECK_FALSE(matched("capacity factor {#}", "capacity factor dropless"));
  CHECK(matched("kernel={}", "kernel=flash-2, x") == "flash-2");
}

TEST_CASE("rules: the first that matches holds, with what was captured filled in") {
  const RowRule one{
      "one", {"n={#}"}, "x", {{Column::heads, "{}"}}, {{"a.b", "[{}, {}]"}}, {{"flops", "f{}"}}};
  const RowRule any{"any", {"*"}, "x", {}, {}, {}};
  const auto found = first_applied({one, any}, "n=12");
  REQUIRE(found);
  CHECK(found->cells.front().second == "12");
  CHECK(found->job.front().second == "[12, 12]");
  CHECK(found->facts.at("flops") == "f12");
  CHECK(first_applied({one, any}, "m")->name == "any");
}

TEST_CASE("rules: the presets' files are read, and every fault in a file is told with its line") {
  CHECK_FALSE(load_row_rules({{}, {std::string(SIMRUN_SOURCE_DIR) + "/configs"}}).sources.empty());

  const fs::path folder = fs::temp_directory_path() / "simrun_row_rules" / "validation";
  fs::create_directories(folder);
  for (const char* file : {"hardware.yaml", "models.yaml", "flops.yaml", "notes.yaml"})
    std::ofstream(folder / file) << "a: {match: [x], reason: y}\n";
  std::ofstream(folder / "sources.yaml")
      << "a:\n  match: [x]\n  cell: {tp: 1}\nb: {match: [y], reason: z, cells: {tq: 1}, "
         "like: c}\n";
  try {
    load_row_rules({{}, {folder.parent_path().string()}});
    FAIL("accepted");
  } catch (const ConfigError& error) {
    REQUIRE(error.diagnostics().size() == 4);
    CHECK(error.diagnostics()[0].message == "unknown key 'cell'");
    CHECK(error.diagnostics()[0].position.line == 3);
    CHECK(error.diagnostics()[0].hint == "did you mean 'cells'?");
    CHECK(error.diagnostics()[1].message == "rule 'a' gives no reason");
    CHECK(error.diagnostics()[2].message == "unknown key 'tq'");
    CHECK(error.diagnostics()[3].message == "no rule 'c' above this one");
  }
  fs::remove_all(folder.parent_path());
}

}  // namespace
}  // namespace simrun
