#include "validation/row_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <utility>

#include "configs/config_node.h"
#include "validation/claimed_flops.h"
#include "validation/cluster_block.h"
#include "validation/dimensions_by_size.h"
#include "validation/hardware_text.h"
#include "validation/model_block.h"
#include "validation/parallelism_block.h"
#include "validation/publication.h"
#include "validation/row_cells.h"
#include "validation/row_defaults.h"
#include "validation/text_pattern.h"

namespace simrun {
namespace {

// What several rules say of one row, the most specific first.
using Applied = std::vector<RowRule>;

// Of a row whose experts its name's model has not: the preset's dimensions, with these in its layers.
RowRule with_experts(RowRule rule, const ModelPreset& preset) {
  std::erase_if(rule.job, [](const auto& key) { return key.first == "model.from"; });
  rule.facts.erase("preset");
  if (rule.facts["keys"] == "hf") rule.job.emplace_back("model.model_type", "llama");
  for (const auto& [column, value] :
       {std::pair(Column::layers, &preset.layers), std::pair(Column::hidden, &preset.hidden),
        std::pair(Column::heads, &preset.heads), std::pair(Column::kv_heads, &preset.kv_heads),
        std::pair(Column::ffn_hidden, &preset.ffn), std::pair(Column::vocab, &preset.vocab)})
    if (!value->empty()) rule.cells.emplace_back(column, *value);
  return rule;
}

// The rule of the model's name; where that does not know the model's layers, the preset that the name means,
// of a row that prints its layers and width only if they are the preset's.
std::optional<RowRule> named_model(const MeasuredRow& row, const RowRules& rules, KnownPresets& presets) {
  std::optional<RowRule> rule = first_applied(rules.models, row[Column::model]);
  const auto knows_it = [](const RowRule& of) {
    return std::ranges::any_of(of.cells, [](const auto& cell) { return cell.first == Column::layers; }) ||
           std::ranges::any_of(of.job, [](const auto& key) { return key.first == "model.from"; }) ||
           of.facts.contains("unsupported");
  };
  const bool has_dimensions = !row[Column::layers].empty() && !row[Column::hidden].empty();
  if (rule && knows_it(*rule)) return rule;
  const ModelPreset* preset = presets.model(row[Column::model]);
  if (preset == nullptr || (has_dimensions && !has_dimensions_of(row, *preset))) return rule;
  RowRule named;
  named.name = preset->name;
  named.job = {{"model.from", preset->name}};
  named.facts = {{"keys", keys_of(preset->model_type)}, {"preset", preset->name}};
  if (named.facts["keys"] != "none" && !preset->layers.empty())
    named.cells = {{Column::layers, preset->layers}};
  return named;
}

std::optional<RowRule> model_rule(const MeasuredRow& row, const RowRules& rules, KnownPresets& presets) {
  std::optional<RowRule> rule = named_model(row, rules, presets);
  if (!rule || row.integer(Column::n_experts).value_or(0) < 2) return rule;
  const auto from = std::ranges::find(rule->job, "model.from", [](const auto& key) { return key.first; });
  const ModelPreset* preset = from == rule->job.end() ? nullptr : presets.preset(from->second);
  const auto named = rule->facts.find("keys");
  const bool has_keys = named != rule->facts.end() && (named->second == "hf" || named->second == "megatron");
  const bool is_dense = preset != nullptr && preset->experts.empty() && !preset->layers.empty() && has_keys &&
                        keys_of(preset->model_type) == named->second;
  return is_dense ? with_experts(*rule, *preset) : rule;
}

bool is_unsaid_pcie_card(const MeasuredRow& row) {
  const std::string &links = row[Column::intra_link], gpu = own_hardware(row[Column::hardware]);
  const bool is_pcie = matched("PCI", links) && !said("NVLink", links) && !said("NVSwitch", links);
  return is_pcie && !matched("SXM", gpu) && !matched("PCI", gpu);
}

// What the GPU is, and of one whose links are PCIe without NVLink that it is.
std::string hardware_of(const MeasuredRow& row) {
  const std::string gpu = own_hardware(row[Column::hardware]);
  return gpu + (is_unsaid_pcie_card(row) ? " PCIe card" : "");
}

std::optional<RowRule> flops_rule(const std::string& words, const RowRules& rules) {
  std::optional<RowRule> rule = first_applied(rules.flops, words);
  if (rule && rule->facts.contains("formula") && !flops_formula_in(words).empty()) return std::nullopt;
  return rule;
}

// Notes and what the cell of attention says beyond yes and no: "FlashAttention-2".
std::string notes_of(const MeasuredRow& row, const MeasuredRow& as_written) {
  const std::string& cell = as_written[Column::flash_attention];
  const bool names_kernel = cell.size() > 3 && row[Column::flash_attention] == "1";  // no "1" or "yes"
  return names_kernel ? row[Column::notes] + "; " + cell : row[Column::notes];
}

Applied applied_rules(const MeasuredRow& row, const std::string& notes, const RowRules& rules,
                      KnownPresets& presets) {
  Applied all;
  for (const RowRule& rule : rules.notes)
    if (holds_where(rule, row))
      if (std::optional<RowRule> found = applied_to_notes(rule, notes)) all.push_back(*found);
  for (std::optional<RowRule> found :
       {first_applied(rules.sources, row[Column::source]), model_rule(row, rules, presets),
        first_applied(rules.hardware, hardware_words(hardware_of(row))),
        flops_rule(row[Column::flops_definition], rules),
        first_applied(rules.peaks, row[Column::flops_definition] + "; " + notes)})
    if (found) all.push_back(std::move(*found));
  return all;
}

// What the loader would refuse as a missing key or section.
void name_what_is_unknown(RowJob& made) {
  if (!made.job.has("cluster.from") && !made.job.has("cluster.gpu"))
    made.facts.emplace("unknown", fmt::format("hardware {}: this GPU has no profile in configs/gpus",
                                              in_quotes(made.row[Column::hardware])));
  else if (!made.job.has("model.from") &&
           (made.row[Column::layers].empty() || made.row[Column::hidden].empty()))
    made.facts.emplace("unknown", fmt::format("model {}: no cells with its dimensions, no preset of its name",
                                              in_quotes(made.row[Column::model])));
  else if (!made.job.has("model.from") && made.row[Column::n_experts].empty() &&
           matched("MoE", made.row[Column::model]))
    made.facts.emplace("unknown", fmt::format("model {}: of its experts no number is given (n_experts)",
                                              in_quotes(made.row[Column::model])));
}

// How FLOPs count that the row does not explain, or in words that no rule knows.
void assume_flops(RowJob& made) {
  const std::string& metric = made.row[Column::measured_metric];
  if ((metric != "tflops_per_gpu" && metric != "mfu") || made.facts.contains("flops")) return;
  const auto usual = made.facts.find("usual_flops");
  const bool is_empty = made.row[Column::flops_definition].empty();
  const std::string kind = is_empty && usual != made.facts.end() ? usual->second : "model";
  made.facts.emplace("flops", kind);
  made.assumed.push_back(is_empty ? "flops_definition=" + kind
                                  : fmt::format("flops_definition {} read as {}",
                                                in_quotes(made.row[Column::flops_definition]), kind));
}

// What cells say that is not theirs alone: which modules are computed again, and a sequence whose last token
// is only a label.
void read_within_cells(RowJob& made, const MeasuredRow& as_written) {
  const std::string modules = recomputed_modules_in(as_written[Column::recompute]);
  if (!modules.empty()) made.job.set("recompute.modules", modules);
  const RecomputedLayers layers = recomputed_layers_in(as_written[Column::recompute]);
  if (layers.of_stage > 0 && made.row[Column::recompute] == "full") {
    made.job.set("recompute.method", "block");
    made.job.set("recompute.num_layers", fmt::format("{}", layers.of_stage));
  }
  if (!layers.share.empty() && made.row[Column::recompute] == "full") {
    made.row[Column::recompute] = "selective";  // whole layers, but not all
    made.facts.emplace("recomputed_layers", layers.share);
  }
  if (const std::int64_t chunks = chunks_in(as_written[Column::schedule]);
      chunks > 0 && made.row[Column::schedule] == "interleaved-1f1b" && made.row[Column::vpp].empty() &&
      made.row.integer(Column::pp).value_or(1) > 1)
    made.row[Column::vpp] = fmt::format("{}", chunks);
  const auto tokens = without_label_token(made.row[Column::seq_len]);
  if (!tokens) return;
  made.row[Column::seq_len] = *tokens;
  made.assumed.push_back(fmt::format("{} tokens of a sequence and a label behind them", *tokens));
}

// Under delayed scaling the fp8 copies of what these modules would discard are kept (Megatron-LM,
// arguments.py), so that a run which computes them again has other scales.
void choose_scales(RowJob& made) {
  const std::string modules = made.job.value("recompute.modules");
  for (const char* module : {"moe_act", "layernorm"})
    if (modules.find(module) != std::string::npos)
      made.job.set_if_absent("training.fp8_recipe", "tensorwise");
}

// The preset of a row that prints no dimensions, where a rule named it.
void name_preset(RowJob& made, const MeasuredRow& row) {
  const std::string from = made.job.value("model.from");
  const bool has_dimensions = !row[Column::layers].empty() && !row[Column::hidden].empty();
  if (!from.empty() && (!has_dimensions || made.facts.contains("preset")))
    made.assumed.push_back("model preset " + from);
}

// What stages, expert-parallel ranks, and sequences whose length nobody says, need to know of a preset.
void take_from_preset(RowJob& made, KnownPresets& presets) {
  const ModelPreset* preset = presets.preset(made.job.value("model.from"));
  if (preset == nullptr) return;
  if (!preset->layers.empty()) assume(made, Column::layers, preset->layers);
  for (const char* type : {"resnet", "wide_resnet", "vgg", "vit"})
    if (preset->model_type == type) {
      made.facts.emplace("reads", "images");
      made.row[Column::seq_len].clear();
    }
  if (!preset->positions.empty()) made.facts.emplace("positions", preset->positions);
  if (!preset->heads.empty()) made.facts.emplace("heads", preset->heads);
  if (made.row[Column::n_experts].empty()) made.row[Column::n_experts] = preset->experts;
  if (!preset->expert_ffn.empty()) made.facts.emplace("dense_ffn", preset->ffn);
}

// A card of another size than the one that the text means otherwise, as the A100 of 64 GB.
void refuse_other_memory(RowJob& made, KnownPresets& presets) {
  if (!made.job.has("cluster.from") || made.facts.contains("unsupported")) return;
  const Gpu& gpu = presets.gpu(made.job);
  if (may_have_memory(own_hardware(made.row[Column::hardware]), gpu.memory_bytes)) return;
  made.facts.emplace(
      "unknown",
      fmt::format("hardware {}: of its memory this GPU has no profile in configs/gpus, {} has {:.0f} GiB",
                  in_quotes(made.row[Column::hardware]), gpu.name,
                  static_cast<double>(gpu.memory_bytes) / 0x1p30));
}

// Of a hybrid whose layers no rule has, nobody knows which are Mamba's, or linear attention's.
void refuse_unknown_hybrid(RowJob& made) {
  const auto hybrid = made.facts.find("hybrid");
  const bool has_delta_nets = hybrid != made.facts.end() && hybrid->second == "delta_nets";
  if (made.facts.contains("mamba") && (hybrid == made.facts.end() || has_delta_nets))
    made.facts.emplace("unsupported", "Mamba layers of an unknown pattern");
  if (made.facts.contains("delta_nets") && !has_delta_nets)
    made.facts.emplace("unsupported", "gated delta nets of an unknown pattern");
}

// Nobody need know what was assumed of sequence parallelism without tensor parallelism, and of a pipeline or
// of experts that there are not.
void forget_idle_assumptions(RowJob& made) {
  const auto is_split = [&](Column size) { return made.row.integer(size).value_or(1) > 1; };
  const auto forget = [&](const char* start) {
    std::erase_if(made.assumed, [&](const std::string& what) { return what.starts_with(start); });
  };
  if (!is_split(Column::tp)) forget("sp=");
  if (!is_split(Column::pp))
    for (const char* start : {"vpp=", "schedule="}) forget(start);
  if (!is_split(Column::n_gpus)) forget("zero_stage=");
}

void follow(const RowRule& rule, RowJob& made) {
  for (const auto& [column, value] : rule.cells) assume(made, column, value);
  for (const auto& [key, value] : rule.job) made.job.set_if_absent(key, value);
  for (const auto& [name, value] : rule.facts) made.facts.emplace(name, value);
}

// Lower case, each between two blanks: " pytorch fsdp2 ".
std::string words_of(const std::string& text) {
  std::string words = " ";
  for (const char c : text + " ") {
    const bool is_letter = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (is_letter || words.back() != ' ')
      words += is_letter ? static_cast<char>(std::tolower(static_cast<unsigned char>(c))) : ' ';
  }
  return words;
}

// Where no rule names one, that of the row's words or of its GPUs' years. One that there is no profile of
// runs on ideal kernels.
void name_framework(RowJob& made, const RowRules& rules, KnownPresets& presets) {
  if (const auto named = made.facts.find("framework"); named != made.facts.end()) {
    if (presets.has_framework(named->second))
      made.job.set_if_absent("framework.from", named->second);
    else
      made.assumed.push_back(fmt::format("no profile of {}", named->second));
    return;
  }
  const std::string words = words_of(made.row[Column::source] + " " + made.row[Column::notes]);
  const auto usual = std::ranges::find_if(rules.frameworks, [&](const RowRule& rule) {
    return holds_where(rule, made.row) && applied(rule, words).has_value();
  });
  if (usual == rules.frameworks.end()) return;
  follow(*usual, made);
  const auto framework = made.facts.find("framework");
  if (framework == made.facts.end() || !presets.has_framework(framework->second)) return;
  made.job.set_if_absent("framework.from", framework->second);
  made.assumed.push_back("framework=" + framework->second);
}

// "fp16" of a rule means what the weights have: bf16 under bf16, and in fp32 nothing is half.
void keep_gradients_half(RowJob& made) {
  const std::string key = "optimizer.main_grads_dtype", &precision = made.row[Column::precision];
  if (made.job.value(key) != "fp16" || precision == "fp16") return;
  if (precision == "bf16")
    made.job.set(key, "bf16");
  else if (precision == "fp32")
    made.job.erase(key);
}

}  // namespace

const Cluster& KnownPresets::cluster(const std::string& name) {
  const auto found = clusters_.find(name);
  if (found != clusters_.end()) return found->second;
  LoadOptions with = options_;
  with.overrides = {{"cluster.nodes", "1"}};
  return clusters_.emplace(name, load_cluster(name, with)).first->second;
}

const Gpu& KnownPresets::gpu(const JobText& job) {
  std::string name = job.value("cluster.gpu");
  if (name.empty()) name = job.value("cluster.gpu.from");
  if (name.empty()) return cluster(job.value("cluster.from")).gpu;
  const std::string memory = job.value("cluster.gpu.memory");
  const std::string text = memory.empty() ? name : fmt::format("{{from: {}, memory: {}}}", name, memory);
  const std::string from = job.value("cluster.from");
  const auto found = gpus_.find(from + " " + text);
  if (found != gpus_.end()) return found->second;
  LoadOptions with = options_;
  with.overrides = {{"cluster.nodes", "1"}, {"cluster.gpu", text}};
  return gpus_.emplace(from + " " + text, load_cluster(from, with).gpu).first->second;
}

bool KnownPresets::has_framework(const std::string& name) {
  const auto [at, is_new] = frameworks_.emplace(name, false);
  if (is_new)
    at->second = std::ranges::any_of(options_.preset_directories, [&](const std::string& directory) {
      std::error_code ignored;
      return std::filesystem::is_regular_file(
          std::filesystem::path(directory) / "frameworks" / (name + ".yaml"), ignored);
    });
  return at->second;
}

const std::vector<ModelPreset>& KnownPresets::models() {
  if (!models_) models_ = model_presets(options_);
  return *models_;
}

const ModelPreset* KnownPresets::model(const std::string& name) { return model_named(name, models()); }

const ModelPreset* KnownPresets::preset(const std::string& name) {
  const auto found = std::ranges::find(models(), name, &ModelPreset::name);
  return found == models().end() ? nullptr : &*found;
}

std::string group_of(const MeasuredRow& row, const RowRules& rules) {
  const std::optional<RowRule> rule = first_applied(rules.sources, row[Column::source]);
  return rule ? rule->name : publication_of(row[Column::source]);
}

RowJob job_of_row(const MeasuredRow& row, const RowRules& rules, KnownPresets& presets,
                  const SizeGuess& guess) {
  RowJob made;
  made.row = plain_cells(row);
  made.source = group_of(made.row, rules);
  made.has_source_rule = first_applied(rules.sources, made.row[Column::source]).has_value();
  made.job.set("simrun", "1");
  read_within_cells(made, row);
  for (const RowRule& rule : applied_rules(made.row, notes_of(made.row, row), rules, presets))
    follow(rule, made);
  choose_scales(made);
  name_preset(made, row);
  if (is_unsaid_pcie_card(made.row)) made.assumed.push_back("a PCIe card");
  if (const std::string formula = flops_formula_in(made.row[Column::flops_definition]); !formula.empty())
    made.facts.emplace("flops", formula);
  assume_flops(made);
  take_from_preset(made, presets);
  assume_dimensions(made);
  refuse_unknown_hybrid(made);
  refuse_other_memory(made, presets);
  name_what_is_unknown(made);
  made.shards_to_fit = guess.shards;
  if (guess.shards) assume(made, Column::zero_stage, "fsdp");
  name_framework(made, rules, presets);
  fill_in_defaults(made, guess);
  keep_gradients_half(made);
  write_model(made);
  write_training(made);
  write_parallelism(made);
  write_cluster(made, presets, rules.links);
  forget_idle_assumptions(made);
  return made;
}

}  // namespace simrun
