#include "validation/model_block.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <string_view>

#include "validation/named_size.h"
#include "validation/row_cells.h"

namespace simrun {
namespace {

// The keys of a family; "" where it has none.
struct FamilyKeys {
  std::string_view name;
  const char* layers;
  const char* hidden;
  const char* heads;
  const char* kv_heads;
  const char* ffn;
  const char* vocab;
  const char* positions;
  const char* experts;
  const char* topk;
  const char* expert_ffn;
};

constexpr std::array<FamilyKeys, 12> families{{
    {"megatron", "num_layers", "hidden_size", "num_attention_heads", "num_query_groups", "ffn_hidden_size",
     "vocab_size", "max_position_embeddings", "num_experts", "moe_router_topk", "moe_ffn_hidden_size"},
    {"hf", "num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads",
     "intermediate_size", "vocab_size", "max_position_embeddings", "", "", ""},
    {"neox", "num_hidden_layers", "hidden_size", "num_attention_heads", "", "intermediate_size", "vocab_size",
     "max_position_embeddings", "", "", ""},
    {"opt", "num_hidden_layers", "hidden_size", "num_attention_heads", "", "ffn_dim", "vocab_size",
     "max_position_embeddings", "", "", ""},
    {"mpt", "n_layers", "d_model", "n_heads", "", "", "vocab_size", "max_seq_len", "", "", ""},
    {"bloom", "n_layer", "n_embed", "num_attention_heads", "", "", "vocab_size", "", "", "", ""},
    {"mixtral", "num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "",
     "vocab_size", "max_position_embeddings", "num_local_experts", "num_experts_per_tok",
     "intermediate_size"},
    {"qwen_moe", "num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "",
     "vocab_size", "max_position_embeddings", "num_experts", "num_experts_per_tok", "moe_intermediate_size"},
    {"grok", "num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "",
     "vocab_size", "max_position_embeddings", "num_experts", "num_experts_per_tok", "intermediate_size"},
    {"deepseek", "num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "",
     "vocab_size", "max_position_embeddings", "n_routed_experts", "num_experts_per_tok",
     "moe_intermediate_size"},
    {"gpt2", "n_layer", "n_embd", "n_head", "", "n_inner", "vocab_size", "n_positions", "", "", ""},
    {"none", "", "", "", "", "", "", "", "", "", ""},
}};

// Several experts of a token, in bf16 or fp8: those of models since Mixtral, all of which have gates. Tests
// of a known source are Megatron-LM's GPT.
bool has_recent_experts(const RowJob& made) {
  const std::string& precision = made.row[Column::precision];
  const bool is_stated = std::ranges::find(made.assumed, "precision=" + precision) == made.assumed.end() &&
                         (precision.starts_with("bf16") || precision.find("fp8") != std::string::npos);
  return !made.has_source_rule && is_stated && made.row.integer(Column::n_experts).value_or(0) > 1 &&
         made.row.integer(Column::topk).value_or(2) > 1 && !is_ungated_by_size(made.row);
}

// The fact `gated`.
void gate_by_size(RowJob& made) {
  const auto fact = made.facts.find("gated");
  if (fact == made.facts.end() || fact->second == "no" || made.job.has("model.swiglu")) return;
  const bool is_said = fact->second == "yes", by_size = is_gated_by_size(made.row),
             by_width = fact->second == "by_size_or_experts" && has_width_of_gates(made.row) &&
                        !is_ungated_by_size(made.row);
  const bool may_be_experts = fact->second == "by_size_or_experts" && has_recent_experts(made);
  const auto keys = made.facts.find("keys");
  if (is_said && keys != made.facts.end() && keys->second != "megatron") return;  // the family's own MLPs
  if (made.job.has("model.from") || (!is_said && !by_size && !by_width && !may_be_experts)) return;
  made.facts["keys"] = "hf";
  made.job.set("model.model_type", "llama");
  if (!is_said)
    made.assumed.emplace_back(by_size    ? "gated MLPs, by the model's size"
                              : by_width ? "gated MLPs, by their width"
                                         : "gated experts");
}

// Llama's layers with experts are Mixtral's.
void give_llama_experts(RowJob& made) {
  const auto keys = made.facts.find("keys");
  const bool is_llama = keys != made.facts.end() && keys->second == "hf" && !made.job.has("model.from");
  if (!is_llama || made.row.integer(Column::n_experts).value_or(0) < 2) return;
  keys->second = "mixtral";
  made.job.set("model.model_type", "mixtral");
}

// The facts `shared_expert`, or `shared_experts` as wide as the others, and `dense_ffn_of_first`: gated
// experts beside a shared one have Megatron Core's keys, since Mixtral's have none for it.
void give_shared_expert(RowJob& made) {
  const auto count = made.facts.find("shared_experts");
  const auto expert = made.row.integer(Column::ffn_hidden);
  constexpr long long most_shared = 64;
  const long long experts = count == made.facts.end() ? 0 : std::strtoll(count->second.c_str(), nullptr, 10);
  if (experts > 0 && experts <= most_shared && expert &&
      static_cast<double>(*expert) < most_counted / most_shared)
    made.facts.emplace("shared_expert", fmt::format("{}", experts * *expert));
  const auto width = made.facts.find("shared_expert");
  const bool has_experts = made.row.integer(Column::n_experts).value_or(0) > 1;
  if (width == made.facts.end() || made.job.has("model.from") || !has_experts) return;
  made.facts["keys"] = "megatron";
  made.job.set("model.model_type", "gpt");
  made.job.set("model.swiglu", "true");
  made.job.set("model.moe_shared_expert_intermediate_size", width->second);
  made.job.set_if_absent("model.disable_bias_linear", "true");
  made.job.set_if_absent("model.normalization", "RMSNorm");
  made.job.set_if_absent("model.position_embedding_type", "rope");
  made.job.set_if_absent("model.untie_embeddings_and_output_weights", "true");
  const auto dense = made.facts.find("dense_ffn_of_first");
  if (dense == made.facts.end()) return;
  made.job.set_if_absent("model.first_k_dense_replace", "1");
  made.job.set_if_absent("model.ffn_hidden_size", dense->second);
}

const FamilyKeys& keys_named(const std::string& name) {
  for (const FamilyKeys& family : families)
    if (family.name == name) return family;
  return families.front();
}

class ModelBlock {
 public:
  explicit ModelBlock(RowJob& made)
      : made_(made),
        family_(keys_named(made.facts.contains("keys") ? made.facts.at("keys") : "")),
        has_preset_(made.job.has("model.from")) {}

