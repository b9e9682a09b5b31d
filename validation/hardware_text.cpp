#include "validation/hardware_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "validation/link_text.h"
#include "validation/measured_row.h"

namespace simrun {
namespace {

bool is_number(const std::string& word) {
  return !word.empty() && std::ranges::all_of(word, [](char c) { return is_digit(c); });
}

// Letters and digits between anything else; of 184.30 GiB the 184. Gb and Gbps are bits, GB/s and GBps rates,
// and no memory.
std::vector<std::string> raw_words(const std::string& text) {
  std::string bytes = text;
  for (std::size_t at = bytes.find("Gb"); at != std::string::npos; at = bytes.find("Gb", at))
    bytes.replace(at, 2, "gbit");
  for (const std::string_view rate : {"GB/s", "GBps", "GiB/s"})
    for (std::size_t at = bytes.find(rate); at != std::string::npos; at = bytes.find(rate, at))
      bytes.replace(at, rate.size(), "gbyterate");
  std::vector<std::string> words{""};
  const std::string lower = lower_case(bytes);
  for (std::size_t at = 0; at < lower.size(); ++at) {
    if (std::isalnum(static_cast<unsigned char>(lower[at])) != 0)
      words.back() += lower[at];
    else if (lower[at] == '.' && is_number(words.back()))
      at = std::min(lower.find_first_not_of("0123456789", at + 1), lower.size()) - 1;
    else if (!words.back().empty())
      words.emplace_back();
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

// "8xh100sxm5" is 8x, h100, sxm5, "a100x8" a100, 8x and "a100s" a100; the 24xlarge of an instance type is one
// word.
void add_parts(std::string word, std::vector<std::string>& words) {
  const auto is_digit_at = [&](std::size_t at) { return at < word.size() && is_digit(word[at]); };
  for (std::size_t count = word.find_first_not_of("0123456789");
       count != std::string::npos && count > 0 && word[count] == 'x' &&
       word.find_first_of("0123456789", count) != std::string::npos;
       count = word.find_first_not_of("0123456789")) {
    words.push_back(word.substr(0, count + 1));
    word.erase(0, count + 1);
  }
  if (const std::size_t times = word.rfind('x'); times != std::string::npos && times > 0 &&
                                                 is_digit_at(times - 1) &&
                                                 is_number(word.substr(times + 1))) {
    words.push_back(word.substr(times + 1) + "x");
    word.erase(times);
  }
  if (word.size() > 3 && word.back() == 's' && is_digit_at(word.size() - 2) && is_digit_at(word.size() - 3) &&
      !is_digit(word.front()) && word != "v100s")
    word.pop_back();
  for (const std::string_view form : {"sxm", "pcie", "nvl"})
    if (const std::size_t at = word.find(form); at != std::string::npos && at > 0 && is_digit(word[at - 1])) {
      words.push_back(word.substr(0, at));
      word.erase(0, at);
    }
  words.push_back(word);
}

bool is_unit(const std::string& word) { return word == "gb" || word == "g" || word == "gib"; }

bool is_size(const std::string& word) {
  return word.size() > 2 && word.ends_with("gb") && is_number(word.substr(0, word.size() - 2));
}

// Of "256gb host memory" and "64gb of DDR5": the size is no card's.
void mark_hosts_sizes(std::vector<std::string>& words) {
  constexpr std::array<std::string_view, 4> hosts{"host", "ram", "cpu", "main"};
  for (std::size_t w = 0; w + 1 < words.size(); ++w) {
    const std::string& next = words[w + 1];
    const std::string& after = next == "of" && w + 2 < words.size() ? words[w + 2] : next;
    if (is_size(words[w]) && (after.starts_with("ddr") || std::ranges::find(hosts, after) != hosts.end()))
      words[w] += "host";
  }
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> parts, words;
  for (const std::string& word : raw_words(text)) add_parts(word, parts);
  for (const std::string& part : parts) {
    const std::size_t unit = std::min(part.find_first_not_of("0123456789"), part.size());
    if (part.ends_with('g') && is_number(part.substr(0, unit)) && !words.empty() && words.back().size() > 3 &&
        words.back().ends_with("gpu"))
      words.push_back(part.substr(0, unit) + "x");  // Google's a3-highgpu-8g has eight
    else if (is_unit(part) && !words.empty() && is_number(words.back()))
      words.back() += "gb";
    else if (unit > 0 && is_unit(part.substr(unit)))
      words.push_back(part.substr(0, unit) + "gb");
    else
      words.push_back(part);
  }
  mark_hosts_sizes(words);
  return words;
}

}  // namespace

std::string hardware_words(const std::string& text) {
  std::string spaced;
  for (const std::string& word : words_of(text)) spaced += " " + word + " ";
  return spaced;
}

std::string hardware_pattern(const std::string& pattern) {
  std::string spaced;
  for (std::size_t at = 0; at <= pattern.size();) {
    const std::size_t star = std::min(pattern.find('*', at), pattern.size());
    spaced += hardware_words(pattern.substr(at, star - at));
    if (star < pattern.size()) spaced += '*';
    at = star + 1;
  }
  return spaced;
}

std::string own_hardware(const std::string& text) {
  std::string own = text;
  for (const std::string_view begins : {"compared to", "compared with", " vs ", " vs. ", "versus", "(not ",
                                        " instead of ", " rather than "}) {
    const std::size_t at = lower_case(own).find(begins);
    if (at == std::string::npos || at == 0) continue;
    own.erase(at, std::min(own.find_first_of(";)", at + 1), own.size()) - at);
  }
  return own;
}

bool may_have_memory(const std::string& hardware, std::int64_t bytes) {
  const std::vector<std::string> words = words_of(hardware);
  bool names_any = false;
  for (std::size_t w = 0; w < words.size(); ++w) {
    const std::string next = w + 1 < words.size() ? words[w + 1] : "";
    constexpr std::array<std::string_view, 12> others{
        "s", "system", "ib", "hdr", "ndr", "edr", "nic", "infiniband", "ethernet", "roce", "nics", "network"};
    const double size = is_size(words[w]) ? std::strtod(words[w].c_str(), nullptr) : 0;
    if (std::ranges::find(others, next) != others.end() || size < 8 || size > 300) continue;
    names_any = true;
    // What is left of a card to its users may be printed, never more than it has.
    for (const double unit : {1e9, 0x1p30})
      if (const double share = size * unit / static_cast<double>(bytes); 0.86 <= share && share <= 1.1)
        return true;
  }
  return !names_any;
}

}  // namespace simrun
