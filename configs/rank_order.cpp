#include "configs/rank_order.h"

#include <algorithm>

namespace simrun {

std::optional<std::vector<RankAxis>> parse_rank_order(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find('-', start), text.size());
    words.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  const std::vector<std::string> names = {"tp", "cp", "dp", "pp"};
  std::vector<RankAxis> order;
  for (const std::string& word : words) {
    if (std::count(words.begin(), words.end(), word) > 1) return std::nullopt;
    const auto name = std::find(names.begin(), names.end(), word);
    if (name != names.end())
      order.push_back(static_cast<RankAxis>(name - names.begin()));
    else if (word != "ep")
      return std::nullopt;
  }
  if (order.size() != names.size()) return std::nullopt;
  return order;
}

}  // namespace simrun