  void write() {
    forget_absent_prediction();
    write_dense_layers();
    put(family_.layers, Column::layers);
    put(family_.hidden, Column::hidden);
    put(family_.heads, Column::heads);
    put(family_.kv_heads, Column::kv_heads);
    put(family_.vocab, Column::vocab);
    write_named_width();
    write_head_size();
    if (made_.row[Column::n_experts].empty())
      write_ffn(family_.ffn);
    else
      write_experts();
    write_tying();
    const std::string positions = std::string("model.") + family_.positions;
    if (*family_.positions != '\0' && !has_preset_)
      made_.job.set_if_absent(positions, made_.row[Column::seq_len]);
  }

 private:
  // "No MTP", of a family that has none anyway.
  void forget_absent_prediction() {
    const std::string key = "model.num_nextn_predict_layers";
    if (made_.job.value(key) == "0" && family_.name != "deepseek") made_.job.erase(key);
  }

  // DeepSeek's key of the first layers that have no experts, in the family's own words.
  void write_dense_layers() {
    const std::string first = made_.job.value("model.first_k_dense_replace");
    if (first.empty() || family_.name == "deepseek" || has_preset_) return;
    made_.job.erase("model.first_k_dense_replace");
    const std::int64_t dense = std::atoll(first.c_str()),
                       layers = made_.row.integer(Column::layers).value_or(0);
    if (family_.name == "megatron" && dense > 0 && dense < layers)
      made_.job.set("model.moe_layer_freq", fmt::format("\"[0]*{}+[1]*{}\"", dense, layers - dense));
    else
      made_.assumed.emplace_back("experts in all layers");
  }

  void write_tying() {
    const auto tied = made_.facts.find("tied");
    if (tied == made_.facts.end()) return;
    const bool is_tied = tied->second == "yes";
    if (family_.name == "megatron")
      made_.job.set("model.untie_embeddings_and_output_weights", is_tied ? "false" : "true");
    else
      made_.job.set("model.tie_word_embeddings", is_tied ? "true" : "false");
  }

  void put(const char* key, Column column) {
    if (*key != '\0' && !made_.row[column].empty())
      made_.job.set(std::string("model.") + key, made_.row[column]);
  }

