#include "validation/dimensions_by_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "validation/named_size.h"
#include "validation/row_cells.h"
#include "validation/row_defaults.h"

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

// Layers of 12 h^2 parameters, whose MLPs have two matrices of 4 h or three of 8/3 h, beside the vocabulary's
// table, of which Llama has two.
std::int64_t layers_of(const RowJob& made, double parameters, std::int64_t hidden) {
  const double width = static_cast<double>(hidden);
  const double tables = made.job.value("model.model_type") == "llama" ? 2 : 1;
  const double words = static_cast<double>(made.row.integer(Column::vocab).value_or(usual_vocabulary));
  const double layers = (parameters - tables * words * width) / (12 * width * width);
  const std::int64_t stages = stages_in(made, Column::pp) * stages_in(made, Column::vpp);
  return std::max<std::int64_t>(std::llround(layers / static_cast<double>(stages)), 1) * stages;
}

}  // namespace

void assume_dimensions(RowJob& made) {
  const bool is_open = made.row[Column::layers].empty() && made.row[Column::hidden].empty();
  if (!is_open || !made.facts.contains("sized") || made.job.has("model.from")) return;
  if (!made.row[Column::n_experts].empty() || !made.row[Column::ffn_hidden].empty()) return;
  const std::optional<double> parameters = parameters_named(made.row[Column::model]);
  if (!parameters || *parameters < models.front().parameters / 4 ||
      *parameters > models.back().parameters * 4)
    return;
  const std::int64_t hidden = hidden_size_of(*parameters);
  const std::int64_t layers = layers_of(made, *parameters, hidden);
  if (layers > most_layers) return;
  assume(made, Column::layers, fmt::format("{}", layers));
  assume(made, Column::hidden, fmt::format("{}", hidden));
}

}  // namespace simrun
