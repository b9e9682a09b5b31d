#include "cli/collective_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cli/sweep_values.h"
#include "configs/collectives_config.h"
#include "configs/diagnostics.h"
#include "configs/limits.h"
#include "configs/numbers.h"

namespace simrun {
namespace {

constexpr double most_bytes = 0x1p50;
constexpr std::size_t most_node_counts = 64;
constexpr std::int64_t most_ranks = 32'768;  // of one collective: trees and rings list their flows

const std::map<std::string, Opcode> opcodes{
    {"all_reduce", Opcode::all_reduce},         {"all_gather", Opcode::all_gather},
    {"reduce_scatter", Opcode::reduce_scatter}, {"broadcast", Opcode::broadcast},
    {"all_to_all", Opcode::all_to_all},         {"send_recv", Opcode::send}};

std::optional<std::int64_t> size_in_bytes(std::string text) {
  double unit = 1;
  if (!text.empty()) {
    constexpr std::string_view suffixes = "kMGT";
    const char last = text.back() == 'K' ? 'k' : text.back();
    if (const std::size_t at = suffixes.find(last); at != std::string_view::npos) {
      unit = std::ldexp(1.0, 10 * static_cast<int>(at + 1));
      text.pop_back();
    }
  }
  const Parsed<double> number = parse_real(text, {0, most_bytes});
  if (!number.value) return std::nullopt;
  const double bytes = *number.value * unit;
  if (bytes < 1 || bytes > most_bytes || bytes != std::floor(bytes)) return std::nullopt;
  return static_cast<std::int64_t>(bytes);
}

std::vector<std::int64_t> powers_of_two(std::int64_t from, std::int64_t to) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t bytes = from; bytes <= to; bytes *= 2) sizes.push_back(bytes);
  if (sizes.back() != to) sizes.push_back(to);
  return sizes;
}

class CollectiveFlagReader {
 public:
  explicit CollectiveFlagReader(const CollectiveFlags& flags) : flags_(flags) {}

  CollectiveRequest read() {
    read_collective();
    read_sizes();
    read_places();
    read_way();
    if (!errors_.empty()) throw ConfigError(std::move(errors_));
    return request_;
  }

 private:
  void refuse(const std::string& flag, std::string message, std::string hint) {
    errors_.push_back({{flag, 0, 0}, std::move(message), std::move(hint)});
  }

  void read_collective() {
    request_.collective = flags_.collective.value_or("");
    if (const auto found = opcodes.find(request_.collective); found != opcodes.end()) {
      request_.opcode = found->second;
      return;
    }
    std::vector<std::string> names;
    names.reserve(opcodes.size());
    for (const auto& [name, opcode] : opcodes) names.push_back(name);
    const std::string near = closest(request_.collective, names);
    refuse("--collective", fmt::format("unknown collective '{}'", request_.collective),
           near.empty() ? fmt::format("there are {}.", fmt::join(names, ", "))
                        : fmt::format("did you mean '{}'?", near));
    request_.collective.clear();
  }

  void read_sizes() {
    if (const auto sizes = sizes_in_bytes(flags_.bytes.value_or("1M..1G")))
      request_.bytes = *sizes;
    else
      refuse("--bytes", fmt::format("'{}' is not a size, a list of sizes or a range of them", *flags_.bytes),
             "for example --bytes 1M..1G, --bytes 64k,1M or --bytes 268435456.");
  }

  // 0 if it is wrong.
  std::int64_t whole(const char* flag, const std::string& word, IntegerRange range) {
    const Parsed<std::int64_t> number = parse_integer(word, range);
    if (number.value) return *number.value;
    refuse(flag, fmt::format("'{}' is not a whole number from {} to {}", word, range.least, range.most),
           fmt::format("for example {} {}.", flag, std::string(flag) == "--nodes" ? "1,2,4" : "8"));
    return 0;
  }

  void read_places() {
    request_.cluster = flags_.cluster.value_or("");
    if (request_.cluster.empty())
      refuse("--cluster", "--collective needs a cluster", "for example --cluster dgx_h100.");
    if (flags_.gpus_per_node)
      request_.gpus_per_node = whole("--gpus-per-node", *flags_.gpus_per_node, limits::gpus_per_node);
    const std::string words = flags_.nodes.value_or("1");
    const std::vector<std::string> counts = split_values(words).value_or(std::vector<std::string>{words});
    if (counts.size() > most_node_counts)
      return refuse("--nodes", fmt::format("{} numbers of nodes are too many", counts.size()),
                    fmt::format("{} at most.", most_node_counts));
    for (const std::string& count : counts) {
      const std::int64_t nodes = whole("--nodes", count, {1, most_ranks});
      if (nodes == 0) break;
      request_.nodes.push_back(nodes);
    }
  }

  void read_way() {
    const std::vector<CollectiveAlgorithm> able = algorithms_of(request_.collective);
    if (flags_.algorithm) {
      std::vector<std::string> words{"auto"};
      for (const CollectiveAlgorithm algorithm : able) words.push_back(to_string(algorithm));
      const std::vector<std::string> all = collective_algorithm_words();
      const std::vector<std::string>& known = able.empty() ? all : words;
      if (std::ranges::find(known, *flags_.algorithm) == known.end())
        refuse("--algorithm",
               std::ranges::find(all, *flags_.algorithm) == all.end()
                   ? fmt::format("unknown algorithm '{}'", *flags_.algorithm)
                   : fmt::format("{} is no algorithm of {}", *flags_.algorithm, request_.collective),
               hint_of(*flags_.algorithm, known));
      request_.algorithm = *flags_.algorithm;
    }
    if (flags_.protocol) {
      const std::vector<std::string> known = collective_protocol_words();
      if (std::ranges::find(known, *flags_.protocol) == known.end())
        refuse("--protocol", fmt::format("unknown protocol '{}'", *flags_.protocol),
               hint_of(*flags_.protocol, known));
      request_.protocol = *flags_.protocol;
    }
    if (request_.collective == "send_recv" && (flags_.algorithm || flags_.protocol))
      refuse(flags_.algorithm ? "--algorithm" : "--protocol", "send_recv has one way only", "leave it out.");
  }

  static std::string hint_of(const std::string& word, const std::vector<std::string>& known) {
    const std::string near = closest(word, known);
    return near.empty() ? fmt::format("there are {}.", fmt::join(known, ", "))
                        : fmt::format("did you mean '{}'?", near);
  }

  const CollectiveFlags& flags_;
  CollectiveRequest request_;
  std::vector<Diagnostic> errors_;
};

}  // namespace

std::optional<std::vector<std::int64_t>> sizes_in_bytes(const std::string& text) {
  if (const std::size_t dots = text.find(".."); dots != std::string::npos) {
    const std::optional<std::int64_t> from = size_in_bytes(text.substr(0, dots));
    const std::optional<std::int64_t> to = size_in_bytes(text.substr(dots + 2));
    if (!from || !to || *from > *to) return std::nullopt;
    return powers_of_two(*from, *to);
  }
  const std::optional<std::vector<std::string>> words = split_values(text);
  if (!words) return std::nullopt;
  std::vector<std::int64_t> sizes;
  for (const std::string& word : *words) {
    const std::optional<std::int64_t> size = size_in_bytes(word);
    if (!size) return std::nullopt;
    sizes.push_back(*size);
  }
  return sizes;
}

CollectiveRequest read_collective_flags(const CollectiveFlags& flags) {
  return CollectiveFlagReader(flags).read();
}

}  // namespace simrun