  void write_ffn(const char* key) {
    if (*key == '\0') return;
    if (made_.row[Column::ffn_hidden].empty() && !has_preset_) {
      if (family_.name == "hf") assume_gated_width();
      if (family_.name == "megatron" && !made_.job.has("model.swiglu") &&
          !made_.job.has("model.ffn_hidden_size"))
        assume_megatrons_width();
      if (family_.name == "neox") assume_megatrons_width();
    }
    put(key, Column::ffn_hidden);
  }

  // The fact `head_dim`, of families that have a key for it.
  void write_head_size() {
    const auto named = made_.facts.find("head_dim");
    if (named == made_.facts.end() || has_preset_ || std::atoll(named->second.c_str()) < 1) return;
    const std::string type = made_.job.value("model.model_type");
    if (family_.name == "megatron") made_.job.set_if_absent("model.kv_channels", named->second);
    for (const char* of : {"llama", "mistral", "mixtral", "qwen3", "qwen3_moe", "gemma2"})
      if (type == of) made_.job.set_if_absent("model.head_dim", named->second);
  }

  // The fact `ffn_per_hidden`.
  void write_named_width() {
    const auto named = made_.facts.find("ffn_per_hidden");
    const auto hidden = made_.row.integer(Column::hidden);
    if (named == made_.facts.end() || !hidden || !made_.row[Column::ffn_hidden].empty()) return;
    assume_width(*hidden * std::atoll(named->second.c_str()));
  }

  // Llama's: 8/3 of the hidden size, up to a multiple of 256.
  void assume_gated_width() {
    const auto hidden = made_.row.integer(Column::hidden);
    if (hidden) assume_width((8 * *hidden / 3 + 255) / 256 * 256);
  }

  // Megatron-LM's default, and GPT-NeoX's.
  void assume_megatrons_width() {
    if (const auto hidden = made_.row.integer(Column::hidden)) assume_width(4 * *hidden);
  }

  void assume_width(std::int64_t width) {
    made_.row[Column::ffn_hidden] = fmt::format("{}", width);
    made_.assumed.push_back("ffn_hidden=" + made_.row[Column::ffn_hidden]);
  }

  void write_experts() {
    put(family_.experts, Column::n_experts);
    put(family_.topk, Column::topk);
    const auto dense = made_.facts.find("dense_ffn");  // of a preset whose layers have both
    if (dense == made_.facts.end() || dense->second != made_.row[Column::ffn_hidden])
      put(family_.expert_ffn, Column::ffn_hidden);
    if (family_.name == "megatron" && !made_.job.has("model.ffn_hidden_size"))
      put(family_.ffn, Column::ffn_hidden);
    if (family_.name == "qwen_moe" && !has_preset_)
      made_.job.set_if_absent("model.intermediate_size", made_.row[Column::ffn_hidden]);
  }

  RowJob& made_;
  const FamilyKeys& family_;
  bool has_preset_;
};

}  // namespace

std::string keys_of(const std::string& model_type) {
  static const std::map<std::string, std::string> spellings = {{"bloom", "bloom"},
                                                               {"deepseek_v2", "deepseek"},
                                                               {"deepseek_v3", "deepseek"},
                                                               {"gemma2", "hf"},
                                                               {"gpt", "megatron"},
                                                               {"gpt2", "gpt2"},
                                                               {"gpt_neox", "neox"},
                                                               {"gpt_oss", "mixtral"},
                                                               {"grok-1", "grok"},
                                                               {"llama", "hf"},
                                                               {"mistral", "hf"},
                                                               {"mixtral", "mixtral"},
                                                               {"mpt", "mpt"},
                                                               {"nemotron", "hf"},
                                                               {"opt", "opt"},
                                                               {"phi3", "hf"},
                                                               {"phimoe", "mixtral"},
                                                               {"qwen2", "hf"},
                                                               {"qwen2_moe", "qwen_moe"},
                                                               {"qwen3", "hf"},
                                                               {"qwen3_5_moe_text", "qwen_moe"},
                                                               {"qwen3_5_text", "hf"},
                                                               {"qwen3_moe", "qwen_moe"},
                                                               {"qwen3_next", "qwen_moe"}};
  const auto found = spellings.find(model_type);
  return found == spellings.end() ? "none" : found->second;
}

void write_model(RowJob& made) {
  give_shared_expert(made);
  gate_by_size(made);
  give_llama_experts(made);
  ModelBlock(made).write();
}

}  // namespace simrun
