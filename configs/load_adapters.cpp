// What of a model is trained: frozen parts and low-rank adapters.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "configs/limits.h"
#include "configs/load_sections.h"

namespace simrun {
namespace {

// The other frameworks' words for our operators.
const WordRule& lora_targets() {
  static const auto ours = [](const char* theirs, const char* word) {
    return fmt::format("'{}' is '{}' here", theirs, word);
  };
  static const WordRule rule{{"qkv", "attention_projection", "fc1", "fc2", "q", "k", "v", "mamba_in",
                              "mamba_out", "attention_gate", "delta_in", "delta_gate", "delta_out"},
                             {},
                             {{"linear_qkv", ours("linear_qkv", "qkv")},
                              {"linear_proj", ours("linear_proj", "attention_projection")},
                              {"linear_fc1", ours("linear_fc1", "fc1")},
                              {"linear_fc2", ours("linear_fc2", "fc2")},
                              {"in_proj", ours("in_proj", "mamba_in")},
                              {"out_proj", ours("out_proj", "mamba_out")},
                              {"q_proj", ours("q_proj", "q")},
                              {"k_proj", ours("k_proj", "k")},
                              {"v_proj", ours("v_proj", "v")},
                              {"o_proj", ours("o_proj", "attention_projection")},
                              {"down_proj", ours("down_proj", "fc2")},
                              {"gate_proj", "'gate_proj' and up_proj are one target here, 'fc1'"},
                              {"up_proj", "'up_proj' and gate_proj are one target here, 'fc1'"}}};
  return rule;
}

bool has_word(const std::vector<std::string>& words, const char* word) {
  return std::ranges::find(words, word) != words.end();
}

}  // namespace

void read_lora(SectionReader& section, Reading& reading, Job& job) {
  Training& training = job.training;
  const ConfigNode* node = section.section("lora");
  if (node == nullptr) return;
  SectionReader keys(reading, node, section.path_of("lora"));
  if (keys.is_no_map()) return;
  LoraConfig lora;
  lora.rank = keys.integer("rank", limits::width);
  lora.alpha =
      keys.real("alpha", limits::lora_alpha, static_cast<double>(std::max<std::int64_t>(lora.rank, 1)));
  lora.dropout = keys.real("dropout", limits::probability, 0);
  std::vector<std::string> all{"attention_projection", "fc1", "fc2"};
  if (!job.model.mla.on()) all.insert(all.begin(), "qkv");  // which latent attention has not
  lora.targets = keys.words("targets", lora_targets(), std::move(all));
  keys.ignore({"base_dtype"});
  if (keys.has("base_dtype"))
    lora.nf4_base = keys.word("base_dtype", {{"nf4"}, {"int8", "fp4", "fp8"}}) == "nf4";
  keys.finish();
  if (lora.nf4_base && training.fp8)
    reading.problem(keys.path_of("base_dtype"),
                    "weights in nf4 are multiplied in the type of training, which is fp8 or fp4",
                    "precision: bf16.");
  if (has_word(lora.targets, "qkv"))
    for (const char* part : {"q", "k", "v"})
      if (has_word(lora.targets, part))
        reading.problem(keys.path_of("targets"),
                        fmt::format("'{}' is part of 'qkv', which is listed too", part),
                        "list qkv for one adapter of all three, or q, k and v for one each.");
  training.lora = std::move(lora);
}

void read_frozen(SectionReader& section, Reading& reading, ModelConfig& model) {
  model.frozen = read_scopes(section, reading, "frozen");
  check_scope_layers(model.frozen, model.num_layers, reading);
}

}  // namespace simrun
