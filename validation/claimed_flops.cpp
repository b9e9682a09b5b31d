#include "validation/claimed_flops.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>

#include "models/flops.h"
#include "validation/link_text.h"
#include "validation/measured_row.h"

namespace simrun {
namespace {

struct Sizes {
  double tokens, s, layers, h, vocab, parameters, embedding;
  bool tied;
};

// Of attention and an MLP, half of either where they are layers of their own.
double whole_layers(const ModelConfig& model) {
  const auto all = static_cast<double>(model.num_layers);
  return model.is_hybrid() ? all / 2 : all;
}

Sizes sizes_of(const Job& job, const Summary& summary) {
  const ModelConfig& model = job.model;
  const auto s = static_cast<double>(job.training.seq_length);
  const auto h = static_cast<double>(model.hidden_size), vocab = static_cast<double>(model.vocab_size);
  return {s * static_cast<double>(job.training.global_batch_size),
          s,
          whole_layers(model),
          h,
          vocab,
          static_cast<double>(summary.parameters),
          vocab * h,
          model.tie_word_embeddings};
}

double score_width(const ModelConfig& model) {
  const auto heads = static_cast<double>(model.num_attention_heads);
  if (model.mla.kv_lora_rank > 0)
    return heads *
           static_cast<double>(model.mla.qk_nope_head_dim + model.mla.qk_rope_head_dim +
                               model.mla.v_head_dim) /
           2;
  return heads * static_cast<double>(model.head_dim);
}

bool attends(LayerContent content) {
  return content == LayerContent::attention || content == LayerContent::attention_and_mlp;
}

bool has_window(const Job& job, std::int64_t layer) {
  const std::int64_t window = job.model.attention_window(layer);
  return window > 0 && window < job.training.seq_length;
}

// Products of scores and values, forward and backward, take 12 (heads x head_dim) per token and key: half of
// them in the layers without a window.
double half_of_scores(const Job& job) {
  const auto s = static_cast<double>(job.training.seq_length);
  double keys = 0;
  for (std::int64_t layer = 0; layer < job.model.num_layers; ++layer)
    if (!has_window(job, layer) && attends(job.model.layer_content(layer))) keys += s;
  for (const LayerKind& kind : job.model.further_layers)
    if (attends(kind.content)) keys += s * static_cast<double>(job.model.num_nextn_predict_layers);
  return 6 * keys * score_width(job.model) * s * static_cast<double>(job.training.global_batch_size);
}

// Layers of a kind, those that predict further tokens included.
double layers_of(const ModelConfig& model, LayerContent content) {
  double layers = 0;
  for (std::int64_t layer = 0; layer < model.num_layers; ++layer)
    if (model.layer_content(layer) == content) ++layers;
  for (const LayerKind& kind : model.further_layers)
    if (kind.content == content) layers += static_cast<double>(model.num_nextn_predict_layers);
  return layers;
}

// Megatron-LM counts a Mamba layer as twice as wide as the model, whatever its heads are
// (training/training.py, mamba_layer_flops): what that is more than its own width.
double wider_scans(const Job& job) {
  const ModelConfig& model = job.model;
  if (!model.mamba.on()) return 0;
  const auto hidden = static_cast<double>(model.hidden_size);
  const double wider = 2 * hidden - static_cast<double>(model.mamba.inner_size());
  const double per_token =
      6 * hidden * wider + scan_operations * wider * static_cast<double>(model.mamba.state_dim);
  return 3 * per_token * layers_of(model, LayerContent::mamba) *
         static_cast<double>(job.training.seq_length) * static_cast<double>(job.training.global_batch_size);
}

// As Megatron-Bridge counted models with windows and with gates other than SiLU: half the scores of whole
// attention in every layer, and of gated experts two matrices.
double causal_whole_no_gates(const Job& job, const Summary& summary) {
  const ModelConfig& model = job.model;
  const auto s = static_cast<double>(job.training.seq_length);
  const double tokens = s * static_cast<double>(job.training.global_batch_size);
  double flops = summary.model_flops_per_step;
  for (std::int64_t layer = 0; layer < model.num_layers; ++layer) {
    const double keys = has_window(job, layer) ? static_cast<double>(model.attention_window(layer)) : s;
    flops += (6 * s - 12 * keys) * score_width(model) * tokens;
    if (model.experts.in_layer(layer))
      flops -= 6 * tokens * static_cast<double>(model.experts.topk * model.hidden_size) *
               static_cast<double>(model.experts.ffn_hidden_size);
  }
  return flops;
}

double transformer(const Sizes& n, double factor, double scores) {
  return factor * n.tokens * n.layers * n.h * n.h * (1 + n.s / (scores * n.h));
}

// MLPs of 8 h in every second layer; in the others two experts of a token, router, gating and masks.
double alpa_experts(const Sizes& n, const Job& job, double passes) {
  const double attention = 8 * n.h * n.h + 4 * n.s * n.h,
               experts = static_cast<double>(job.model.experts.count);
  const double group = static_cast<double>(job.moe.group_size);
  const double dense = attention + 32 * n.h * n.h;
  const double routed = attention + 64 * n.h * n.h + 2 * n.h * experts + 4 * group + 8 * n.h * group;
  return passes * n.tokens * n.layers / 2 * (dense + routed);
}

// 6 N D of the parameters that a token passes.
double per_parameter(const Sizes& n, const Job& job, const Summary& summary) {
  if (job.model.experts.count > 0) return summary.model_flops_per_step - 2 * half_of_scores(job);
  return 6 * n.parameters * n.tokens;
}

// Behind signs of multiplication and blanks.
std::size_t behind_signs(const std::string& text, std::size_t at) {
  constexpr std::array<const char*, 4> signs{" ", "*", "\xC2\xB7", "\xC3\x97"};
  for (std::size_t s = 0; s < signs.size();) {
    const std::string sign = signs[s];
    const bool is_here = text.compare(std::min(at, text.size()), sign.size(), sign) == 0;
    if (is_here) at += sign.size();
    s = is_here ? 0 : s + 1;
  }
  return at;
}

// "(forward 4 times)", not "(1 + s/6h)".
bool is_remark(const std::string& text, std::size_t at) {
  constexpr std::size_t a_word = 3;
  return text[at] == '(' && text[at - 1] == ' ' && at + a_word < text.size() &&
         std::all_of(text.begin() + static_cast<std::ptrdiff_t>(at + 1),
                     text.begin() + static_cast<std::ptrdiff_t>(at + 1 + a_word),
                     [](unsigned char c) { return std::isalpha(c) != 0; });
}

// Whether N and what it is multiplied with, if anything, stand at `at` and end the formula.
bool ends_with_parameters(const std::string& text, std::size_t at) {
  if (at >= text.size() || text[at] != 'n') return false;
  std::size_t end = ++at;
  for (const std::string tokens : {"tokens", "d", "t"})
    if (text.compare(std::min(behind_signs(text, at), text.size()), tokens.size(), tokens) == 0) {
      end = behind_signs(text, at) + tokens.size();
      break;
    }
  const auto is_part = [&](std::size_t of) {
    return of < text.size() && (std::isalnum(static_cast<unsigned char>(text[of])) != 0 || text[of] == '_');
  };
  if (is_part(end)) end = at;
  const std::size_t next = behind_signs(text, end);
  const bool multiplies = text.substr(end, next - end).find_first_not_of(' ') != std::string::npos;
  if (multiplies && is_part(next)) return false;
  constexpr std::string_view goes_on = "+-(";
  return !is_part(end) &&
         (next >= text.size() || goes_on.find(text[next]) == std::string_view::npos || is_remark(text, next));
}

}  // namespace

std::string flops_formula_in(const std::string& words) {
  std::string text = lower_case(words);
  for (const std::string name : {"parameters", "params"})
    for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1))
      text.replace(at, name.size(), "n");
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '6' && text[at] != '8') continue;
    const bool is_number = at == 0 || (std::isalnum(static_cast<unsigned char>(text[at - 1])) == 0 &&
                                       text[at - 1] != '.' && text[at - 1] != '*');
    const std::size_t before = text.find_last_not_of(' ', at - std::min<std::size_t>(at, 1));
    const bool is_first =
        at == 0 || before == std::string::npos || (text[before] != '+' && text[before] != '-');
    if (is_number && is_first && ends_with_parameters(text, behind_signs(text, at + 1)))
      return std::string(1, text[at]) + "nd";
  }
  return "";
}

