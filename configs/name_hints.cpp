#include "configs/name_hints.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <set>
#include <string_view>

#include "configs/diagnostics.h"

namespace simrun {
namespace {

using Words = std::set<std::string>;

constexpr std::size_t longest_name = 200;
constexpr std::size_t most_in_a_question = 5;

bool is_numeral(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

// "llama3.2-1b" is llama, 3.2, 1 and b: a full stop between digits belongs to the number.
Words words_of(std::string_view name) {
  Words words;
  for (std::size_t i = 0; i < name.size();) {
    std::size_t end = i;
    if (is_letter(name[i]))
      while (end < name.size() && is_letter(name[end])) ++end;
    else
      while (end < name.size() &&
             (is_numeral(name[end]) ||
              (name[end] == '.' && end > i && end + 1 < name.size() && is_numeral(name[end + 1]))))
        ++end;
    if (end == i) {
      ++i;
      continue;
    }
    std::string word(name.substr(i, end - i));
    std::ranges::transform(word, word.begin(), [](unsigned char c) { return std::tolower(c); });
    words.insert(std::move(word));
    i = end;
  }
  return words;
}

std::string_view without_folder_and_ending(std::string_view name) {
  if (const std::size_t slash = name.rfind('/'); slash != std::string_view::npos)
    name.remove_prefix(slash + 1);
  for (const std::string_view ending : {".yaml", ".yml", ".json"})
    if (name.ends_with(ending)) name.remove_suffix(ending.size());
  return name;
}

template <class Which>
std::vector<std::string> those(const std::vector<std::string>& candidates, const Which& which) {
  std::vector<std::string> meant;
  std::ranges::copy_if(candidates, std::back_inserter(meant),
                       [&](const std::string& candidate) { return which(words_of(candidate)); });
  return meant;
}

// Of those whose words, two or more, the name has, those with most of them.
std::vector<std::string> within(const Words& words, const std::vector<std::string>& candidates) {
  std::size_t most = 2;
  std::vector<std::string> meant;
  for (const std::string& candidate : candidates) {
    const Words has = words_of(candidate);
    if (has.size() < most || !std::ranges::includes(words, has)) continue;
    if (has.size() > most) meant.clear();
    most = has.size();
    meant.push_back(candidate);
  }
  return meant;
}

std::vector<std::string> meant_by(const std::string& name, const std::vector<std::string>& candidates) {
  if (name.size() > longest_name) return {};
  const Words words = words_of(without_folder_and_ending(name));
  if (!words.empty()) {
    if (std::vector<std::string> same = those(candidates, [&](const Words& has) { return has == words; });
        !same.empty())
      return same;
    if (std::vector<std::string> more =
            those(candidates, [&](const Words& has) { return std::ranges::includes(has, words); });
        !more.empty())
      return more;
  }
  if (const std::string near = closest(name, candidates); !near.empty()) return {near};
  return within(words, candidates);
}

}  // namespace

std::string did_you_mean(const std::string& name, const std::vector<std::string>& candidates) {
  const std::vector<std::string> meant = meant_by(name, candidates);
  if (meant.empty()) return "";
  if (meant.size() > most_in_a_question) return fmt::format("one of {}.", fmt::join(meant, ", "));
  return fmt::format("did you mean '{}'?", fmt::join(meant, "' or '"));
}

}  // namespace simrun
