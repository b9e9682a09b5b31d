#include "tests/planner/every_candidate.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <map>
#include <random>
#include <thread>

#include "planner/estimate.h"
#include "planner/searched_lines.h"
#include "planner/shortlist.h"

namespace simrun {
namespace {

template <typename T, std::size_t n>
const T& one_of(const T (&choices)[n], std::mt19937& random) {
  return choices[random() % n];
}

std::string gpt(std::mt19937& random, int layers) {
  const int heads = 8 * one_of({1, 2, 3, 4}, random);
  const int hidden = heads * one_of({64, 128}, random);
  return fmt::format(
      "{{model_type: gpt, num_layers: {}, hidden_size: {}, num_attention_heads: {}, vocab_size: {}, "
      "max_position_embeddings: 8192, attention_dropout: 0.1, hidden_dropout: 0.1}}",
      layers, hidden, heads, one_of({32000, 51200}, random));
}

std::string llama(std::mt19937& random, int layers) {
  const int heads = one_of({12, 16, 24, 32}, random);
  const int hidden = heads * 128;
  return fmt::format(
      "{{model_type: llama, num_hidden_layers: {}, hidden_size: {}, intermediate_size: {}, "
      "num_attention_heads: {}, num_key_value_heads: {}, vocab_size: {}, max_position_embeddings: 32768}}",
      layers, hidden, hidden * one_of({2, 3, 4}, random), heads, one_of({2, 4}, random),
      one_of({32000, 128256, 256000}, random));
}

std::string mixtral(std::mt19937& random, int layers) {
  return fmt::format(
      "{{model_type: mixtral, num_hidden_layers: {}, hidden_size: {}, intermediate_size: {}, "
      "num_attention_heads: 16, num_key_value_heads: 4, vocab_size: {}, max_position_embeddings: 32768, "
      "num_local_experts: {}, num_experts_per_tok: {}}}",
      layers, one_of({1024, 2048}, random), one_of({1024, 4096}, random), one_of({32000, 128256}, random),
      one_of({4, 8, 12, 16}, random), one_of({1, 2}, random));
}

std::string model(std::mt19937& random) {
  const int layers = one_of({4, 6, 7, 8, 10, 12, 13, 16, 18, 20, 24, 26, 32}, random);
  const auto kind = random() % 10;
  if (kind < 3) return gpt(random, layers);
  if (kind < 6) return llama(random, layers);
  if (kind < 8) return mixtral(random, layers);
  if (kind < 9) return fmt::format("{{from: gemma2-2b, num_hidden_layers: {}}}", layers);
  return fmt::format("{{from: qwen1.5-moe-a2.7b, num_hidden_layers: {}}}", std::min(layers, 12));
}

std::string cluster(std::mt19937& random, int gpus) {
  const int nodes = std::max(gpus / 8, 1), gpus_per_node = std::min(gpus, 8);
  static const char* const whole[] = {
      "from: dgx_a100",         "from: dgx_a100, gpu: a100_sxm_40gb", "from: dgx_h100", "from: tcp_100g",
      "from: aws_p3_16xlarge", "from: dgx1_v100",                     "from: dgx_a100"};
  static const char* const small[] = {"from: dgx_a100", "from: dgx_a100, gpu: a100_sxm_40gb",
                                      "from: dgx_h100"};
  if (gpus_per_node < 8) return fmt::format("{{{}, nodes: 1, gpus_per_node: 4}}", one_of(small, random));
  return fmt::format("{{{}, nodes: {}}}", one_of(whole, random), nodes);
}

}  // namespace

std::string searched_job(unsigned number) {
  std::mt19937 random(number);
  const int gpus = 4 << (number % 5);
  const std::string of_model = model(random);
  const int batch = gpus * one_of({1, 2, 3, 4, 8}, random);
  const char* overlap = one_of({"true", "false"}, random);
  const std::string of_cluster = cluster(random, gpus);
  const bool is_volta = of_cluster.find("v100") != std::string::npos || of_cluster.find("p3") != std::string::npos;
  return fmt::format(
      "simrun: 1\nmodel: {}\n"
      "training: {{seq_length: {}, micro_batch_size: 1, global_batch_size: {}, precision: {}}}\n"
      "optimizer: {{overlap_grad_reduce: {}}}\ncluster: {}\n",
      of_model, one_of({512, 1024, 2048, 4096, 8192}, random), std::clamp(batch, 16, 512),
      is_volta ? "fp16" : "bf16", overlap, of_cluster);
}

EveryCandidate simulate_every(const PlanBase& base, const EverySearch& how) {
  EveryCandidate every;
  std::map<Candidate, Evaluation> known;
  if (std::ifstream file(how.known_file); file)
    for (std::string line; std::getline(file, line);)
      if (const auto read = read_evaluated_line(line)) known.insert(*read);
  SharedStepPrices prices;
  const Job& job = base.job.job;
  Estimator estimator(
      job,
      [&](const Candidate& of) -> std::optional<Job> {
        try {
          return load_candidate(base, of);
        } catch (const std::exception&) {
          return std::nullopt;
        }
      },
      prices);
  for_each_candidate(job, base.job.plan, [&](const Candidate& of) {
    RankedCandidate one{of, {}, {}};
    if (has_layer_kinds(job)) one.estimate = estimator.estimate(of).value_or(Estimate{});
    const double most = how.most_memory * one.estimate.room_bytes;
    if (how.most_memory > 0 && one.estimate.peak_bytes > most && !known.contains(of))
      ++every.skipped;
    else
      every.all.push_back(one);
  });
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < every.all.size(); i = next++)
      if (const auto found = known.find(every.all[i].candidate); found != known.end())
        every.all[i].evaluation = found->second;
      else
        every.all[i].evaluation = evaluate_candidate(base, every.all[i].candidate, EngineChoice::fast);
  };
  std::vector<std::jthread> others;
  for (unsigned t = 1; t < how.threads; ++t) others.emplace_back(work);
  work();
  others.clear();
  if (how.known_file.empty()) return every;
  std::ofstream file(how.known_file, std::ios::app);
  for (const RankedCandidate& of : every.all)
    if (!known.contains(of.candidate)) file << evaluated_line(of.candidate, of.evaluation) << "\n";
  return every;
}

RankedCandidate best_of_every(const PlanBase& base, const std::vector<RankedCandidate>& all) {
  const PlanConfig& limits = base.job.plan;
  const auto goal = [&](const Evaluation& of) {
    return goal_of(limits.minimise, of.step_s, static_cast<double>(of.peak_bytes));
  };
  std::vector<RankedCandidate> fitting;
  for (const RankedCandidate& one : all) {
    const bool fits = limits.max_memory == 0 || one.evaluation.peak_bytes <= limits.max_memory;
    if (one.evaluation.refusal.empty() && one.evaluation.fits && fits) fitting.push_back(one);
  }
  std::ranges::stable_sort(fitting, [&](const RankedCandidate& a, const RankedCandidate& b) {
    return goal(a.evaluation) < goal(b.evaluation);
  });
  RankedCandidate best;
  for (const RankedCandidate& one : fitting) {
    if (!best.evaluation.engine.empty() && goal(one.evaluation) >= goal(best.evaluation)) break;
    const Evaluation found = evaluate_candidate(base, one.candidate, EngineChoice::automatic);
    if (!found.refusal.empty()) continue;
    if (best.evaluation.engine.empty() || goal(found) < goal(best.evaluation))
      best = {one.candidate, one.estimate, found};
  }
  return best;
}

}  // namespace simrun
