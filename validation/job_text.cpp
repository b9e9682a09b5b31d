#include "validation/job_text.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace simrun {
namespace {

using Values = std::vector<std::pair<std::string, std::string>>;

constexpr std::array<std::string_view, 11> section_order{"simrun",      "framework", "model",     "training",
                                                         "parallelism", "moe",       "optimizer", "recompute",
                                                         "offload",     "layout",    "cluster"};

std::size_t place_of_section(const std::string& key) {
  const std::string section = key.substr(0, key.find('.'));
  return static_cast<std::size_t>(std::ranges::find(section_order, section) - section_order.begin());
}

// The keys of one map, each with what is below it, in the order of their first mention.
void write_map(const Values& values, const std::string& indent, std::string& yaml) {
  std::vector<std::string> written;
  for (const auto& [path, value] : values) {
    const std::string key = path.substr(0, path.find('.'));
    if (std::ranges::find(written, key) != written.end()) continue;
    written.push_back(key);
    Values below;
    for (const auto& [other, text] : values)
      if (other.starts_with(key + ".")) below.emplace_back(other.substr(key.size() + 1), text);
    yaml += indent + key + ":" + (below.empty() ? " " + value : "") + "\n";
    write_map(below, indent + "  ", yaml);
  }
}

}  // namespace

void JobText::set(const std::string& key, std::string value) {
  const auto found = std::ranges::find(values_, key, [](const auto& pair) { return pair.first; });
  if (found == values_.end())
    values_.emplace_back(key, std::move(value));
  else
    found->second = std::move(value);
}

void JobText::set_if_absent(const std::string& key, std::string value) {
  if (!has(key)) set(key, std::move(value));
}

bool JobText::has(const std::string& key) const {
  return std::ranges::find(values_, key, [](const auto& pair) { return pair.first; }) != values_.end();
}

std::string JobText::value(const std::string& key) const {
  for (const auto& [path, text] : values_)
    if (path == key) return text;
  return "";
}

void JobText::erase(const std::string& prefix) {
  std::erase_if(values_, [&](const auto& pair) {
    return pair.first == prefix || pair.first.starts_with(prefix + ".");
  });
}

std::string JobText::yaml() const {
  Values sorted = values_;
  std::ranges::stable_sort(sorted, {}, [](const auto& pair) { return place_of_section(pair.first); });
  std::string yaml;
  write_map(sorted, "", yaml);
  return yaml;
}

}  // namespace simrun
