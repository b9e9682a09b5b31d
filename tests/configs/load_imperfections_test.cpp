#include <catch2/catch.hpp>

#include "small_job.h"

using namespace simrun;
using namespace simrun::test;

namespace {

// 2 nodes of 2 GPUs with everything that can be wrong.
const std::string imperfect = R"(simrun: 1
model: {model_type: gpt, num_layers: 2, hidden_size: 64, num_attention_heads: 4, vocab_size: 128}
training: {seq_length: 64, micro_batch_size: 1, global_batch_size: 4, precision: bf16}
cluster: {from: dgx_a100, nodes: 2, gpus_per_node: 2}
imperfections:
  seed: 7
  jitter: {distribution: normal, coefficient_of_variation: 0.02}
  stragglers:
    hot: {gpus: [3], slowdown: 1.25}
    old_node: {nodes: [0], slowdown: 1.1}
    lottery: {count: 2, slowdown: 1.5}
  links:
    dirty_fibre: {pattern: "node0.nic1.*", bandwidth_share: 0.5, added_latency: 3 us}
    dead: {pattern: node1.nic0.tx, bandwidth_share: 0}
  background:
    storage: {from: [0], to: [1], rate: 10 GB/s}
    others: {permutation: true, share: 0.3}
    neighbour: {pattern: "leaf*.spine?.up", share: 0.25}
  other_jobs:
    trainer: {nodes: [1, 0], collective: all_to_all, bytes: 2 GB, period: 300 ms, phase: 20 ms}
    copier: {from: [1], to: [0], bytes: 1 GiB, period: 2 s}
)";

std::vector<Diagnostic> problems_with(const std::string& from, const std::string& to) {
  try {
    load_job_text(edited(imperfect, from, to), "job.yaml", with_presets());
  } catch (const ConfigError& error) {
    return error.diagnostics();
  }
  return {};
}

}  // namespace

TEST_CASE("imperfections are read, and the effective config loads again as an equal job") {
  const LoadedJob loaded = load_job_text(imperfect, "job.yaml", with_presets());
  const Imperfections& of = loaded.job.cluster.imperfections;
  CHECK(of.seed == 7);
  CHECK(of.jitter == Jitter{JitterDistribution::normal, 0.02});
  CHECK(of.stragglers == std::vector<Straggler>{{.name = "hot", .gpus = {3}, .slowdown = 1.25},
                                                {.name = "old_node", .nodes = {0}, .slowdown = 1.1},
                                                {.name = "lottery", .count = 2, .slowdown = 1.5}});
  REQUIRE(of.links.size() == 2);
  CHECK(of.links[0] == LinkFault{"dirty_fibre", "node0.nic1.*", 0.5, of.links[0].added_latency_s});
  CHECK(of.links[0].added_latency_s == Approx(3e-6));
  CHECK(of.links[1] == LinkFault{"dead", "node1.nic0.tx", 0, 0});
  CHECK(of.background ==
        std::vector<BackgroundTraffic>{{.name = "storage", .from = {0}, .to = {1}, .rate = 10e9},
                                       {.name = "others", .permutation = true, .share = 0.3},
                                       {.name = "neighbour", .pattern = "leaf*.spine?.up", .share = 0.25}});
  REQUIRE(of.other_jobs.size() == 2);
  CHECK(of.other_jobs[0] == OtherJob{.name = "trainer",
                                     .nodes = {1, 0},
                                     .collective = "all_to_all",
                                     .bytes = 2e9,
                                     .period_s = of.other_jobs[0].period_s,
                                     .phase_s = of.other_jobs[0].phase_s});
  CHECK(of.other_jobs[0].period_s == Approx(0.3));
  CHECK(of.other_jobs[0].phase_s == Approx(0.02));
  CHECK(of.other_jobs[1] ==
        OtherJob{.name = "copier", .from = {1}, .to = {0}, .bytes = 0x1p30, .period_s = 2, .phase_s = 0});
  CHECK(load_job_text(loaded.effective_yaml, "job.yaml", LoadOptions{}).job == loaded.job);
}

TEST_CASE("a job without the section has no imperfections, and its effective config does not speak of any") {
  const LoadedJob loaded = load_job_text(small_job, "job.yaml", with_presets());
  CHECK(loaded.job.cluster.imperfections == Imperfections{});
  CHECK(loaded.effective_yaml.find("imperfections") == std::string::npos);
}

