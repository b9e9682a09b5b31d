#include "validation/row_cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "configs/limits.h"
#include "validation/cell_words.h"
#include "validation/link_text.h"
#include "validation/text_pattern.h"

namespace simrun {
namespace {

constexpr std::array sizes{Column::gpus_per_node,
                           Column::n_gpus,
                           Column::layers,
                           Column::hidden,
                           Column::heads,
                           Column::kv_heads,
                           Column::ffn_hidden,
                           Column::vocab,
                           Column::seq_len,
                           Column::n_experts,
                           Column::topk,
                           Column::tp,
                           Column::pp,
                           Column::vpp,
                           Column::dp,
                           Column::cp,
                           Column::ep,
                           Column::micro_batch,
                           Column::global_batch};

constexpr std::array split_sizes{Column::tp, Column::pp, Column::cp, Column::dp, Column::ep};

std::string name_of(Column column) { return column_names()[static_cast<std::size_t>(column)]; }

// A model without experts, as some tables print it.
void clear_no_experts(MeasuredRow& row) {
  if (row[Column::n_experts] == "0") row[Column::n_experts].clear();
  if (!row[Column::n_experts].empty()) return;
  for (const Column column : {Column::topk, Column::ep})
    if (row[column] == "0") row[column].clear();
}

void read_size(MeasuredRow& row, Column column) {
  std::string& cell = row[column];
  if (cell.empty()) return;
  std::string digits = without_thousands(cell);
  for (const std::string_view unit : {" gpus", " GPUs", " gpu", " GPU"})
    if (column == Column::n_gpus && digits.ends_with(unit)) digits.resize(digits.size() - unit.size());
  double number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool is_number = error == std::errc() && end == digits.data() + digits.size();
  if (is_number && number >= 1 && number <= most_counted && number == std::floor(number))
    cell = fmt::format("{}", static_cast<std::int64_t>(number));
  else if (row.fault.empty())
    row.fault = fmt::format("{} '{}' is no positive whole number", name_of(column), cell);
}

// So many ranks that their number is none of any machine's; without them what is left can be counted.
void refuse_endless_ranks(MeasuredRow& row) {
  double ranks = 1;
  for (const Column column : split_sizes) ranks *= row.number(column).value_or(1);
  if (ranks <= static_cast<double>(limits::parallel.most)) return;
  if (row.fault.empty())
    row.fault =
        fmt::format("its parallel sizes multiply to {:.3g} ranks, and {} are the most that a job may have",
                    ranks, limits::parallel.most);
  for (const Column column : split_sizes) row[column].clear();
}

void read_word(MeasuredRow& row, Column column) {
  std::string& cell = row[column];
  if (cell.empty()) return;
  if (std::optional<std::string> word = known_word(column, cell))
    cell = std::move(*word);
  else if (row.fault.empty())
    row.fault = fmt::format("{} '{}' is none of {}", name_of(column), cell, accepted_words(column));
}

}  // namespace

std::string without_thousands(const std::string& text) {
  const std::size_t first = text.find(',');
  if (first == std::string::npos || first == 0 || first > 3 || text.front() == '0') return text;
  const std::size_t end = std::min(text.find('.'), text.size());
  if ((end - first) % 4 != 0) return text;
  std::string digits;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool is_comma = at >= first && at < end && (at - first) % 4 == 0;
    if (is_comma != (text[at] == ',')) return text;
    if (!is_comma && !is_digit(text[at]) && at != end) return text;
    if (!is_comma) digits += text[at];
  }
  return digits;
}

MeasuredRow plain_cells(MeasuredRow row) {
  for (std::string& cell : row.cells)
    if (is_blank_word(cell)) cell.clear();
  clear_no_experts(row);
  for (const Column column : sizes) read_size(row, column);
  refuse_endless_ranks(row);
  for (std::size_t column = 0; column < column_count; ++column)
    if (has_words(static_cast<Column>(column))) read_word(row, static_cast<Column>(column));
  if (const auto layers = row.integer(Column::layers); row.fault.empty() && layers && *layers > most_layers)
    row.fault = fmt::format("layers '{}' are more than the {} that a row may have", *layers, most_layers);
  return row;
}

