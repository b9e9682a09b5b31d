// The layers of Megatron-LM's pretrain_mamba.py and pretrain_hybrid.py to the keys of a job.
#include "configs/import_megatron_hybrid.h"

#include <fmt/format.h>

#include "configs/pipeline_layout.h"

namespace simrun {
namespace {

constexpr const char *earlier_flag = "--hybrid-override-pattern", *later_flag = "--hybrid-layer-pattern",
                     *further_flag = "--mtp-hybrid-override-pattern", *predicted_flag = "--mtp-num-layers";

// The flag that says what each layer is; empty: none does.
std::string pattern_flag_of(const MegatronReader& flags) {
  if (flags.is_given(earlier_flag)) return earlier_flag;
  return flags.is_given(later_flag) ? later_flag : "";
}

bool is_stack_of_megatron(const std::vector<ShellWord>& spec) {
  const auto has = [&](const char* module) { return spec.front().text.find(module) != std::string::npos; };
  if (has(".mamba_layer_specs")) return true;
  return has(".hybrid_layer_specs") && spec.size() > 1 && spec[1].text == "hybrid_stack_spec";
}

// What says of a hybrid's layers less than a pattern, or something else.
void check_hybrid_flags(MegatronReader& flags, bool has_pattern) {
  const std::string hint = fmt::format("{} does.", earlier_flag);
  if (flags.is_given(earlier_flag) && flags.is_given(later_flag))
    flags.problem(flags.position_of(later_flag), fmt::format("{} and {} are one", later_flag, earlier_flag),
                  "keep one.");
  if (flags.is_on("--is-hybrid-model") && !has_pattern)
    flags.problem(flags.position_of("--is-hybrid-model"), "the file does not say what each layer is", hint);
  for (const char* share : {"--hybrid-attention-ratio", "--hybrid-mlp-ratio"})
    if (flags.is_given(share) && !has_pattern)
      flags.problem(flags.position_of(share), "what each layer is, shares of them do not say", hint);
  const std::vector<ShellWord> spec = flags.values("--spec");
  if (!spec.empty() && (!has_pattern || !is_stack_of_megatron(spec)))
    flags.problem(flags.position_of("--spec"), "a layer of one's own is not modelled");
}

void import_further_layers(MegatronReader& flags, const HybridLayerPattern& pattern,
                           const SourcePosition& at) {
  if (pattern.further_tokens == 0) return;
  const std::string count = fmt::format("{}", pattern.further_tokens);
  if (flags.is_given(further_flag))
    return flags.problem(flags.position_of(further_flag),
                         fmt::format("{} beside the / of a pattern, which says the same", further_flag),
                         "keep one.");
  flags.put("model.mtp_hybrid_override_pattern", pattern.further, at);
  if (!flags.is_given(predicted_flag)) return flags.put("model.mtp_num_layers", count, at);
  if (const std::optional<std::int64_t> written = flags.number(predicted_flag);
      written && *written != pattern.further_tokens)
    flags.problem(flags.position_of(predicted_flag),
                  fmt::format("{} {}, and the pattern has {} of /", predicted_flag, *written, count),
                  fmt::format("{} {}.", predicted_flag, count));
}

// Flags that say again, or otherwise, which layers a stage has.
bool are_stages_said_twice(MegatronReader& flags) {
  bool found = false;
  for (const char* flag : {"--pipeline-model-parallel-layout", "--num-layers-per-virtual-pipeline-stage",
                           "--num-virtual-stages-per-pipeline-rank", "--decoder-first-pipeline-num-layers",
                           "--decoder-last-pipeline-num-layers", "--account-for-embedding-in-pipeline-split",
                           "--account-for-loss-in-pipeline-split"}) {
    if (!flags.is_given(flag)) continue;
    flags.problem(flags.position_of(flag),
                  fmt::format("{} beside the | of a pattern, which says the stages", flag), "keep one.");
    found = true;
  }
  return found;
}

}  // namespace

void import_hybrid_layers(MegatronReader& flags) {
  const std::string flag = pattern_flag_of(flags);
  check_hybrid_flags(flags, !flag.empty());
  if (flag.empty()) return;
  const std::optional<ShellWord> word = flags.value(flag);
  if (!word) return;
  const HybridLayerPattern pattern = parse_hybrid_layer_pattern(word->text);
  if (!pattern.problem.empty()) flags.problem(word->position, flag + ": " + pattern.problem, pattern.hint);
  flags.put("model.hybrid_override_pattern", pattern.layers, word->position);
  if (!flags.is_given("--num-layers"))
    flags.put("model.num_layers", fmt::format("{}", pattern.layers.size()), word->position);
  if (pattern.problem.empty()) import_further_layers(flags, pattern, word->position);
}

std::optional<std::int64_t> import_hybrid_stages(MegatronReader& flags, std::int64_t ranks) {
  const std::string flag = pattern_flag_of(flags);
  const std::optional<ShellWord> word = flag.empty() ? std::nullopt : flags.value(flag);
  if (!word) return std::nullopt;
  const HybridLayerPattern pattern = parse_hybrid_layer_pattern(word->text);
  if (!pattern.has_stages()) return std::nullopt;
  if (!pattern.problem.empty()) return 1;  // which is told
  if (are_stages_said_twice(flags)) return 1;
  const auto count = static_cast<std::int64_t>(pattern.stage_layers.size());
  if (count % ranks != 0) {
    flags.problem(word->position,
                  fmt::format("{}: {} stages do not split into {} pipeline ranks", flag, count, ranks),
                  fmt::format("a multiple of {} stages: one | fewer than stages.", ranks));
    return 1;
  }
  std::vector<StageContent> stages(static_cast<std::size_t>(count));
  for (std::size_t stage = 0; stage < stages.size(); ++stage)
    stages[stage].layers = pattern.stage_layers[stage];
  stages.front().embedding = stages.back().loss = true;
  stages.back().mtp_layers =
      pattern.further_tokens > 0 ? pattern.further_tokens : flags.number(predicted_flag).value_or(0);
  flags.put("parallelism.pipeline_model_parallel_layout", pipeline_layout_text(stages), word->position);
  const std::int64_t chunks = count / ranks;
  if (chunks > 1)
    flags.put("parallelism.virtual_pipeline_model_parallel_size", fmt::format("{}", chunks), word->position);
  return chunks;
}

}  // namespace simrun
