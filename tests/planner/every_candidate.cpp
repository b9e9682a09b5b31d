#include "tests/planner/every_candidate.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <random>
#include <set>
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
  const int gpus_per_node = std::min(gpus, random() % 4 == 0 ? 4 : 8);
  static const char* const whole[] = {"from: dgx_a100",        "from: dgx_a100, gpu: a100_sxm_40gb",
                                      "from: dgx_h100",        "from: tcp_100g",
                                      "from: aws_p3_16xlarge", "from: dgx1_v100",
                                      "from: dgx_a100"};
  static const char* const part[] = {"from: dgx_a100", "from: dgx_a100, gpu: a100_sxm_40gb",
                                     "from: dgx_h100"};
  if (gpus_per_node < 8)
    return fmt::format("{{{}, nodes: {}, gpus_per_node: {}}}", one_of(part, random), gpus / gpus_per_node,
                       gpus_per_node);
  return fmt::format("{{{}, nodes: {}}}", one_of(whole, random), gpus / 8);
}

// BERT, adapters, frozen weights and fp8.
std::string job_of_other_kinds(unsigned number) {
  std::mt19937 random(number);
  static const int sizes[] = {2, 4, 8, 16, 8, 8, 32, 64};
  const int gpus = sizes[number / 4 % std::size(sizes)];
  const int layers = one_of({4, 6, 8, 12, 16, 24}, random);
  std::string of_model, training;
  switch (number % 4) {
    case 0: of_model = fmt::format("{{from: bert-large, num_hidden_layers: {}}}", layers); break;
    case 1:
      of_model = llama(random, layers);
      training = fmt::format(", lora: {{rank: {}, targets: {}}}", one_of({8, 64}, random),
                             one_of({"[qkv]", "[qkv, attention_projection, fc1, fc2]"}, random));
      break;
    case 2:
      of_model = gpt(random, layers);
      of_model.insert(of_model.size() - 1,
                      one_of({", frozen: [embedding]", ", frozen: [layers.fc1]"}, random));
      break;
    default: of_model = random() % 2 == 0 ? llama(random, layers) : mixtral(random, layers); break;
  }
  const bool is_fp8 = number % 4 == 3, is_bert = number % 4 == 0;
  const int sequence = is_bert ? one_of({128, 512}, random) : one_of({1024, 2048, 4096}, random);
  return fmt::format(
      "simrun: 1\nmodel: {}\ntraining: {{seq_length: {}, global_batch_size: {}, precision: {}{}}}\n"
      "cluster: {{from: {}, nodes: {}, gpus_per_node: {}}}\n",
      of_model, sequence, gpus * one_of({1, 2, 3, 4, 6}, random), is_fp8 ? "fp8" : "bf16", training,
      is_fp8 || random() % 2 == 0 ? "dgx_h100" : "dgx_a100", std::max(gpus / 8, 1), std::min(gpus, 8));
}

}  // namespace

std::string searched_job(unsigned number) {
  const bool overlap_is_open = number >= first_of_open_overlap;
  if (overlap_is_open) number -= first_of_open_overlap;
  if (number >= first_of_other_kinds) return job_of_other_kinds(number);
  std::mt19937 random(number);
  static const int sizes[] = {2, 4, 8, 16, 4, 8, 32, 64};
  const int gpus = sizes[number % std::size(sizes)];
  const std::string of_model = model(random);
  int batch = random() % 2 == 0 ? gpus * one_of({1, 2, 3, 4, 6}, random)
                                : one_of({6, 12, 16, 20, 24, 32, 48, 96}, random);
  if (gpus > 8 * batch) batch = gpus;
  const std::string overlap = one_of({"true", "false"}, random);
  const std::string of_cluster = cluster(random, gpus);
  const bool is_volta =
      of_cluster.find("v100") != std::string::npos || of_cluster.find("p3") != std::string::npos;
  return fmt::format(
      "simrun: 1\nmodel: {}\n"
      "training: {{seq_length: {}, global_batch_size: {}, precision: {}}}\n"
      "{}cluster: {}\n",
      of_model, one_of({512, 1024, 2048, 4096, 8192}, random), batch, is_volta ? "fp16" : "bf16",
      overlap_is_open ? ""
                      : "optimizer: {overlap_grad_reduce: " + overlap + ", overlap_param_gather: false}\n",
      of_cluster);
}

namespace {

// With their estimates, in the order of the search.
std::vector<RankedCandidate> estimated_candidates(const PlanBase& base) {
  std::vector<RankedCandidate> all;
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
  const auto add = [&](const Candidate& of) {
    all.push_back(
        {of, estimator.estimate(of, std::numeric_limits<double>::infinity()).value_or(Estimate{}), {}});
  };
  for_each_candidate(job, base.job.plan, [&](const Candidate& of) {
    add(of);
    if (const auto other = with_other_overlap(job, base.job.plan, of)) add(*other);
  });
  return all;
}

double room_of(const PlanBase& base, const Estimate& of) {
  const auto asked = static_cast<double>(base.job.plan.max_memory);
  return asked > 0 ? std::min(asked, of.room_bytes) : of.room_bytes;
}

// Leaves those out whose estimates are so many times worse than the best one or the room.
void drop_hopeless(const PlanBase& base, double times, EveryCandidate& every) {
  double best = 0;
  for (const RankedCandidate& of : every.all)
    if (of.estimate.step_s > 0 && of.estimate.peak_bytes <= room_of(base, of.estimate))
      best = best == 0 ? of.estimate.step_s : std::min(best, of.estimate.step_s);
  const auto dropped = std::erase_if(every.all, [&](const RankedCandidate& of) {
    if (of.estimate.room_bytes == 0) return false;  // it has no estimate
    return of.estimate.step_s == 0 || of.estimate.step_s > times * best ||
           of.estimate.peak_bytes > times * room_of(base, of.estimate);
  });
  every.dropped = static_cast<std::int64_t>(dropped);
}

}  // namespace

double tight_memory(const PlanBase& base, double part) {
  double best = 0, at_best = 0, least = 0;
  for (const RankedCandidate& of : estimated_candidates(base)) {
    const double peak = of.estimate.peak_bytes;
    if (of.estimate.step_s == 0 || peak > of.estimate.room_bytes) continue;
    if (least == 0 || peak < least) least = peak;
    if (best == 0 || of.estimate.step_s < best) best = of.estimate.step_s, at_best = peak;
  }
  return least + part * (at_best - least);
}

EveryCandidate simulate_every(const PlanBase& base, const EverySearch& how) {
  EveryCandidate every;
  std::map<Candidate, Evaluation> known;
  if (std::ifstream file(how.known_file); file)
    for (std::string line; std::getline(file, line);)
      if (const auto read = read_evaluated_line(line)) known.insert(*read);
  every.all = estimated_candidates(base);
  if (how.hopeless > 0) drop_hopeless(base, how.hopeless, every);
  std::set<Candidate> here;
  for (const RankedCandidate& of : every.all) here.insert(of.candidate);
  for (const auto& [of, evaluation] : known)
    if (!here.contains(of)) every.all.push_back({of, {}, evaluation});
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