std::string recomputed_modules_in(const std::string& cell) {
  constexpr std::array<std::string_view, 7> known{"core_attn", "moe_act", "layernorm",     "mla_up_proj",
                                                  "mlp",       "moe",     "shared_experts"};
  if (!cell.starts_with("selective")) return "";
  std::string modules, word;
  for (const char c : cell + " ") {
    if (std::islower(static_cast<unsigned char>(c)) != 0 || c == '_') {
      word += c;
      continue;
    }
    if (std::ranges::find(known, word) != known.end()) modules += (modules.empty() ? "" : ", ") + word;
    word.clear();
  }
  return modules.empty() ? "" : "[" + modules + "]";
}

RecomputedLayers recomputed_layers_in(const std::string& cell) {
  const std::string text = lower_case(cell);
  RecomputedLayers layers;
  const auto number = [](const std::string& digits) {
    return std::clamp<std::int64_t>(std::strtoll(digits.c_str(), nullptr, 10), 0, most_layers);
  };
  for (const char* block : {"block {#} layer", "block, {#} layer", "block ({#} layer", "block of {#} layer",
                            "block*num_layers={#}", "block*num_layers {#}"})
    if (const auto digits = matched(block, text)) layers.of_stage = number(*digits);
  if (layers.of_stage > 0) return layers;
  for (const char* half : {"half of the layers", "half of layers", "half the layers", "every 2nd layer",
                           "every second layer", "every other layer", "every two layers"})
    if (matched(half, text)) layers.share = "1/2";
  for (const char* third : {"every 3rd layer", "every third layer", "every three layers"})
    if (matched(third, text)) layers.share = "1/3";
  for (const char* percent : {"{#}% of layers", "{#}% of the layers", "{#}% of all layers"})
    if (const auto digits = matched(percent, text); digits && number(*digits) > 0 && number(*digits) < 100)
      layers.share = fmt::format("{}/100", number(*digits));
  const auto part = matched("{#} of", text), whole = matched("of {#} layer", text);
  if (part && whole && matched(*part + " of " + *whole, text) && number(*part) > 0 &&
      number(*part) < number(*whole))
    layers.share = fmt::format("{}/{}", number(*part), number(*whole));
  return layers;
}

std::int64_t chunks_in(const std::string& schedule) {
  for (const char* pattern : {"v={#}", "v = {#}", "vpp={#}", "vpp {#}", "vp={#}", "vp {#}", "{#} chunk",
                              "{#} model chunk", "{#} virtual"})
    if (const auto number = said(pattern, schedule))
      if (const std::int64_t chunks = std::strtoll(number->c_str(), nullptr, 10);
          chunks > 0 && chunks <= most_layers)
        return chunks;
  return 0;
}

std::optional<std::string> without_label_token(const std::string& seq_len) {
  std::int64_t tokens = 0;
  const auto [end, error] = std::from_chars(seq_len.data(), seq_len.data() + seq_len.size(), tokens);
  const bool is_whole = error == std::errc() && end == seq_len.data() + seq_len.size();
  if (!is_whole || tokens <= 1024 || !std::has_single_bit(static_cast<std::uint64_t>(tokens - 1)))
    return std::nullopt;
  return fmt::format("{}", tokens - 1);
}

std::string contradiction_of_sizes(const MeasuredRow& row) {
  const auto gpus = row.integer(Column::n_gpus), data = row.integer(Column::dp);
  if (!gpus || !data) return "";
  double product = 1;
  std::string named;
  for (const Column column : {Column::tp, Column::pp, Column::cp, Column::dp}) {
    const std::int64_t size = row.integer(column).value_or(1);
    product *= static_cast<double>(size);
    if (size != 1 || column == Column::dp)
      named += fmt::format("{}{} {}", named.empty() ? "" : " x ", name_of(column), size);
  }
  if (product == static_cast<double>(*gpus)) return "";
  return fmt::format("{} are {:.10g} GPUs, and n_gpus is {}", named, product, *gpus);
}

}  // namespace simrun
