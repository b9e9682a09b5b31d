#include "validation/dimensions_by_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>

#include "validation/named_size.h"
#include "validation/row_cells.h"
#include "validation/row_defaults.h"
#include "validation/text_pattern.h"

namespace simrun {
namespace {

struct SizedModel {
  double parameters;
  std::int64_t hidden;
};

// GPT-3 13B's 5,140 as 40 heads of 128; of 33 B and 65 B LLaMA's (Touvron et al. 2023, arXiv 2302.13971,
// table 2).
constexpr std::array<SizedModel, 13> models{{{125e6, 768},
                                             {350e6, 1024},
                                             {760e6, 1536},
                                             {1.3e9, 2048},
                                             {2.7e9, 2560},
                                             {6.7e9, 4096},
                                             {13e9, 5120},
                                             {32.5e9, 6656},
                                             {65.2e9, 8192},
                                             {175e9, 12288},
                                             {310e9, 16384},
                                             {530e9, 20480},
                                             {1e12, 25600}}};

std::int64_t hidden_size_of(double parameters) {
  const auto distance = [&](const SizedModel& of) { return std::abs(std::log(of.parameters / parameters)); };
  return std::ranges::min_element(models, {}, distance)->hidden;
}

// At most as many as there are layers anywhere.
std::int64_t stages_in(const RowJob& made, Column column) {
  return std::clamp<std::int64_t>(made.row.integer(column).value_or(1), 1, most_layers);
}

// Models whose size is not that of one stack of alike layers, or no decoder's.
bool is_of_another_kind(const std::string& name) {
  constexpr std::array<const char*, 28> kinds{
      "MoE",     "expert", "mixture",  "-A{#}B",  " A{#}B",    "16E",    "Llama-4",
      "Llama 4", "Llama4", "hybrid",   "Mamba",   "VL",        "vision", "visual",
      "image",   "video",  "modal",    "Omni",    "audio",     "speech", "MiniGPT",
      "ViT-",    "Swin",   "DenseNet", "encoder", "diffusion", "BERT",   "T5"};
  return std::ranges::any_of(kinds, [&](const char* kind) { return matched(kind, name).has_value(); });
}

// Tables of words: Llama and GPT-NeoX have one for input and one for output unless the row says otherwise.
double tables_of(const RowJob& made) {
  const auto tied = made.facts.find("tied");
  if (tied != made.facts.end()) return tied->second == "yes" ? 1 : 2;
  const std::string key = made.job.value("model.tie_word_embeddings");
  if (!key.empty()) return key == "true" ? 1 : 2;
  const std::string type = made.job.value("model.model_type");
  return type == "llama" || type == "gpt_neox" ? 2 : 1;
}

// Layers of 12 h^2 parameters, whose MLPs have two matrices of 4 h or three of 8/3 h, beside the tables of
// words. Nothing where whole stages, or the tables alone, make another model of it.
std::optional<std::int64_t> layers_of(const RowJob& made, double parameters, std::int64_t hidden) {
  constexpr double most_off = 0.3;
  const double width = static_cast<double>(hidden), layer = 12 * width * width;
  const double words = static_cast<double>(made.row.integer(Column::vocab).value_or(usual_vocabulary));
  const double tables = tables_of(made) * words * width;
  const std::int64_t stages = stages_in(made, Column::pp) * stages_in(made, Column::vpp);
  const double of_stage = (parameters - tables) / layer / static_cast<double>(stages);
  const std::int64_t layers = std::max<std::int64_t>(std::llround(of_stage), 1) * stages;
  const double made_of = tables + layer * static_cast<double>(layers);
  const bool is_of_size = std::abs(made_of / parameters - 1) <= most_off;
  return is_of_size && layers <= most_layers ? std::optional(layers) : std::nullopt;
}

}  // namespace

void assume_dimensions(RowJob& made) {
  const bool is_open = made.row[Column::layers].empty() && made.row[Column::hidden].empty();
  if (!is_open || !made.facts.contains("sized") || made.job.has("model.from")) return;
  if (!made.row[Column::n_experts].empty() || !made.row[Column::ffn_hidden].empty()) return;
  const std::string& name = made.row[Column::model];
  const std::optional<double> parameters = parameters_named(name);
  if (!parameters || is_of_another_kind(name)) return;
  if (*parameters < models.front().parameters / 2 || *parameters > models.back().parameters * 2) return;
  const std::int64_t hidden = hidden_size_of(*parameters);
  const std::optional<std::int64_t> layers = layers_of(made, *parameters, hidden);
  if (!layers || hidden % made.row.integer(Column::heads).value_or(1) != 0) return;
  assume(made, Column::layers, fmt::format("{}", *layers));
  assume(made, Column::hidden, fmt::format("{}", hidden));
}

}  // namespace simrun
