#include "validation/link_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "validation/measured_row.h"

namespace simrun {
namespace {

struct Rate {
  std::size_t at = 0;  // of its first digit
  double bytes_per_second = 0;
};

// The unit at `at`, in bytes per second; 0: none. "200Gb HDR" is a rate too. Bytes are told from bits by
// their capital letter.
double unit_at(const std::string& text, std::size_t at) {
  while (at < text.size() && text[at] == ' ') ++at;
  const std::string rest = text.substr(at, 5);
  for (const auto& [start, scale] : {std::pair("GB", 1e9), std::pair("TB", 1e12)})
    if (rest.starts_with(start)) return scale;
  const std::string small = lower_case(rest);
  for (const auto& [start, scale] : {std::pair("gb", 1e9 / 8), std::pair("tb", 1e12 / 8)})
    if (small.starts_with(start)) return scale;
  return 0;
}

// "400G": of the rates that ports have, as "80G" is hardly one.
bool is_port_rate(double number, const std::string& text, std::size_t behind) {
  constexpr std::array<double, 9> rates{10, 25, 40, 50, 56, 100, 200, 400, 800};
  const bool ends =
      behind + 1 >= text.size() || std::isalnum(static_cast<unsigned char>(text[behind + 1])) == 0;
  return behind < text.size() && text[behind] == 'G' && ends &&
         std::ranges::find(rates, number) != rates.end();
}

// The first number with a unit, or else the first bare "400G".
std::optional<Rate> rate_in(const std::string& text) {
  std::optional<Rate> bare;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (!is_digit(text[at]) || (at > 0 && (is_digit(text[at - 1]) || text[at - 1] == '.'))) continue;
    char* end = nullptr;
    const double number = std::strtod(text.c_str() + at, &end);
    const auto behind = static_cast<std::size_t>(end - text.c_str());
    const double unit = unit_at(text, behind);
    if (unit > 0 && number > 0) return Rate{at, number * unit};
    if (!bare && is_port_rate(number, text, behind)) bare = Rate{at, number * 1e9 / 8};
  }
  return bare;
}

// "1,600 Gb/s" without its comma, 'x' for the other signs of multiplication, and " per node" for "/node".
std::string plain_text(std::string text) {
  for (const char* whole : {"/node", "/gpu", "/GPU"})
    for (std::size_t at = text.find(whole); at != std::string::npos; at = text.find(whole, at))
      text.replace(at, 1, " per ");
  for (std::size_t at = text.find("\xC3\x97"); at != std::string::npos; at = text.find("\xC3\x97", at))
    text.replace(at, 2, "x");
  std::string plain;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool is_between_digits = at > 0 && is_digit(text[at - 1]) && at + 3 < text.size() &&
                                   is_digit(text[at + 1]) && is_digit(text[at + 3]);
    if (text[at] == '*')
      plain += 'x';
    else if (text[at] != ',' || !is_between_digits)
      plain += text[at];
  }
  return plain;
}

std::vector<std::string> tokens_of(const std::string& small) {
  std::vector<std::string> tokens{""};
  for (const char c : small)
    if (std::isspace(static_cast<unsigned char>(c)) == 0 && std::string("(),;").find(c) == std::string::npos)
      tokens.back() += c;
    else if (!tokens.back().empty())
      tokens.emplace_back();
  tokens.emplace_back();  // what follows the last one
  return tokens;
}

// A whole number from 1 to 64, in digits or as a word; else 0.
std::int64_t count_in(const std::string& token) {
  constexpr std::array words{"one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"};
  const auto word = std::ranges::find(words, token);
  if (word != words.end()) return word - words.begin() + 1;
  if (token.empty() || token.size() > 2 || token.find_first_not_of("0123456789") != std::string::npos)
    return 0;
  const std::int64_t count = std::strtoll(token.c_str(), nullptr, 10);
  return count <= 64 ? count : 0;
}

bool is_link_noun(const std::string& token) {
  constexpr std::array nouns{"adapter", "hca", "nic", "link", "port", "card", "rail", "connectx", "cx-"};
  return std::ranges::any_of(nouns, [&](const char* noun) { return token.starts_with(noun); });
}

// Whether tokens from `first` on say what is counted: a rate or a generation at once, or a link's noun before
// any "per".
bool are_links(const std::vector<std::string>& tokens, std::size_t first,
               const std::vector<LinkGeneration>& generations) {
  const std::string& next = tokens[first];
  if (next.empty() || unit_at(next, 0) > 0) return false;
  if (is_digit(next.front())) return true;
  const auto begins = [&](const LinkGeneration& generation) { return next.starts_with(generation.name); };
  if (std::ranges::any_of(generations, begins)) return true;
  // Behind any of these the number was that of something else.
  const auto ends = [&](const std::string& token) {
    constexpr std::array<std::string_view, 6> others{"switch", "node", "server", "gpu", "leaf", "spine"};
    return token == "per" || token == "of" ||
           std::ranges::any_of(others, [&](std::string_view other) { return token.starts_with(other); });
  };
  for (std::size_t t = first; t < std::min(tokens.size(), first + 7) && !ends(tokens[t]); ++t)
    if (is_link_noun(tokens[t])) return true;
  return false;
}

