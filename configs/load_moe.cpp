// The moe section: how a job runs the experts of its model.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>

#include "configs/limits.h"
#include "configs/load_sections.h"
#include "configs/text_file.h"

namespace simrun {
namespace {

namespace fs = std::filesystem;

constexpr const char* histogram_path = "moe.histogram";

// Names in a job file are beside it; those of a command line may also be meant from the working directory.
fs::path path_of_histogram(const std::string& written, const Reading& reading) {
  const fs::path beside = (fs::path(reading.file).parent_path() / written).lexically_normal();
  std::error_code error;
  const bool is_from_command_line = reading.position_of(histogram_path).line == 0;
  return is_from_command_line && !fs::exists(beside, error) && fs::exists(written, error) ? fs::path(written)
                                                                                          : beside;
}

std::string_view without_spaces(std::string_view text) {
  constexpr std::string_view spaces = " \t\r";
  const std::size_t first = text.find_first_not_of(spaces);
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(spaces) - first + 1);
}

// Plain decimal digits, up to 10^15.
std::optional<std::int64_t> count_in(std::string_view text) {
  constexpr std::int64_t most = 1'000'000'000'000'000;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > most) return {};
  return value;
}

// Rows `expert,tokens` in the order of the experts, behind a header of these two words.
class HistogramText {
 public:
  HistogramText(const std::string& path, Reading& reading) : path_(path), reading_(reading) {}

  std::vector<std::int64_t> tokens_in(std::string_view text) {
    std::vector<std::int64_t> tokens;
    bool has_header = false;
    for (int line = 1; !text.empty(); ++line) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      const std::string_view row = without_spaces(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
      if (row.empty() || row.front() == '#') continue;
      if (!has_header && row != "expert,tokens")
        return refused(line, "the first row must be the header", "expert,tokens");
      if (has_header && !read_row(line, row, tokens)) return {};
      has_header = true;
    }
    if (tokens.empty())
      return refused(0, "holds no expert", "a header expert,tokens, then a row per expert.");
    if (std::ranges::count(tokens, 0) == static_cast<std::ptrdiff_t>(tokens.size()))
      return refused(0, "no expert has a token", "");
    return tokens;
  }

 private:
  std::vector<std::int64_t> refused(int line, std::string message, std::string hint) {
    reading_.problems.push_back({{path_, line, line > 0 ? 1 : 0}, std::move(message), std::move(hint)});
    return {};
  }

  bool read_row(int line, std::string_view row, std::vector<std::int64_t>& tokens) {
    const std::size_t comma = row.find(',');
    const std::optional<std::int64_t> expert = count_in(without_spaces(row.substr(0, comma)));
    std::optional<std::int64_t> count;
    if (comma != std::string_view::npos) count = count_in(without_spaces(row.substr(comma + 1)));
    if (!expert || !count) {
      refused(line, "a row is two whole numbers, expert,tokens", "for example 0,4096.");
      return false;
    }
    if (*expert != static_cast<std::int64_t>(tokens.size())) {
      refused(line, fmt::format("expert {} where expert {} must be", *expert, tokens.size()),
              "experts count from 0, each once and in order.");
      return false;
    }
    tokens.push_back(*count);
    return true;
  }

  const std::string& path_;
  Reading& reading_;
};

void read_histogram(const std::string& written, Reading& reading, MoeConfig& moe) {
  const std::string path = path_of_histogram(written, reading).string();
  const TextFile file = read_text_file(path);
  if (!file.text)
    return reading.problem(histogram_path, fmt::format("cannot read '{}': {}", path, file.reason));
  reading.files.push_back(path);
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);  // so that the effective config loads from anywhere
  if (const std::optional<EffectiveValue> value = reading.take(histogram_path))
    reading.record(value->path, yaml_quoted(error ? path : absolute.string()), value->origin);
  ExpertHistogram histogram{path, HistogramText(path, reading).tokens_in(*file.text)};
  if (!histogram.tokens.empty()) moe.histogram = std::move(histogram);
}

void read_load(SectionReader& section, Reading& reading, MoeConfig& moe) {
  std::vector<std::string> written;
  for (const char* key : {"load_imbalance", "zipf", "histogram"})
    if (section.has(key)) written.emplace_back(key);
  if (section.has("zipf")) moe.zipf = section.real("zipf", limits::zipf);
  if (const std::string path = section.text("histogram"); !path.empty()) read_histogram(path, reading, moe);
  if (section.has("load_imbalance") || written.empty())
    moe.load_imbalance = section.real("load_imbalance", limits::imbalance, 1.0);
  section.ignore({"load_imbalance", "zipf"});
  if (written.size() > 1)
    reading.problem(section.path_of(written.back()),
                    fmt::format("'{}' and '{}' both say how uneven the experts' load is", written.front(),
                                written.back()),
                    "keep one.");
}

}  // namespace

void read_moe(const ConfigNode* node, Reading& reading, Job& job) {
  const ExpertConfig& experts = job.model.experts;
  if (experts.count == 0) {
    // A model that was refused may have had some.
    if (node != nullptr && job.model.num_layers > 0)
      reading.problems.push_back(
          {node->key_position, "'moe' is about experts, and the model has none", "leave the section out."});
    return;
  }
  MoeConfig& moe = job.moe;
  SectionReader section(reading, node, "moe");
  if (section.has("capacity_factor"))
    moe.capacity_factor = section.real("capacity_factor", limits::capacity_factor);
  section.ignore({"capacity_factor"});
  const std::string dispatcher = section.word(
      "token_dispatcher", {{"alltoall", "allgather", "deepep", "einsum"}, {"flex", "hybridep"}}, "alltoall");
  moe.token_dispatcher = dispatcher == "allgather" ? TokenDispatcher::allgather
                         : dispatcher == "deepep"  ? TokenDispatcher::deepep
                         : dispatcher == "einsum"  ? TokenDispatcher::einsum
                                                   : TokenDispatcher::alltoall;
  if (section.has("group_size")) moe.group_size = section.integer("group_size", limits::sequence);
  section.ignore({"group_size"});
  read_load(section, reading, moe);
  // DeepSeek-V3 places a group of experts on a node (arXiv 2412.19437, section 2.1.2).
  if (experts.topk_groups > 0)
    moe.node_limit = section.integer("node_limit", limits::nodes, experts.topk_groups);
  else if (section.has("node_limit"))
    moe.node_limit = section.integer("node_limit", limits::nodes);
  section.ignore({"node_limit"});
  section.finish();
}

}  // namespace simrun
