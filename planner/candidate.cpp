#include "planner/candidate.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "planner/sub_mesh.h"
#include "planner/tunings.h"

namespace simrun {
namespace {

constexpr std::int64_t least_tokens_of_part = 2048;
constexpr std::int64_t largest_micro_batch = 64;
constexpr std::int64_t most_virtual_stages = 16;

std::vector<std::int64_t> divisors(std::int64_t of) {
  std::vector<std::int64_t> found;
  for (std::int64_t d = 1; d <= of; ++d)
    if (of % d == 0) found.push_back(d);
  return found;
}

// A size's values, by the key that may fix it.
class Choices {
 public:
  Choices(const Job& job, const PlanConfig& limits) : job_(job), limits_(limits) {}

  bool is_fixed(const char* key) const { return limits_.fixed_numbers.contains(key); }
  bool allows(const char* key, std::int64_t value) const {
    if (limits_.fixed_numbers.empty()) return true;  // asked for every candidate
    const auto fixed = limits_.fixed_numbers.find(key);
    return fixed == limits_.fixed_numbers.end() ||
           std::ranges::find(fixed->second, value) != fixed->second.end();
  }

  // GPUs that run the model.
  std::int64_t workers() const { return job_.world_size() - job_.server_gpus(); }

  std::vector<std::int64_t> tensor() const {
    const bool is_fixed_size = is_fixed("tensor_model_parallel_size");
    std::vector<std::int64_t> sizes;
    for (const std::int64_t size : divisors(workers())) {
      const bool splits =
          job_.model.num_attention_heads % size == 0 && job_.model.ffn_hidden_size % size == 0;
      if (splits && (is_fixed_size || size <= gpus_of_domain(job_.cluster)) &&
          allows("tensor_model_parallel_size", size))
        sizes.push_back(size);
    }
    return sizes;
  }

  std::vector<std::int64_t> context(std::int64_t ranks) const {
    std::vector<std::int64_t> sizes;
    for (const std::int64_t size : divisors(ranks)) {
      const std::int64_t parts = size == 1 ? 1 : 2 * size;  // zigzag
      const bool splits =
          job_.training.seq_length % parts == 0 && (size == 1 || is_fixed("context_parallel_size") ||
                                                    job_.training.seq_length / size >= least_tokens());
      if (splits && allows("context_parallel_size", size)) sizes.push_back(size);
    }
    return sizes;
  }

  // Of fewer sequences than GPUs all ranks have a part only where sequences are cut.
  std::int64_t least_tokens() const {
    const bool is_short = job_.training.global_batch_size < workers();
    return is_short ? least_tokens_of_part / 4 : least_tokens_of_part;
  }

  // Attention over a whole row of scores at a time is not joined from parts of it.
  bool needs_all_to_all() const {
    return limits_.exchange_is_open &&
           (job_.model.attention_sinks || job_.training.attention == AttentionKernel::unfused);
  }
  // As of exchanges that are tried (planner/candidate_variants.cpp): no heads are copied for one.
  bool may_exchange(std::int64_t tensor, std::int64_t context) const {
    return !copies_key_value_heads(job_.model, tensor, context);
  }

  std::vector<std::int64_t> pipeline(std::int64_t ranks) const {
    std::vector<std::int64_t> sizes;
    for (const std::int64_t size : divisors(ranks))
      if (size <= job_.model.num_layers && allows("pipeline_model_parallel_size", size))
        sizes.push_back(size);
    return sizes;
  }

  std::vector<std::int64_t> micro_batches(std::int64_t data) const {
    std::vector<std::int64_t> sizes;
    if (job_.training.global_batch_size % data != 0) return sizes;
    const std::int64_t sequences = job_.training.global_batch_size / data;
    if (is_fixed("micro_batch_size")) {
      for (const std::int64_t size : limits_.fixed_numbers.at("micro_batch_size"))
        if (size > 0 && sequences % size == 0) sizes.push_back(size);
      std::ranges::sort(sizes);
      sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
      return sizes;
    }
    for (std::int64_t size = 1; size <= std::min(sequences, largest_micro_batch); ++size)
      if (sequences % size == 0) sizes.push_back(size);
    return sizes;
  }

  std::vector<std::int64_t> experts(std::int64_t ranks) const {
    std::vector<std::int64_t> sizes;
    for (const std::int64_t size : divisors(std::max<std::int64_t>(job_.model.experts.count, 1)))
      if (ranks % size == 0 && allows("expert_model_parallel_size", size)) sizes.push_back(size);
    return sizes;
  }

  bool has_experts() const { return job_.model.experts.count > 0; }