// Of a card that is said to have two: "2x dual-port HDR100" are four links.
std::int64_t ports_of_each(const std::string& small) {
  constexpr std::array<std::string_view, 4> words{"dual-port", "dual port", "2-port", "two-port"};
  const auto says = [&](std::string_view word) { return small.find(word) != std::string::npos; };
  return std::ranges::any_of(words, says) ? 2 : 1;
}

// "8x200Gb", "4 x 200 Gb/s", "4x Omni-Path 100Gb", "four 200 Gb/s HDR", "8 InfiniBand adapters": how many
// links are named; 0: none.
std::int64_t links_in(const std::string& small, const std::vector<LinkGeneration>& generations) {
  const std::vector<std::string> tokens = tokens_of(small);
  for (std::size_t t = 0; t + 1 < tokens.size(); ++t) {
    const std::string& token = tokens[t];
    const std::size_t times = token.find('x');
    if (times != std::string::npos && token.compare(times + 1, 5, "large") != 0)
      if (const std::int64_t count = count_in(token.substr(0, times)); count > 0) return count;
    if (token == "dual" && !tokens[t + 1].starts_with("port") && are_links(tokens, t + 1, generations))
      return 2;
    const std::int64_t count = count_in(token);
    // "200 Gb/s HDR, 4 per node": but not "400 per node".
    if (count > 0 && count <= 16 && tokens[t + 1] == "per" && t + 2 < tokens.size() &&
        tokens[t + 2].starts_with("node"))
      return count;
    if (count > 0 && (tokens[t + 1].starts_with("x") || are_links(tokens, t + 1, generations))) return count;
  }
  return 0;
}

// Whether the rate at `at` is that of one of the links counted right in front of it: "4 x 200", "four 200".
bool is_of_each(const std::string& small, std::size_t at) {
  std::vector<std::string> before = tokens_of(small.substr(0, at));
  std::erase(before, "");
  if (!before.empty() && before.back() == "x") before.pop_back();
  if (before.empty()) return false;
  std::string& last = before.back();
  if (last.ends_with('x')) last.pop_back();
  return count_in(last) > 0;
}

// Whether a rate is that of the links which are named behind it one by one: "800 Gb/s per node (4x200)".
bool is_split_behind(const std::string& small, std::size_t at) {
  const double whole = std::strtod(small.c_str() + at, nullptr);
  for (std::size_t times = small.find('x', at); times != std::string::npos;
       times = small.find('x', times + 1)) {
    const std::size_t before = small.find_last_not_of("0123456789 ", times - 1);
    const double count = std::strtod(small.c_str() + (before == std::string::npos ? 0 : before + 1), nullptr);
    char* end = nullptr;
    const double each = std::strtod(small.c_str() + times + 1, &end);
    const bool has_unit = unit_at(small, static_cast<std::size_t>(end - small.c_str())) > 0;
    if (count > 1 && each > 0 && !has_unit && std::abs(count * each / whole - 1) < 0.01) return true;
  }
  return false;
}

double generation_rate(const std::string& small, const std::vector<LinkGeneration>& generations) {
  for (const LinkGeneration& generation : generations)
    if (small.find(generation.name) != std::string::npos) return generation.bytes_per_second;
  return 0;
}

// A larger rate is that of several links together.
double fastest_of(const std::vector<LinkGeneration>& generations) {
  if (generations.empty()) return std::numeric_limits<double>::infinity();
  return std::ranges::max(generations, {}, &LinkGeneration::bytes_per_second).bytes_per_second;
}

}  // namespace

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::optional<NodeNetwork> node_network_in(const std::string& text, std::int64_t gpus_per_node,
                                           const std::vector<LinkGeneration>& generations,
                                           const NodeNetwork& usual) {
  const std::string plain = plain_text(text), small = lower_case(plain);
  const auto says = [&](const char* words) { return small.find(words) != std::string::npos; };
  const std::optional<Rate> rate = rate_in(plain);
  const double generation = generation_rate(small, generations);
  const std::int64_t links = links_in(small, generations) * ports_of_each(small);
  if (!rate && generation <= 0) return std::nullopt;
  const double bytes = rate ? rate->bytes_per_second : generation;
  const double fastest_link = fastest_of(generations);
  const auto is_about = [&](double other) { return std::abs(bytes - other) < 0.01 * other; };
  const bool is_of_all =
      !(rate && is_of_each(small, rate->at)) &&
      (says("per server") || (links == 0 && says("per node")) ||
       (rate && links > 1 && is_split_behind(small, rate->at)) ||
       (links > 1 && (bytes > fastest_link || is_about(static_cast<double>(links) * generation))));
  if (links > 0 && links <= 2 && says("per gpu") && !says("per node"))
    return NodeNetwork{links * gpus_per_node, bytes};
  if (links > 0) return NodeNetwork{links, is_of_all ? bytes / static_cast<double>(links) : bytes};
  if (says("ethernet") || says("gbe")) return NodeNetwork{1, bytes};
  if (is_of_all) return NodeNetwork{gpus_per_node, bytes / static_cast<double>(gpus_per_node)};
  if (!says("per ") && is_about(static_cast<double>(usual.nics) * usual.bytes_per_second)) return usual;
  if (!says("per ") && bytes > fastest_link)
    return NodeNetwork{gpus_per_node, bytes / static_cast<double>(gpus_per_node)};
  return NodeNetwork{gpus_per_node, bytes};
}

}  // namespace simrun
