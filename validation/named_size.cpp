#include "validation/named_size.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <string>

namespace simrun {
namespace {

bool is_letter_or_digit(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

// "x" or a multiplication sign in UTF-8, behind a digit: "8x7B".
bool is_multiplied(std::string_view name, std::size_t at) {
  if (at > 1 && (name[at - 1] == 'x' || name[at - 1] == 'X')) return is_digit(name[at - 2]);
  return at > 2 && name.substr(at - 2, 2) == "\xC3\x97" && is_digit(name[at - 3]);
}

// 0: no unit of parameters.
double unit_of(char c) {
  switch (std::tolower(static_cast<unsigned char>(c))) {
    case 'm': return 1e6;
    case 'b': return 1e9;
    case 't': return 1e12;
    default: return 0;
  }
}

struct NamedDimensions {
  double layers, hidden, heads, kv_heads, ffn, vocab, experts;
};

std::optional<NamedDimensions> dimensions_of(const MeasuredRow& row) {
  const auto cell = [&](Column column) { return static_cast<double>(row.integer(column).value_or(0)); };
  NamedDimensions of{cell(Column::layers),
                     cell(Column::hidden),
                     cell(Column::heads),
                     cell(Column::kv_heads),
                     cell(Column::ffn_hidden),
                     cell(Column::vocab),
                     std::max(cell(Column::n_experts), 1.0)};
  if (of.layers <= 0 || of.hidden <= 0 || of.ffn <= 0) return std::nullopt;
  if (of.heads <= 0 || of.kv_heads <= 0) of.heads = of.kv_heads = 1;
  return of;
}

// How far the size is from that of a model with MLPs of so many matrices, whose embeddings are one matrix or
// two.
double distance(double named, const NamedDimensions& of, double matrices) {
  const double attention = of.hidden * of.hidden * (2 + 2 * of.kv_heads / of.heads);
  const double mlps = matrices * of.hidden * of.ffn * of.experts;
  const double layers = of.layers * (attention + mlps), embedding = of.vocab * of.hidden;
  const double nearest = std::clamp(named, layers + embedding, layers + 2 * embedding);
  return std::abs(nearest / named - 1);
}

}  // namespace

std::optional<double> parameters_named(std::string_view name) {
  for (std::size_t at = 0; at < name.size(); ++at) {
    if (!is_digit(name[at])) continue;
    std::size_t end = at;
    while (end < name.size() && (is_digit(name[end]) || name[end] == '.')) ++end;
    const bool ends = end < name.size() && unit_of(name[end]) > 0 &&
                      (end + 1 == name.size() || !is_letter_or_digit(name[end + 1]));
    if (ends && is_multiplied(name, at)) return std::nullopt;
    if (ends)
      return std::strtod(std::string(name.substr(at, end - at)).c_str(), nullptr) * unit_of(name[end]);
    at = end;
  }
  return std::nullopt;
}

namespace {

// Whether there are as many with so many matrices, and not with so many others. Names are rounded to a digit
// or two; a third matrix is a quarter of a layer or more. "1B-7B" of experts are a token's and all.
bool has_matrices(const MeasuredRow& row, double matrices, double others) {
  constexpr double near = 0.07, far = 0.15;
  const std::string& name = row[Column::model];
  const auto dimensions = dimensions_of(row);
  if (!dimensions) return false;
  const auto is_near = [&](double size) {
    return distance(size, *dimensions, matrices) <= near && distance(size, *dimensions, others) >= far;
  };
  const auto first = parameters_named(name);
  if (first && is_near(*first)) return true;
  const std::size_t dash = name.find("B-");
  if (dimensions->experts < 2 || !first || dash == std::string::npos) return false;
  const auto second = parameters_named(std::string_view(name).substr(dash + 1));
  return second && is_near(*second);
}

}  // namespace

bool is_gated_by_size(const MeasuredRow& row) { return has_matrices(row, 3, 2); }
bool is_ungated_by_size(const MeasuredRow& row) { return has_matrices(row, 2, 3); }

bool has_width_of_gates(const MeasuredRow& row) {
  const auto hidden = row.integer(Column::hidden), width = row.integer(Column::ffn_hidden);
  if (!hidden || !width || row.integer(Column::n_experts).value_or(0) > 1) return false;
  const double ratio = static_cast<double>(*width) / static_cast<double>(*hidden);
  return ratio >= 2.5 && ratio <= 3;
}

}  // namespace simrun
