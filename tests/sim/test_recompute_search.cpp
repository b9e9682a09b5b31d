#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>

#include "schedules/compile.h"
#include "schedules/lint.h"
#include "schedules/summary.h"
#include "sim/memory.h"
#include "sim/plan_job.h"
#include "sim/recompute_search.h"
#include "sim/simulate.h"
#include "tests/jobs.h"

// recompute `granularity: auto` against what a hand could try.
namespace simrun {
namespace {

std::int64_t peak_of(const Plan& plan) {
  std::int64_t worst = 0;
  for (const Program& program : plan.programs)
    worst = std::max(worst, walk_memory(plan, program, WhichStep::steady, MemoryDetail::peak).peak.bytes);
  return worst;
}

Job small(const std::vector<Override>& overrides) { return job_from(small_gpt(8, 1, 2, 1), overrides); }

Job with_limit(std::int64_t bytes, const std::string& attention) {
  return small({{"training.attention", attention},
                {"recompute", "{granularity: auto, memory_limit: " + std::to_string(bytes) + " B}"}});
}

// Every config that Megatron-LM's flags can say, on 2 stages of 4 layers.
std::vector<std::string> by_hand() {
  std::vector<std::string> sections{"{granularity: none}"};
  for (const char* modules : {"core_attn", "mlp", "layernorm", "core_attn, mlp", "core_attn, layernorm",
                              "mlp, layernorm", "core_attn, mlp, layernorm"})
    sections.push_back(std::string("{granularity: selective, modules: [") + modules + "]}");
  for (int layers = 1; layers <= 4; ++layers)
    sections.push_back("{granularity: full, method: block, num_layers: " + std::to_string(layers) + "}");
  sections.emplace_back("{granularity: full, method: uniform, num_layers: 1}");
  sections.emplace_back("{granularity: full, method: uniform, num_layers: 2}");
  return sections;
}

struct Tried {
  std::int64_t peak = 0;
  Picoseconds step = 0;
};

}  // namespace

TEST_CASE("auto is never longer than the best of none, selective and full recompute, and keeps its limit",
          "[long]") {
  const std::string attention = GENERATE("flash", "unfused");
  std::vector<Tried> tried;
  for (const std::string& section : by_hand()) {
    const Plan plan = compile(small({{"training.attention", attention}, {"recompute", section}}));
    tried.push_back({peak_of(plan), simulate(plan).step});
  }
  std::vector<std::int64_t> limits;
  for (const Tried& one : tried) limits.push_back(one.peak);
  std::sort(limits.begin(), limits.end());
  Picoseconds before = 0;
  for (auto limit = limits.rbegin(); limit != limits.rend(); ++limit) {
    CAPTURE(attention, *limit);
    std::optional<Picoseconds> best;
    for (const Tried& one : tried)
      if (one.peak <= *limit && (!best || one.step < *best)) best = one.step;
    const Plan plan = plan_job(with_limit(*limit, attention));
    CHECK(lint(plan).empty());
    REQUIRE(plan.job.found_recompute);
    CHECK(plan.job.found_recompute->peak_bytes == peak_of(plan));
    CHECK(peak_of(plan) <= *limit);
    const Picoseconds step = simulate(plan).step;
    CHECK(step <= *best);
    // Less memory does not make the step shorter, but for how simulated steps jump by a layer here and there.
    CHECK(static_cast<double>(step) > 0.999 * static_cast<double>(before));
    before = std::max(before, step);
  }
}

TEST_CASE("what auto chose is a config that gives the same plan") {
  const std::int64_t least =
      peak_of(compile(small({{"recompute", "{granularity: full, method: block, num_layers: 4}"}})));
  const std::int64_t most = peak_of(compile(small({})));
  const Plan found = plan_job(with_limit((2 * least + most) / 3, "unfused"));
  Plan again = compile(small({{"recompute", found.job.found_recompute->section}}));
  CAPTURE(found.job.found_recompute->section);
  again.job = found.job;
  CHECK(again == found);
}

TEST_CASE("with room for everything auto recomputes nothing") {
  const Plan plan = plan_job(small({{"recompute", "{granularity: auto}"}}));
  CHECK(plan.job.found_recompute->section == "{granularity: none}");
  CHECK(plan.job.found_recompute->added_s == 0);
}

TEST_CASE("where nothing fits auto names the least that it found") {
  const Plan plan = plan_job(with_limit(1 << 21, "unfused"));
  REQUIRE(plan.job.found_recompute);
  CHECK(plan.job.found_recompute->peak_bytes > plan.job.found_recompute->memory_limit);
  for (const std::string& section : by_hand())
    CHECK(plan.job.found_recompute->peak_bytes <= peak_of(compile(small({{"recompute", section}}))));
}

TEST_CASE("under a framework auto keeps to what that leaves of the GPU, and is never longer than what fits",
          "[long]") {
  const std::string framework = GENERATE("megatron_core", "torchtitan", "composer");
  const auto job = [&](std::int64_t gpu_bytes, const std::string& recompute) {
    return small({{"framework", "{from: " + framework + "}"},
                  {"model.max_position_embeddings", "2048"},
                  {"training.seq_length", "2048"},
                  {"cluster.gpu.memory", std::to_string(gpu_bytes) + " B"},
                  {"recompute", recompute}});
  };
  struct Summarised {
    bool fits = false;
    std::int64_t peak = 0, limit = 0;
    Picoseconds step = 0;
  };
  const auto summarised = [](const Plan& plan) {
    const Timeline timeline = simulate(plan);
    const Summary summary = summarize(plan, timeline);
    return Summarised{summary.fits, summary.peak_memory_bytes, summary.memory_limit_bytes, timeline.step};
  };
  const std::int64_t large = std::int64_t{80} << 30;
  const Summarised full = summarised(compile(job(large, "{granularity: full}")));
  const Summarised none = summarised(compile(job(large, "{}")));
  const std::int64_t least = large - (full.limit - full.peak), most = large - (none.limit - none.peak);
  REQUIRE(least < most);
  int recomputed = 0;
  for (int sixths = 0; sixths <= 7; ++sixths) {
    const std::int64_t gpu_bytes = least + (most - least) * sixths / 6;
    CAPTURE(framework, sixths, gpu_bytes);
    const Plan plan = plan_job(job(gpu_bytes, "{granularity: auto}"));
    REQUIRE(plan.job.found_recompute);
    CAPTURE(plan.job.found_recompute->section);
    const Summarised found = summarised(plan);
    CHECK(found.fits == (plan.job.found_recompute->peak_bytes <= plan.job.found_recompute->memory_limit));
    for (const std::string& section : by_hand()) {
      CAPTURE(section);
      const Summarised of = summarised(plan_job(job(gpu_bytes, section)));
      if (!of.fits) continue;
      CHECK(found.fits);
      CHECK(found.step <= of.step);
    }
    recomputed += static_cast<int>(plan.job.found_recompute->section != "{granularity: none}");
  }
  CHECK(recomputed >= 5);
}

TEST_CASE("counts by stage: block recompute of 2 and 0 layers frees memory on the first stage only") {
  const auto peaks = [&](const std::string& section) {
    const Plan plan = compile(small({{"recompute", section}}));
    std::vector<std::int64_t> of_rank;
    for (const Program& program : plan.programs)
      of_rank.push_back(walk_memory(plan, program, WhichStep::steady, MemoryDetail::peak).peak.bytes);
    return of_rank;
  };
  const std::vector<std::int64_t> none = peaks("{granularity: none}");
  const std::vector<std::int64_t> first = peaks("{granularity: full, method: block, num_layers: [2, 0]}");
  CHECK(first[0] < none[0]);
  CHECK(first[1] == none[1]);
  CHECK(peaks("{granularity: full, method: block, num_layers: [2, 2]}") ==
        peaks("{granularity: full, method: block, num_layers: 2}"));
  CHECK(peaks("{granularity: selective, modules: [core_attn], module_layers: {core_attn: [4, 4]}}") ==
        peaks("{granularity: selective}"));
  CHECK(
      peaks("{granularity: full, method: block, num_layers: [1, 0], modules: [mlp], module_layers: {mlp: [3, "
            "0]}}")[0] < peaks("{granularity: full, method: block, num_layers: [1, 0]}")[0]);
}

}  // namespace simrun