  std::vector<std::int64_t> expert_tensor(std::int64_t tensor) const {
    std::vector<std::int64_t> sizes;
    if (!has_experts()) return {1};
    for (const std::int64_t size : {std::int64_t{1}, tensor})
      if ((sizes.empty() || sizes.back() != size) && allows("expert_tensor_parallel_size", size))
        sizes.push_back(size);
    return sizes;
  }

  // One copy has nothing to shard: of the stages that it may have, all alike, the first.
  std::vector<int> zero_stages(std::int64_t copies) const {
    std::vector<int> stages;
    for (int stage = 0; stage <= 3; ++stage)
      if (allows("zero_stage", stage) && (copies > 1 || stages.empty())) stages.push_back(stage);
    return stages;
  }

  std::vector<RecomputeGranularity> recomputes() const {
    const auto allowed = [&](const char* word) {
      return limits_.recomputes.empty() ||
             std::ranges::find(limits_.recomputes, word) != limits_.recomputes.end();
    };
    std::vector<RecomputeGranularity> kinds;
    if (allowed("none")) kinds.push_back(RecomputeGranularity::none);
    if (allowed("selective")) kinds.push_back(RecomputeGranularity::selective);
    if (allowed("full")) kinds.push_back(RecomputeGranularity::full);
    return kinds;
  }

  // With their numbers of virtual stages.
  std::vector<std::pair<std::int64_t, std::string>> schedules(const Candidate& candidate) const {
    const std::int64_t pipeline = candidate.pipeline,
                       microbatches = candidate.microbatches(job_.training.global_batch_size);
    std::vector<std::pair<std::int64_t, std::string>> found;
    const auto add = [&](std::int64_t stages, const char* name) {
      const bool is_asked =
          limits_.schedules.empty() || std::ranges::find(limits_.schedules, name) != limits_.schedules.end();
      const bool has_layers = pipeline * stages <= job_.model.num_layers;
      if (is_asked && has_layers && allows("virtual_pipeline_model_parallel_size", stages))
        found.emplace_back(stages, name);
    };
    const auto named = [&](const char* name) {
      return std::ranges::find(limits_.schedules, name) != limits_.schedules.end();
    };
    if (pipeline == 1) {
      if ((limits_.schedules.empty() || named("1f1b")) && allows("virtual_pipeline_model_parallel_size", 1))
        found.emplace_back(1, "");
      if (named("interleaved_1f1b_overlap") && has_experts() &&
          allows("virtual_pipeline_model_parallel_size", 1))
        found.emplace_back(1, "interleaved_1f1b_overlap");
      return found;
    }
    add(1, "1f1b");
    add(1, "zb_h1");
    for (const char* name : {"gpipe", "zb_h2"})
      if (named(name)) add(1, name);
    // Shards in every pass would be those of two copies of a stage: refused.
    if (named("dualpipe") && (candidate.zero_stage < 2 || limits_.fixed_numbers.contains("zero_stage")))
      add(1, "dualpipe");
    for (const char* name : {"v_half", "v_min", "dualpipe_v"})
      if (named(name)) add(2, name);
    if (microbatches % pipeline == 0)
      for (std::int64_t stages = 2; stages <= most_virtual_stages; ++stages) {
        add(stages, "interleaved_1f1b");
        for (const char* name : {"interleaved_zb", "looped_bfs"})
          if (named(name)) add(stages, name);
        if (named("interleaved_1f1b_overlap") && has_experts()) add(stages, "interleaved_1f1b_overlap");
      }
    // Under ZeRO-2 and 3 one rank would gather tied word embeddings for both of its stages.
    if (named("zb_v") || candidate.zero_stage < 2 || !job_.model.tie_word_embeddings) add(2, "zb_v");
    return found;
  }

