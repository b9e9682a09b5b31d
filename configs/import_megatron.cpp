#include "configs/import_megatron.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "configs/job_yaml.h"
#include "configs/limits.h"
#include "configs/megatron_flags.h"
#include "configs/megatron_reader.h"

namespace simrun {
namespace {

constexpr const char* assumed_cluster = "dgx_h100";

// Flags that the job has no place for, all at once; what is left out although a step's time knows it.
std::vector<std::string> judged_flags(MegatronReader& flags) {
  std::vector<std::string> unmodelled;
  std::set<std::string> seen;
  for (const GivenFlag& flag : flags.flags()) {
    if (!seen.insert(flag.name).second) continue;
    // Megatron-LM refuses it beside any other type than rope, beside which it says nothing.
    if (flag.name == "--no-position-embedding" && flags.word("--position-embedding-type", "") == "rope")
      continue;
    const FlagMeaning meaning = meaning_of_megatron_flag(flag.name);
    if (meaning.use == FlagUse::unknown)
      flags.problem(flag.position, fmt::format("Megatron-LM has no flag {}", in_quotes(flag.name)),
                    meaning.hint);
    if (meaning.use == FlagUse::unsupported)
      flags.problem(flag.position, fmt::format("{} is not supported: {}", flag.name, meaning.why),
                    meaning.hint);
    if (meaning.use == FlagUse::unmodelled)
      unmodelled.push_back(fmt::format("{}: {}", flag.name, meaning.why));
  }
  return unmodelled;
}

// Keys that say nothing without another flag, as Megatron-LM reads them.
bool has_effect(const MegatronReader& flags, std::string_view path) {
  constexpr std::string_view latent[] = {"model.q_lora_rank", "model.kv_lora_rank", "model.qk_head_dim",
                                         "model.qk_pos_emb_head_dim", "model.v_head_dim"};
  constexpr std::string_view expert[] = {"model.num_experts", "parallelism.expert_tensor_parallel_size"};
  if (std::ranges::find(latent, path) != std::end(latent)) return flags.is_given("--multi-latent-attention");
  if (path == "model.kv_channels") return !flags.is_given("--multi-latent-attention");
  if (path.starts_with("model.moe_") || path.starts_with("moe.") ||
      std::ranges::find(expert, path) != std::end(expert))
    return flags.is_given("--num-experts");
  if (path == "offload.optimizer_fraction") return flags.is_given("--optimizer-cpu-offload");
  return true;
}

void import_plain_flags(MegatronReader& flags) {
  for (const FlagKey& key : megatron_value_keys())
    if (has_effect(flags, key.path))
      if (const std::optional<ShellWord> value = flags.value(std::string(key.flag)))
        flags.put(std::string(key.path), value->text, value->position);
  for (const FlagKey& key : megatron_switch_keys())
    if (has_effect(flags, key.path) && flags.is_on(std::string(key.flag)))
      flags.put(std::string(key.path), "true", flags.position_of(std::string(key.flag)));
}

bool is_overridden(const LoadOptions& options, const std::string& key) {
  return std::ranges::any_of(options.overrides,
                             [&](const Override& of) { return of.key == "cluster" || of.key == key; });
}

void import_cluster(MegatronReader& flags, const LoadOptions& options) {
  flags.put_default("cluster.from", assumed_cluster);
  for (const Override& of : options.overrides)
    if (of.key == "cluster.from") flags.put_default(of.key, of.value);
  const auto nodes = flags.value("--nnodes");
  if (nodes) flags.put("cluster.nodes", nodes->text, nodes->position);
  if (const auto gpus = flags.value("--nproc-per-node"))
    flags.put("cluster.gpus_per_node", gpus->text, gpus->position);
  if (nodes || is_overridden(options, "cluster.nodes")) return;
  if (flags.is_given("--nproc-per-node") && !flags.is_given("--nnodes"))
    flags.put("cluster.nodes", "1", flags.position_of("--nproc-per-node"));  // torchrun's default
}

// Megatron-LM: "micro-batch-size * data-parallel-size", so one microbatch.
void import_default_batch(MegatronReader& flags) {
  if (flags.is_given("--global-batch-size")) return;
  const std::optional<std::int64_t> batch = flags.number("--micro-batch-size"),
                                    nodes = flags.number("--nnodes"), gpus = flags.number("--nproc-per-node");
  if (!batch || !nodes || !gpus) return;
  std::int64_t ranks = *nodes * *gpus;
  for (const char* size :
       {"--tensor-model-parallel-size", "--context-parallel-size", "--pipeline-model-parallel-size"})
    ranks /= flags.number(size).value_or(1);
  if (ranks > limits::world) return;
  flags.put("training.global_batch_size", fmt::format("{}", *batch * ranks),
            flags.position_of("--micro-batch-size"));
}

std::string header(const std::string& file, const std::vector<std::string>& unmodelled, bool is_assumed) {
  std::string name;
  for (const char character : file) name += character >= 0x20 && character < 0x7f ? character : '?';
  std::string text = fmt::format("# From {}, arguments of Megatron-LM.\n", name);
  if (is_assumed)
    text += fmt::format("# The cluster's hardware is assumed: {} (--set cluster.from=dgx_a100 is another).\n",
                        assumed_cluster);
  text += "# Kernels are ideal ones; `framework: megatron_core` prices Megatron-LM's own.\n";
  if (!unmodelled.empty()) text += "# Not modelled, and left out:\n";
  for (const std::string& what : unmodelled) text += fmt::format("#   {}\n", what);
  return text;
}

// A key that is missing, in the words of the flag that says it.
void name_flag(Diagnostic& problem, const std::string& flag, const std::string& meaning) {
  problem.message = fmt::format("no {} says {}", flag, meaning);
  problem.hint = flag + " N, or its key by --set.";
}

// A vocabulary that is in the files of the script's tokenizer, which nobody reads here.
void name_vocabulary(std::vector<Diagnostic>& problems, MegatronReader& flags) {
  const std::string flag = "--tokenizer-type";
  constexpr const char* missing = "missing required key 'vocab_size'";
  if (!flags.is_given(flag)) return;
  const std::string tokenizer = flags.word(flag, "");
  if (tokenizer.empty())  // which is told
    std::erase_if(problems, [&](const Diagnostic& of) { return of.message.starts_with(missing); });
  for (Diagnostic& problem : problems) {
    if (!problem.message.starts_with(missing)) continue;
    name_flag(problem, "--vocab-size", "");
    problem.position = flags.position_of(flag);
    problem.message = fmt::format("the size of the vocabulary is in the tokenizer's files ({})", tokenizer);
  }
}

// A value that was refused is not missing as well.
LoadedJob loaded_tree(ConfigNode& root, MegatronReader& flags, const LoadOptions& options) {
  try {
    return load_job_tree(root, flags.take_problems(), flags.file(), options);
  } catch (const ConfigError& error) {
    std::vector<Diagnostic> problems = error.diagnostics();
    for (const FlagKey& key : megatron_value_keys()) {
      const std::string_view name = key.path.substr(key.path.find('.') + 1);
      const std::string missing = fmt::format("missing required key '{}'", name);
      if (flags.was_reported(std::string(key.flag)))
        std::erase_if(problems, [&](const Diagnostic& of) { return of.message.starts_with(missing); });
      for (Diagnostic& problem : problems)
        if (problem.message.starts_with(missing))
          name_flag(problem, std::string(key.flag), in_quotes(key.path));
    }
    name_vocabulary(problems, flags);
    // Said already of the flag from which it would follow.
    std::erase_if(problems, [&](const Diagnostic& of) {
      return of.message.starts_with("missing required key 'nodes'") && flags.is_given("--nnodes");
    });
    for (Diagnostic& problem : problems)
      if (problem.message.starts_with("missing required key 'nodes'"))
        name_flag(problem, "--nnodes", "on how many nodes this runs");
    throw ConfigError(std::move(problems));
  }
}

}  // namespace

ImportedJob import_megatron(const std::string& text, const std::string& file, const LoadOptions& options) {
  std::vector<Diagnostic> problems;
  MegatronWords words = read_megatron_words(text, file, problems);
  if (!problems.empty()) throw ConfigError(std::move(problems));  // what follows would be guesses
  MegatronReader flags(file, std::move(words), std::move(problems));
  const std::vector<std::string> unmodelled = judged_flags(flags);
  flags.put_default("model.model_type", "gpt");
  import_plain_flags(flags);
  import_megatron_model(flags);
  import_megatron_experts(flags);
  import_megatron_precision(flags);
  import_megatron_parallelism(flags);
  import_megatron_optimizer(flags);
  import_megatron_recompute(flags);
  import_cluster(flags, options);
  import_default_batch(flags);
  ConfigNode root = flags.take_tree();
  LoadOptions rest = options;  // another `from` would replace the number of nodes too
  std::erase_if(rest.overrides, [](const Override& of) { return of.key == "cluster.from"; });
  LoadedJob loaded = loaded_tree(root, flags, rest);
  return {std::move(loaded.job),
          header(file, unmodelled, !is_overridden(options, "cluster.from")) + job_yaml(root)};
}

}  // namespace simrun
