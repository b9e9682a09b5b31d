#include "validation/link_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <utility>

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

// The first number with a unit.
std::optional<Rate> rate_in(const std::string& text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (!is_digit(text[at]) || (at > 0 && (is_digit(text[at - 1]) || text[at - 1] == '.'))) continue;
    char* end = nullptr;
    const double number = std::strtod(text.c_str() + at, &end);
    const double unit = unit_at(text, static_cast<std::size_t>(end - text.c_str()));
    if (unit > 0 && number > 0) return Rate{at, number * unit};
  }
  return std::nullopt;
}

// "8x200Gb", "4x Omni-Path 100Gb", "NDR, 8x400 Gb/s", "8 InfiniBand adapters": how many links are named; 0:
// none. A number counts links if an x follows it, or if the text is about adapters and begins with it.
std::int64_t links_in(const std::string& text) {
  const bool has_adapters = text.find("adapter") != std::string::npos;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (!is_digit(text[at]) || (at > 0 && !std::isspace(static_cast<unsigned char>(text[at - 1])))) continue;
    const std::size_t end = std::min(text.find_first_not_of("0123456789", at), text.size());
    const bool is_multiplied = end < text.size() && text[end] == 'x';
    if (is_multiplied || (at == 0 && has_adapters)) return std::strtoll(text.c_str() + at, nullptr, 10);
  }
  return 0;
}

double generation_rate(const std::string& text) {
  constexpr std::array<std::pair<const char*, double>, 3> generations{
      {{"edr", 12.5e9}, {"hdr", 25e9}, {"ndr", 50e9}}};
  for (const auto& [name, rate] : generations)
    if (text.find(name) != std::string::npos) return rate;
  return 0;
}

}  // namespace

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::optional<NodeNetwork> node_network_in(const std::string& text, std::int64_t gpus_per_node,
                                           const NodeNetwork& usual) {
  const std::string small = lower_case(text);
  const auto says = [&](const char* words) { return small.find(words) != std::string::npos; };
  const std::optional<Rate> rate = rate_in(text);
  const double generation = generation_rate(small);
  const std::int64_t links = links_in(small);
  if (!rate && generation <= 0) return std::nullopt;
  const double bytes = rate ? rate->bytes_per_second : generation;
  const bool is_of_all = says("per server") || (links == 0 && says("per node"));
  if (links > 0) return NodeNetwork{links, is_of_all ? bytes / static_cast<double>(links) : bytes};
  if (says("ethernet")) return NodeNetwork{1, bytes};
  if (is_of_all) return NodeNetwork{gpus_per_node, bytes / static_cast<double>(gpus_per_node)};
  const double together = static_cast<double>(usual.nics) * usual.bytes_per_second;
  if (!says("per ") && std::abs(bytes - together) < 0.01 * together) return usual;
  return NodeNetwork{gpus_per_node, bytes};
}

}  // namespace simrun