double claimed_flops(const std::map<std::string, std::string>& facts, const Job& job,
                     const Summary& summary) {
  const auto found = facts.find("flops");
  const std::string kind = found == facts.end() ? "" : found->second;
  const Sizes n = sizes_of(job, summary);
  const double head = 6 * n.tokens * n.embedding;
  const double scores = 12 * n.layers * n.h * n.s * n.tokens;
  if (kind == "hardware_96") return transformer(n, 96, 6) + head;
  if (kind == "model_72") return transformer(n, 72, 6) + head;
  if (kind == "hardware_72") return transformer(n, 72, 3) + head;
  if (kind == "alpa_96") return transformer(n, 96, 6) + head;
  if (kind == "alpa_72") return transformer(n, 72, 6) + head;
  if (kind == "alpa_moe_4") return alpa_experts(n, job, 4) + head;
  if (kind == "alpa_moe_3") return alpa_experts(n, job, 3) + head;
  if (kind == "6n") return 6 * n.parameters * n.tokens + scores;
  if (kind == "6n_both") return 6 * (n.parameters + (n.tied ? n.embedding : 0)) * n.tokens + scores;
  if (kind == "6n_no_embedding") return 6 * (n.parameters - (n.tied ? 0 : n.embedding)) * n.tokens + scores;
  if (kind == "6nd") return per_parameter(n, job, summary);
  if (kind == "8nd") return per_parameter(n, job, summary) * 8 / 6;
  if (kind == "hardware") return summary.hardware_flops_per_step;
  if (kind == "layers_8n") return 8 * 12 * n.layers * n.h * n.h * n.tokens;
  if (kind == "causal") return summary.model_flops_per_step - half_of_scores(job) + wider_scans(job);
  if (kind == "causal_whole_no_gates") return causal_whole_no_gates(job, summary);
  if (kind == "model_4_3") return summary.model_flops_per_step * 4 / 3;
  return summary.model_flops_per_step;
}

double claimed_peak(const std::map<std::string, std::string>& facts, const Job& job) {
  const auto& peaks = job.cluster.gpu.peak_flops;
  const auto peak_of = [&](Dtype type) { return peaks.contains(type) ? peaks.at(type) : 0; };
  const auto found = facts.find("peak");
  if (found != facts.end() && found->second == "bf16") return peak_of(Dtype::bf16);
  if (found != facts.end()) return std::strtod(found->second.c_str(), nullptr) * 1e12;
  return peak_of(job.training.fp8 ? operand_dtype(job.training.fp8->recipe) : job.training.precision);
}

}  // namespace simrun