 private:
  const Job& job_;
  const PlanConfig& limits_;
};

// What is left once a candidate's ranks and microbatches are.
void visit_schedules(const Choices& choices, Candidate candidate,
                     const std::function<void(const Candidate&)>& visit) {
  const auto schedules = choices.schedules(candidate);
  for (const RecomputeGranularity recompute : choices.recomputes()) {
    candidate.recompute = recompute;
    for (const auto& [stages, name] : schedules) {
      candidate.virtual_stages = stages;
      candidate.schedule = name;
      visit(candidate);
    }
  }
}

void visit_training(const Choices& choices, Candidate candidate,
                    const std::function<void(const Candidate&)>& visit) {
  const std::int64_t copies = candidate.data * candidate.context,
                     of_experts = candidate.tensor * copies / (candidate.expert * candidate.expert_tensor);
  for (const std::int64_t micro_batch : choices.micro_batches(candidate.data)) {
    candidate.micro_batch = micro_batch;
    for (const int zero_stage :
         choices.zero_stages(choices.has_experts() ? std::max(copies, of_experts) : copies)) {
      candidate.zero_stage = zero_stage;
      visit_schedules(choices, candidate, visit);
    }
  }
}

void visit_experts(const Choices& choices, Candidate candidate,
                   const std::function<void(const Candidate&)>& visit) {
  const std::int64_t ranks = candidate.tensor * candidate.context * candidate.data;  // of a stage
  for (const std::int64_t expert_tensor : choices.expert_tensor(candidate.tensor)) {
    if (ranks % expert_tensor != 0) continue;
    candidate.expert_tensor = expert_tensor;
    for (const std::int64_t expert : choices.experts(ranks / expert_tensor)) {
      candidate.expert = expert;
      visit_training(choices, candidate, visit);
    }
  }
}

const char* recompute_word(RecomputeGranularity recompute) {
  return recompute == RecomputeGranularity::none        ? "none"
         : recompute == RecomputeGranularity::selective ? "selective"
                                                        : "full";
}

}  // namespace

std::string describe(const Candidate& of) {
  std::string text = fmt::format("tp {}{}", of.tensor, of.whole_sequences ? " no sp" : "");
  if (of.context > 1) text += fmt::format(" cp {}", of.context);
  if (of.exchange.kind) text += fmt::format(" {}", exchange_word(*of.exchange.kind));
  if (of.exchange.kind == ContextExchange::a2a_p2p)
    text += fmt::format(" {} x {}", of.exchange.a2a_size, of.context / of.exchange.a2a_size);
  text += fmt::format(" pp {}", of.pipeline);
  if (of.virtual_stages > 1) text += fmt::format(" x {}", of.virtual_stages);
  text += fmt::format(" dp {}", of.data);
  if (of.expert > 1 || of.expert_tensor > 1)
    text += fmt::format(" ep {} etp {}", of.expert, of.expert_tensor);
  text += fmt::format(" mbs {} zero {}{} recompute {}{}{}", of.micro_batch, of.zero_stage,
                      of.overlaps ? " overlap" : "", recompute_word(of.recompute),
                      of.schedule.empty() ? "" : " ", of.schedule);
  if (of.is_as_written) text = "as written";
  text += describe(of.tuning);
  return of.balance.empty() ? text : text + ", " + describe(of.balance);
}

void for_each_candidate(const Job& job, const PlanConfig& limits,
                        const std::function<void(const Candidate&)>& visit) {
  const Choices choices(job, limits);
  const std::int64_t world = choices.workers();
  for (const std::int64_t tensor : choices.tensor())
    for (const std::int64_t context : choices.context(world / tensor))
      for (const std::int64_t pipeline : choices.pipeline(world / (tensor * context))) {
        Candidate candidate;
        candidate.tensor = tensor;
        candidate.context = context;
        candidate.pipeline = pipeline;
        if (context > 1 && choices.needs_all_to_all()) {
          if (!choices.may_exchange(tensor, context)) continue;
          candidate.exchange = {ContextExchange::a2a, context};
        }
        candidate.data = world / (tensor * context * pipeline);
        if (!choices.allows("data_parallel_size", candidate.data)) continue;
        visit_experts(choices, candidate, visit);
      }
}

bool takes_sequence_parallel(const Job& job, std::int64_t tensor, std::int64_t context) {
  const bool zigzag = context > 1 && job.parallelism.context_parallel_layout == ContextLayout::zigzag;
  const std::int64_t parts = tensor * context * (zigzag ? 2 : 1);
  return tensor > 1 && job.training.seq_length % parts == 0 && job.training.decoder_seq_length % tensor == 0;
}

bool takes_sequence_parallel(const Job& job, const Candidate& candidate) {
  return !candidate.whole_sequences && takes_sequence_parallel(job, candidate.tensor, candidate.context);
}

const char* exchange_word(ContextExchange kind) {
  switch (kind) {
    case ContextExchange::p2p: return "p2p";
    case ContextExchange::all_gather: return "all_gather";
    case ContextExchange::a2a: return "a2a";
    case ContextExchange::a2a_p2p: return "a2a+p2p";
  }
  return "";
}

std::vector<StageContent> balanced_stages(const Job& job, std::int64_t stages) {
  const std::int64_t layers = job.model.num_layers;
  if (stages > layers) return {};
  std::vector<StageContent> contents(static_cast<std::size_t>(stages));
  for (StageContent& content : contents) content.layers = layers / stages;
  // What is over goes to the middle: the last stage has the loss, the first the embedding.
  std::int64_t over = layers % stages;
  for (std::size_t s = 1; over > 0 && s + 1 < contents.size(); ++s, --over) ++contents[s].layers;
  if (over > 0) ++contents.front().layers, --over;
  if (over > 0) ++contents.back().layers;
  contents.front().embedding = true;
  contents.back().loss = true;
  contents.back().mtp_layers = job.model.num_nextn_predict_layers;
  return contents;
}

bool may_overlap_gathers(const Job& job, const Candidate& candidate) {
  return candidate.zero_stage == 2 ||
         (candidate.zero_stage == 1 && (job.optimizer.overlap_grad_reduce || candidate.overlaps));
}

std::optional<Candidate> with_other_overlap(const Job& job, const PlanConfig& limits, Candidate candidate) {
  const bool reduces = !job.optimizer.overlap_grad_reduce && candidate.zero_stage < 2;
  const bool gathers =
      !job.optimizer.overlap_param_gather && (candidate.zero_stage == 1 || candidate.zero_stage == 2);
  if (!limits.overlap_is_open || candidate.data * candidate.context == 1 || (!reduces && !gathers))
    return std::nullopt;
  candidate.overlaps = !candidate.overlaps;
  return candidate;
}

bool has_instances(const Job& job, const Candidate& candidate) {
  const std::int64_t instances = job.optimizer.num_distributed_optimizer_instances;
  if (candidate.zero_stage == 0 || candidate.data % instances != 0) return false;
  const std::int64_t shard = candidate.tensor * candidate.context * (candidate.data / instances),
                     experts = candidate.expert_tensor * candidate.expert;
  return shard % experts == 0 || experts % shard == 0;
}

static void put_exchange(Parallelism& parallelism, const Candidate& candidate) {
  const std::int64_t context = candidate.context;
  if (candidate.exchange.kind) parallelism.cp_comm_type = *candidate.exchange.kind;
  if (parallelism.cp_comm_type == ContextExchange::a2a)
    parallelism.context_a2a_size = context;
  else if (candidate.exchange.kind)
    parallelism.context_a2a_size = candidate.exchange.a2a_size;
}

Job with_candidate(Job job, const Candidate& candidate) {
  Parallelism& parallelism = job.parallelism;
  parallelism.tensor_model_parallel_size = candidate.tensor;
  parallelism.context_parallel_size = candidate.context;
  parallelism.pipeline_model_parallel_size = candidate.pipeline;
  parallelism.virtual_pipeline_model_parallel_size = candidate.virtual_stages;
  parallelism.expert_model_parallel_size = candidate.expert;
  parallelism.expert_tensor_parallel_size = candidate.expert_tensor;
  parallelism.data_parallel_size = candidate.data;
  parallelism.stage_tensor_sizes.clear();
  parallelism.stage_data_sizes.clear();
  parallelism.sequence_parallel = takes_sequence_parallel(job, candidate);
  put_exchange(parallelism, candidate);
  parallelism.pipeline_schedule = candidate.schedule.empty() ? "1f1b" : candidate.schedule;
  parallelism.schedule_csv.reset();
  parallelism.microbatch_group_size_per_vp_stage = candidate.virtual_stages > 1 ? candidate.pipeline : 0;
  parallelism.pipeline_memory_limit = 0;
  parallelism.stages = balanced_stages(job, candidate.pipeline * candidate.virtual_stages);
  job.training.micro_batch_size = candidate.micro_batch;
  job.training.replica_micro_batch_sizes.clear();
  job.optimizer.zero_stage = candidate.zero_stage;
  job.optimizer.zero_3_layers.clear();
  job.optimizer.overlap_grad_reduce =
      job.optimizer.overlap_grad_reduce || candidate.overlaps || candidate.zero_stage >= 2;
  job.optimizer.overlap_param_gather =
      candidate.zero_stage == 3 ||
      ((job.optimizer.overlap_param_gather || candidate.overlaps) && may_overlap_gathers(job, candidate));
  apply_tuning(job, candidate);
  if (!has_instances(job, candidate)) job.optimizer.num_distributed_optimizer_instances = 1;
  if (candidate.zero_stage > 0) job.optimizer.all_reduce = AllReduceKind::flat;
  const RecomputeConfig written = job.recompute;
  job.recompute = {};
  job.recompute.granularity = candidate.recompute;
  if (candidate.recompute != RecomputeGranularity::selective) return job;
  job.recompute.saved = written.saved;
  if (written.saved.empty())
    job.recompute.modules = written.granularity == RecomputeGranularity::selective && !written.modules.empty()
                                ? written.modules
                                : std::vector<std::string>{"core_attn"};
  return job;
}

}  // namespace simrun
