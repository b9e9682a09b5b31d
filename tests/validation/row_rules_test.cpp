#include "validation/row_rules.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "validation/text_pattern.h"

namespace simrun {
namespace {

namespace fs = std::filesystem;

TEST_CASE(
    "patterns: '*' is any text, '{}' a word, '{#}' a number, '{text}' all up to a blank, case does not "
    "count") {
  CHECK(matched("A100*40GB", "NVIDIA a100-SXM4-40gb") == "");
  CHECK_FALSE(matched("A100*40GB", "A100-80GB"));
  CHECK(matched("ETP={#}", "EP8, ETP=2; more") == "2");
  CHECK(matched("capacity factor {#}", "capacity factor 1.25.") == "1.25");
  CHECK_FALSE(matched("capacity factor {#}", "capacity factor dropless"));
  CHECK(matched("kernel={}", "kernel=flash-2, x") == "flash-2");
  CHECK(matched("--layout {text}", "--layout Et*2|(tt|)*5t|tmL --bf16") == "Et*2|(tt|)*5t|tmL");
  CHECK(matched("--layout {text}", "--layout a|b-; median") == "a|b-");
  CHECK(matched("=PER-LAYER", "use=clean; PER-LAYER time") == "");
  CHECK_FALSE(matched("=PER-LAYER", "per-layer CUDA graphs"));
  CHECK(matched("--layout \"{text}\"", "--layout \"Et*7|t*7mL\" --bf16") == "Et*7|t*7mL");
}

TEST_CASE("rules: the first that matches holds, with what was captured filled in") {
  const RowRule one{.name = "one",
                    .match = {"n={#}"},
                    .where = {},
                    .reason = "x",
                    .cells = {{Column::heads, "{}"}},
                    .job = {{"a.b", "[{}, {}]"}},
                    .facts = {{"flops", "f{}"}}};
  const RowRule any{
      .name = "any", .match = {"*"}, .where = {}, .reason = "x", .cells = {}, .job = {}, .facts = {}};
  const auto found = first_applied({one, any}, "n=12");
  REQUIRE(found);
  CHECK(found->cells.front().second == "12");
  CHECK(found->job.front().second == "[12, 12]");
  CHECK(found->facts.at("flops") == "f12");
  CHECK(first_applied({one, any}, "m")->name == "any");
}

TEST_CASE("rules: what a text denies does not count, unless the pattern is the denial") {
  RowRule rule;
  const auto says = [&](const char* pattern, const char* text) {
    rule.match = {pattern};
    return applied_to_notes(rule, text).has_value();
  };
  CHECK(says("DeepEP", "HybridEP off; DeepEP on"));
  for (const char* text :
       {"alltoall unless DeepEP", "no DeepEP", "without DeepEP", "not DeepEP, but NCCL", "w/o DeepEP",
        "non-DeepEP", "DeepEP off", "DeepEP disabled.", "use DeepEP=false", "DeepEP: none"})
    CHECK_FALSE(says("DeepEP", text));
  CHECK(says("DeepEP", "alltoall unless DeepEP; DeepEP dispatcher"));  // said once is said
  CHECK(says("DeepEP", "casino DeepEP"));                              // another word's end
  CHECK(says("DeepEP", "DeepEP offers two modes"));
  CHECK(says("DeepEP", "no recompute, DeepEP"));
  CHECK(says("DeepEP", "DeepEP, no recompute"));
  CHECK(says("no DeepEP", "no DeepEP"));
  CHECK_FALSE(says(" FA3", "without FA3"));  // also where a pattern begins with a blank
  CHECK(says(" FA3", "with FA3"));
  rule.match = {"DeepEP"};
  CHECK(applied(rule, "unless DeepEP"));  // of other texts: what stands there
}

TEST_CASE("rules: `where` asks for numbers of at least so much, for that very number, or for words") {
  RowRule rule;
  MeasuredRow row;
  const auto holds = [&](const char* asked, const char* cell) {
    rule.where = {{Column::pp, asked}};
    row[Column::pp] = cell;
    return holds_where(rule, row);
  };
  CHECK(holds("2+", "2"));
  CHECK(holds("2+", "16"));
  CHECK_FALSE(holds("2+", "1"));
  CHECK_FALSE(holds("2+", ""));
  CHECK(holds("1", "1"));
  CHECK_FALSE(holds("1", "16"));
  CHECK(holds("Play*k", "the Ultra-Scale Playbook, 2025"));
  CHECK_FALSE(holds("Play*k", "another source"));
  CHECK(holds("8x7B", "Mixtral 8x7B"));
  CHECK_FALSE(holds("8x7B", "8"));
  rule.where = {{Column::pp, "2+"}, {Column::tp, "8"}};
  row[Column::pp] = "4";
  CHECK_FALSE(holds_where(rule, row));
  row[Column::tp] = "8";
  CHECK(holds_where(rule, row));
  CHECK(holds_where(RowRule(), row));
}

TEST_CASE("rules: the presets' files are read, and every fault in a file is told with its line") {
  CHECK_FALSE(load_row_rules({{}, {std::string(SIMRUN_SOURCE_DIR) + "/configs"}}).sources.empty());

  const fs::path folder = fs::temp_directory_path() / "simrun_row_rules" / "validation";
  fs::create_directories(folder);
  for (const char* file : {"hardware.yaml", "flops.yaml", "frameworks.yaml"})
    std::ofstream(folder / file) << "a: {match: [x], reason: y}\n";
  std::ofstream(folder / "links.yaml") << "a: {match: [x], reason: y, facts: {link_rate: 100}}\n"
                                          "b: {match: [y], reason: y}\n"
                                          "c: {match: \"\", reason: y, facts: {link_rate: 1 GB/s}}\n"
                                          "d: {match: [hx], reason: y, facts: {link_rate: 1 GB/s}}\n";
  std::ofstream(folder / "models.yaml") << "a: {match: [x], where: {pp: 2}, reason: y}\n";
  std::ofstream(folder / "notes.yaml") << "a: {match: [x], where: {pp: [1, 2], tp: }, reason: y}\n"
                                          "b: {match: [x], where: {pp: 2, qp: 2}, reason: y}\n";
  std::ofstream(folder / "sources.yaml")
      << "a:\n  match: [x]\n  cell: {tp: 1}\nb: {match: [y], reason: z, cells: {tq: 1}, "
         "like: c}\n";
  try {
    load_row_rules({{}, {folder.parent_path().string()}});
    FAIL("accepted");
  } catch (const ConfigError& error) {
    REQUIRE(error.diagnostics().size() == 12);
    CHECK(error.diagnostics()[0].message == "unknown key 'cell'");
    CHECK(error.diagnostics()[0].position.line == 3);
    CHECK(error.diagnostics()[0].hint == "did you mean 'cells'?");
    CHECK(error.diagnostics()[1].message == "rule 'a' gives no reason");
    CHECK(error.diagnostics()[2].message == "unknown key 'tq'");
    CHECK(error.diagnostics()[3].message == "no rule 'c' above this one");
    CHECK(error.diagnostics()[4].message == "only rules of notes.yaml and frameworks.yaml have 'where'");
    CHECK(error.diagnostics()[5].message == "'pp' must be a number, as 16 or 16+, or a text");
    CHECK(error.diagnostics()[6].message == "'tp' must be a number, as 16 or 16+, or a text");
    CHECK(error.diagnostics()[7].message == "unknown key 'qp'");
    CHECK(error.diagnostics()[8].message == "'link_rate': needs a unit: 100 of what?");
    CHECK(error.diagnostics()[8].position.line == 1);
    CHECK(error.diagnostics()[9].message == "an empty text is in every row");
    CHECK(error.diagnostics()[9].position.line == 3);
    CHECK(error.diagnostics()[10].message == "rule 'b' must be names and a link_rate");
    CHECK(error.diagnostics()[10].position.line == 2);
    CHECK(error.diagnostics().back().message == "'hx' is never found: 'x' above is in it");
  }
  fs::remove_all(folder.parent_path());
}

}  // namespace
}  // namespace simrun