TEST_CASE("what is wrong with an imperfection is told where it stands") {
  struct Case {
    std::string from, to, message, hint;
    int line = 0, column = 0;
  };
  for (const Case& of : std::vector<Case>{
           {"gpus: [3]", "gpus: [4]", "'imperfections.stragglers.hot.gpus': must be at most 3, not '4'", "",
            9, 18},
           {"gpus: [3]", "gpus: [3, 3]", "'3' is listed twice", "", 9, 17},
           {"gpus: [3], ", "", "'imperfections.stragglers.hot' has none of gpus, nodes and count",
            "write just one of them.", 9, 5},
           {"gpus: [3]", "gpus: [3], count: 1",
            "'imperfections.stragglers.hot' has more than one of gpus, nodes and count",
            "write just one of them.", 9, 5},
           {"    hot:", "    h.t:", "'h.t' in 'imperfections.stragglers' is no name for an entry",
            "letters, digits, _ and - are.", 9, 5},
           {"seed: 7", "sed: 7", "unknown key 'sed' in 'imperfections'", "did you mean 'seed'?", 6, 3},
           {"variation: 0.02", "variation: 0.4",
            "a normal distribution of mean 1 and coefficient_of_variation 0.4 has negative times",
            "0.3 is the most; a lognormal one has no such limit.", 7, 60},
           {"distribution: normal", "distribution: norml",
            "'imperfections.jitter.distribution' cannot be 'norml'", "did you mean 'normal'?", 7, 26},
           {"pattern: \"node0.nic1.*\", ", "",
            "missing required key 'pattern' in 'imperfections.links.dirty_fibre'",
            "for example pattern: \"node0.nic1.*\".", 13, 5},
           {"bandwidth_share: 0.5", "bandwidth_share: 0.001", "bandwidth_share 0.001 is next to nothing",
            "0 is a failed link, 0.01 the least of one that works.", 13, 61},
           {"to: [1]", "to: [0]", "node 0 sends to itself", "", 16, 30},
           {"to: [1]", "to: [0, 1]", "1 nodes send to 2", "the i-th of 'from' sends to the i-th of 'to'.", 16,
            30},
           {", to: [1]", "", "traffic 'from' nodes goes nowhere", "write to: [...], as many nodes.", 16, 21},
           {"rate: 10 GB/s", "rate: 10 GB/s, share: 0.1",
            "'imperfections.background.storage' has more than one of rate and share",
            "write just one of them.", 16, 5},
           {"permutation: true", "permutation: false", "traffic of no permutation goes nowhere",
            "write permutation: true, or from and to.", 17, 27},
           {"  stragglers:", "  straglers:", "unknown key 'straglers' in 'imperfections'",
            "did you mean 'stragglers'?", 8, 3}}) {
    CAPTURE(of.from, of.to);
    const std::vector<Diagnostic> problems = problems_with(of.from, of.to);
    REQUIRE(problems.size() >= 1);
    CHECK(problems[0].message == of.message);
    CHECK(problems[0].hint == of.hint);
    CHECK(problems[0].position.line == of.line);
    CHECK(problems[0].position.column == of.column);
  }
}

TEST_CASE("every error of the section is told at once") {
  CHECK(problems_with("  stragglers:\n    hot: {gpus: [3], slowdown: 1.25}",
                      "  stragglers:\n    hot: {gpus: [9], slowdown: 0.5}\n    cold: {slowdown: 2}")
            .size() == 3);
}

TEST_CASE("another job needs its nodes, its bytes and its period, and only what these say") {
  const std::string good = "copier: {from: [1], to: [0], bytes: 1 GiB, period: 2 s}";
  const auto first_problem = [&](const std::string& entry) {
    const std::vector<Diagnostic> problems = problems_with(good, entry);
    return problems.empty() ? std::string() : problems[0].message;
  };
  CHECK(first_problem("copier: {bytes: 1 GiB, period: 2 s}") ==
        "'imperfections.other_jobs.copier' has none of nodes and from");
  CHECK(first_problem("copier: {nodes: [0], from: [1], to: [0], bytes: 1 GiB, period: 2 s}") ==
        "'imperfections.other_jobs.copier' has more than one of nodes and from");
  CHECK(first_problem("copier: {from: [1], to: [0], collective: all_gather, bytes: 1 GiB, period: 2 s}") ==
        "'collective' is what all of 'nodes' do");
  CHECK(first_problem("copier: {from: [1], to: [1], bytes: 1 GiB, period: 2 s}") == "node 1 sends to itself");
  CHECK(first_problem("copier: {from: [1], to: [0], bytes: 1 GiB}") ==
        "missing required key 'period' in 'imperfections.other_jobs.copier'");
  CHECK_FALSE(
      first_problem("copier: {nodes: [0, 2], bytes: 1 GiB, period: 2 s}").empty());  // there is no node 2
  CHECK_FALSE(first_problem("copier: {nodes: [0], bytes: 1 GiB, period: 1 us}").empty());
  CHECK_FALSE(
      first_problem("copier: {nodes: [0], collective: broadcast, bytes: 1 GiB, period: 1 s}").empty());
}
