#include <catch2/catch.hpp>

#include "small_job.h"

using namespace simrun;
using namespace simrun::test;

namespace {

std::string with_layout(const std::string& lines) { return small_job + lines; }

}  // namespace

TEST_CASE("a rule of the layout section splits dimensions over ordered axes or keeps them whole") {
  const Job job = load(with_layout(
      "layout:\n"
      "  - split: {heads: tp, batch: dp}\n"
      "  - {scope: \"layers[0-3].attention\", split: {sequence: [cp, tp]}, replicate: [heads]}\n"));
  REQUIRE(job.layout.rules.size() == 2);
  const RegionRule& all = job.layout.rules[0];
  CHECK(all.scope.text.empty());
  REQUIRE(all.choices.size() == 2);
  CHECK(all.choices[0].dim == "heads");
  CHECK(all.choices[0].axes == std::vector<std::string>{"tp"});
  const RegionRule& attention = job.layout.rules[1];
  CHECK(attention.scope.text == "layers[0-3].attention");
  CHECK(attention.choices[0].axes == std::vector<std::string>{"cp", "tp"});
  CHECK(attention.choices[1].dim == "heads");
  CHECK(attention.choices[1].axes.empty());
  CHECK(attention.position.line == 19);
}

TEST_CASE("one rule may stand alone, rules may stand beside a mesh of own axes") {
  CHECK(load(with_layout("layout: {split: {heads: tp}}\n")).layout ==
        load(with_layout("layout: [{split: {heads: tp}}]\n")).layout);
  const Job job = load(with_layout("layout: {mesh: {x: 2, y: 2}, rules: [{split: {ffn: [x, y]}}]}\n"));
  CHECK(job.layout.mesh == std::vector<OwnAxis>{{"x", 2}, {"y", 2}});
  CHECK(job.layout.rules[0].choices[0].axes == std::vector<std::string>{"x", "y"});
}

TEST_CASE("the layout section survives --print-config, and the hash follows what it says") {
  const auto loaded = [](const std::string& text) { return load_job_text(text, "job.yaml", with_presets()); };
  const std::string written =
      "layout:\n"
      "  mesh: {x: 2, y: 2}\n"
      "  rules:\n"
      "    - {scope: \"layers[0-3].attention\", replicate: [sequence, ffn], split: {heads: x}}\n";
  const LoadedJob first = loaded(with_layout(written));
  const LoadedJob again = loaded(first.effective_yaml);
  CHECK(again.job == first.job);
  CHECK(again.job.config_sha256 == first.job.config_sha256);
  CHECK(loaded(small_job).job.config_sha256 != first.job.config_sha256);
  CHECK(loaded(with_layout(edited(written, "heads: x", "heads: y"))).job.config_sha256 !=
        first.job.config_sha256);
}

TEST_CASE("--set gives the layout section from the command line") {
  LoadOptions options = with_presets();
  options.overrides = {{"layout", "[{split: {ffn: [tp]}}]"}};
  CHECK(load_job_text(small_job, "job.yaml", options).job.layout ==
        load(with_layout("layout: [{split: {ffn: tp}}]\n")).layout);
}

TEST_CASE("everything that is wrong in a layout section is listed with its place") {
  const std::string text = with_layout(
      "layout:\n"
      "  mesh: {tp: 2, x: many}\n"
      "  rules:\n"
      "    - {split: {heads: tq, batch: []}}\n"
      "    - {splt: {heads: tp}}\n"
      "    - {split: {ffn: [tp, tp]}, replicate: [ffn, vocab, vocab]}\n"
      "    - qkv\n");
  CHECK(refusal(text) ==
        "job.yaml:18:10: error: 'tp' cannot name an axis of a mesh\n"
        "  hint: a word other than tp, cp, dp, ep, etp, edp, cp_inner, cp_outer, ep_inner, "
        "ep_outer, dp_inner, dp_outer.\n"
        "job.yaml:18:20: error: 'layout.mesh.x' must be a number of ranks, not 'many'\n"
        "job.yaml:20:23: error: there is no axis 'tq'\n"
        "  hint: one of tp, cp, dp, ep, etp, edp, cp_inner, cp_outer, ep_inner, "
        "ep_outer, dp_inner, dp_outer.\n"
        "job.yaml:20:34: error: 'batch' is split over no axis\n"
        "  hint: replicate: [batch].\n"
        "job.yaml:21:7: error: a rule of 'layout' needs 'split' or 'replicate'\n"
        "  hint: layout: [{split: {heads: tp, batch: dp}}].\n"
        "job.yaml:21:8: error: unknown key 'splt' in a rule of 'layout'\n"
        "  hint: did you mean 'split'?\n"
        "job.yaml:22:26: error: 'ffn' is split over 'tp' twice\n"
        "  hint: once is enough.\n"
        "job.yaml:22:44: error: the rule names the dimension 'ffn' twice\n"
        "job.yaml:22:56: error: the rule names the dimension 'vocab' twice\n"
        "job.yaml:23:7: error: a rule of 'layout' must be a map, not 'qkv'\n"
        "  hint: layout: [{split: {heads: tp, batch: dp}}].\n"
        "10 errors; nothing was run.\n");
}

TEST_CASE("a rule may give its scope a number of ranks, as Whale's replicate and split do") {
  const std::string written = "layout: [{scope: layers, replicate: 4}, {scope: head, split: 4}]\n";
  const LoadedJob first = load_job_text(with_layout(written), "job.yaml", with_presets());
  const std::vector<RegionRule>& rules = first.job.layout.rules;
  CHECK(rules[0].task_graph == TaskGraph{TaskGraph::Kind::replicate, 4, {}});
  CHECK(rules[1].task_graph == TaskGraph{TaskGraph::Kind::split, 4, {}});
  CHECK(load_job_text(first.effective_yaml, "job.yaml", with_presets()).job == first.job);
  CHECK(refusal(with_layout("layout: [{scope: head, split: 4, replicate: [ffn]}]\n")) ==
        "job.yaml:17:31: error: a rule with a number of ranks either splits or replicates\n"
        "  hint: write two rules, each with its scope.\n"
        "1 error; nothing was run.\n");
}
