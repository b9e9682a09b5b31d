#include "cli/sweep_values.h"

#include <fmt/format.h>

#include <cstdint>
#include <utility>

namespace simrun {
namespace {

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// Where in YAML flow text one is: how deep in brackets, and in which quotes.
struct FlowState {
  std::string open;  // the closing brackets that are awaited
  char quote = 0;
  char last = ',';  // last character that is no space; quotes open only where a value may begin
  bool is_valid = true;

  bool is_top_level() const { return open.empty() && quote == 0; }
  bool is_value_start() const { return last == ',' || last == '[' || last == '{' || last == ':'; }

  void read(char c) {
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if ((c == '"' || c == '\'') && is_value_start()) {
      quote = c;
    } else if (c == '[' || c == '{') {
      open += c == '[' ? ']' : '}';
    } else if (c == ']' || c == '}') {
      is_valid = is_valid && !open.empty() && open.back() == c;
      if (!open.empty()) open.pop_back();
    }
    if (c != ' ' && c != '\t') last = c;
  }
};

// "2..16" -> 2, 4, 8, 16: a whole number, doubled as long as it is no more than the other. What is no such
// range stands for itself.
void add_range(const std::string& value, std::vector<std::string>& values) {
  const std::size_t dots = value.find("..");
  const auto number = [](const std::string& digits) {
    const bool is_one =
        !digits.empty() && digits.size() <= 15 && digits.find_first_not_of("0123456789") == std::string::npos;
    return is_one ? std::stoll(digits) : 0;
  };
  const std::int64_t from = dots == std::string::npos ? 0 : number(value.substr(0, dots));
  const std::int64_t to = dots == std::string::npos ? 0 : number(value.substr(dots + 2));
  if (from == 0 || to < from) return values.push_back(value);
  for (std::int64_t at = from; at <= to; at *= 2) values.push_back(std::to_string(at));
}

}  // namespace

std::optional<std::vector<std::string>> split_values(const std::string& text) {
  std::vector<std::string> values;
  std::string value;
  FlowState state;
  const auto end_value = [&] {
    const std::string whole = trimmed(std::exchange(value, ""));
    add_range(whole, values);
    return !whole.empty();
  };
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == ',' && state.is_top_level() && !end_value()) return std::nullopt;
    if (c != ',' || !state.is_top_level()) value += c;
    const char next = at + 1 < text.size() ? text[at + 1] : '\0';
    const bool is_escaped =
        (state.quote == '"' && c == '\\' && next != 0) || (state.quote == '\'' && c == '\'' && next == c);
    if (is_escaped)
      value += text[++at];
    else
      state.read(c);
  }
  if (!end_value() || !state.is_valid || !state.is_top_level()) return std::nullopt;
  return values;
}

std::string fault_of(const std::optional<std::vector<std::string>>& values) {
  if (!values) return "a value is empty, or a bracket or quote is not closed";
  for (const std::string& value : *values) {
    const std::size_t dots = value.find("..");
    const bool is_range =
        dots != std::string::npos && dots > 0 && dots + 2 < value.size() &&
        (value.substr(0, dots) + value.substr(dots + 2)).find_first_not_of("0123456789") == std::string::npos;
    if (is_range)
      return fmt::format("{} is no range: one doubles a number from 1 on up to another, as 1..8", value);
  }
  return "";
}

std::size_t points_of(const std::vector<SweepKey>& keys) {
  std::size_t points = 1;
  for (const SweepKey& key : keys) points *= key.values.size();
  return points;
}

bool is_small_enough(const std::vector<SweepKey>& keys) {
  std::size_t points = 1;
  for (const SweepKey& key : keys) {
    if (key.values.size() > most_sweep_points / points) return false;
    points *= key.values.size();
  }
  return true;
}

std::vector<std::string> values_of_point(const std::vector<SweepKey>& keys, std::size_t point) {
  std::vector<std::string> values(keys.size());
  for (std::size_t k = keys.size(); k-- > 0;) {
    values[k] = keys[k].values[point % keys[k].values.size()];
    point /= keys[k].values.size();
  }
  return values;
}

}  // namespace simrun
