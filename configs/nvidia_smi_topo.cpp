#include "configs/nvidia_smi_topo.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <numeric>

namespace simrun {
namespace {

struct Token {
  std::string text;
  int column = 0;  // from 1, in the line as it is in the file
};

struct TokenLine {
  int number = 0;
  std::vector<Token> tokens;
};

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// A terminal's colour codes: ESC [ parameters letter.
std::size_t end_of_escape(const std::string& line, std::size_t at) {
  if (line[at] != '\x1b') return at;
  std::size_t end = at + 1;
  if (end < line.size() && line[end] == '[') ++end;
  while (end < line.size() && std::isalpha(static_cast<unsigned char>(line[end])) == 0) ++end;
  return std::min(end + 1, line.size());
}

std::vector<Token> tokens_of(const std::string& line) {
  std::vector<Token> tokens;
  bool is_inside = false;
  for (std::size_t at = 0; at < line.size();) {
    if (const std::size_t end = end_of_escape(line, at); end > at) {
      at = end;
      continue;
    }
    if (is_space(line[at]))
      is_inside = false;
    else if (is_inside)
      tokens.back().text += line[at];
    else
      tokens.push_back({std::string(1, line[at]), static_cast<int>(at) + 1});
    is_inside = !is_space(line[at]);
    ++at;
  }
  return tokens;
}

std::vector<TokenLine> lines_of(const std::string& text) {
  std::vector<TokenLine> lines;
  int number = 1;
  for (std::size_t start = 0; start < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    lines.push_back({number, tokens_of(text.substr(start, end - start))});
    start = end + 1;
  }
  return lines;
}

bool is_numbered(const std::string& word, const std::string& start) {
  return word.size() > start.size() && word.size() <= start.size() + 4 && word.starts_with(start) &&
         std::all_of(word.begin() + static_cast<std::ptrdiff_t>(start.size()), word.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

std::int64_t nvlinks_of(const std::string& cell) {
  return is_numbered(cell, "NV") ? std::stoll(cell.substr(2)) : 0;
}

bool is_cell(const std::string& word) {
  static constexpr std::string_view words[] = {"X", "PIX", "PXB", "PHB", "NODE", "SYS", "SOC"};
  return std::ranges::find(words, word) != std::end(words) || nvlinks_of(word) > 0;
}

// The header names GPUs from GPU0 on, then NICs, then what is no device: "CPU Affinity".
bool is_header(const std::vector<Token>& tokens) {
  return tokens.size() >= 2 && tokens[0].text == "GPU0" &&
         std::none_of(tokens.begin(), tokens.end(), [](const Token& token) { return is_cell(token.text); });
}

class MatrixReader {
 public:
  MatrixReader(const std::string& file, std::vector<Diagnostic>& problems)
      : file_(file), problems_(problems), before_(problems.size()) {}

  std::optional<TopologyMatrix> read(const std::vector<TokenLine>& lines) {
    const auto header = std::find_if(lines.begin(), lines.end(),
                                     [](const TokenLine& line) { return is_header(line.tokens); });
    if (header == lines.end()) {
      problem({file_, 0, 0}, "no matrix of `nvidia-smi topo -m` in this file",
              "its first line names GPU0, GPU1 and so on.");
      return std::nullopt;
    }
    read_header(*header);
    for (auto line = header + 1; line != lines.end(); ++line) read_row(*line);
    for (std::size_t gpu = 0; gpu < matrix_.gpus.size(); ++gpu)
      if (matrix_.cells[gpu].empty())
        problem(matrix_.position, fmt::format("the matrix has no row of {}", matrix_.gpus[gpu]));
    if (problems_.size() == before_) check_symmetry();
    if (problems_.size() > before_) return std::nullopt;
    return matrix_;
  }

 private:
  void problem(const SourcePosition& position, std::string message, std::string hint = "") {
    problems_.push_back({position, std::move(message), std::move(hint)});
  }

  void read_header(const TokenLine& line) {
    matrix_.position = {file_, line.number, line.tokens.front().column};
    std::size_t column = 0;
    for (; column < line.tokens.size() && is_numbered(line.tokens[column].text, "GPU"); ++column)
      matrix_.gpus.push_back(line.tokens[column].text);
    for (; column < line.tokens.size(); ++column) {
      const std::string& word = line.tokens[column].text;
      if (word == "CPU" || word == "NUMA" || word == "GPU") break;
      matrix_.nics.push_back(word);
    }
    has_affinity_ = column < line.tokens.size() && line.tokens[column].text == "CPU";
    matrix_.cells.resize(matrix_.gpus.size());
    matrix_.affinity.resize(matrix_.gpus.size());
  }

  // Rows of NICs say again what the GPUs' rows say, and what nobody asks.
  void read_row(const TokenLine& line) {
    if (line.tokens.empty()) return;
    const auto gpu = std::ranges::find(matrix_.gpus, line.tokens[0].text);
    if (gpu == matrix_.gpus.end()) return;
    const auto row = static_cast<std::size_t>(gpu - matrix_.gpus.begin());
    const std::size_t columns = matrix_.gpus.size() + matrix_.nics.size();
    const SourcePosition start{file_, line.number, line.tokens[0].column};
    if (!matrix_.cells[row].empty())
      return problem(start, fmt::format("a second row of {}", *gpu), "one matrix per file.");
    for (std::size_t column = 0; column < columns; ++column) {
      if (column + 1 >= line.tokens.size()) {
        problem(start, fmt::format("the row of {} has {} cells for {} GPUs and {} NICs", *gpu, column,
                                   matrix_.gpus.size(), matrix_.nics.size()));
        matrix_.cells[row].resize(columns);
        return;
      }
      const Token& token = line.tokens[column + 1];
      const SourcePosition position{file_, line.number, token.column};
      if (!is_cell(token.text) || (token.text == "X") != (column == row))
        problem(position,
                fmt::format("{} is no way from {} to {}", in_quotes(token.text), *gpu,
                            column < matrix_.gpus.size() ? matrix_.gpus[column]
                                                         : matrix_.nics[column - matrix_.gpus.size()]),
                "NV#, PIX, PXB, PHB, NODE and SYS are.");
      matrix_.cells[row].push_back({token.text == "SOC" ? "SYS" : token.text, position});
    }
    if (has_affinity_ && columns + 1 < line.tokens.size())
      matrix_.affinity[row] = line.tokens[columns + 1].text;
  }

  void check_symmetry() {
    for (std::size_t a = 0; a < matrix_.gpus.size(); ++a)
      for (std::size_t b = 0; b < a; ++b) {
        const TopologyMatrix::Cell &own = matrix_.cells[a][b], &other = matrix_.cells[b][a];
        if (own.word != other.word)
          problem(own.position,
                  fmt::format("{} reaches {} by {}, and {} reaches {} by {}", matrix_.gpus[a],
                              matrix_.gpus[b], own.word, matrix_.gpus[b], matrix_.gpus[a], other.word));
      }
  }

  const std::string& file_;
  std::vector<Diagnostic>& problems_;
  const std::size_t before_;
  TopologyMatrix matrix_;
  bool has_affinity_ = false;
};

// Sets of devices that are joined step by step.
class JoinedSets {
 public:
  explicit JoinedSets(std::size_t size) : parent_(size) { std::iota(parent_.begin(), parent_.end(), 0); }
  std::size_t of(std::size_t i) const {
    while (parent_[i] != i) i = parent_[i];
    return i;
  }
  void join(std::size_t a, std::size_t b) { parent_[std::max(of(a), of(b))] = std::min(of(a), of(b)); }

 private:
  std::vector<std::size_t> parent_;
};

// Consecutive numbers for what these devices are in, in the order in which they come.
class Numbering {
 public:
  std::int64_t of(std::size_t set) {
    const auto at = std::find(sets_.begin(), sets_.end(), set);
    if (at != sets_.end()) return at - sets_.begin();
    sets_.push_back(set);
    return static_cast<std::int64_t>(sets_.size()) - 1;
  }
  const std::vector<std::size_t>& sets() const { return sets_; }

 private:
  std::vector<std::size_t> sets_;
};

bool is_on_switch(const std::string& cell) { return cell == "PIX" || cell == "PXB"; }

struct PlacedDevices {
  JoinedSets switches, sockets;  // of GPUs, then NICs
};

PlacedDevices place(const TopologyMatrix& matrix) {
  const std::size_t gpus = matrix.gpus.size(), all = gpus + matrix.nics.size();
  PlacedDevices placed{JoinedSets(all), JoinedSets(all)};
  for (std::size_t gpu = 0; gpu < gpus; ++gpu)
    for (std::size_t other = 0; other < all; ++other) {
      const std::string& cell = matrix.cells[gpu][other].word;
      if (is_on_switch(cell)) placed.switches.join(gpu, other);
      const bool is_alike =
          other < gpus && !matrix.affinity[gpu].empty() && matrix.affinity[gpu] == matrix.affinity[other];
      if (is_on_switch(cell) || cell == "PHB" || cell == "NODE" || is_alike) placed.sockets.join(gpu, other);
    }
  return placed;
}

std::vector<std::size_t> compute_nics(const TopologyMatrix& matrix) {
  std::vector<std::size_t> near, all;
  for (std::size_t nic = 0; nic < matrix.nics.size(); ++nic) {
    const std::size_t column = matrix.gpus.size() + nic;
    all.push_back(column);
    if (std::ranges::any_of(matrix.cells, [&](const auto& row) { return is_on_switch(row[column].word); }))
      near.push_back(column);
  }
  return near.empty() ? all : near;
}

class SectionWriter {
 public:
  explicit SectionWriter(const SourcePosition& position) : position_(position) {}

  ConfigNode node(std::string key, ConfigNode::Kind kind) const {
    ConfigNode made;
    made.kind = kind;
    made.key = std::move(key);
    made.position = made.key_position = position_;
    return made;
  }
  ConfigNode scalar(std::string key, std::string text) const {
    ConfigNode made = node(std::move(key), ConfigNode::Kind::scalar);
    made.text = std::move(text);
    return made;
  }
  ConfigNode list(std::string key, const std::vector<std::string>& texts) const {
    ConfigNode made = node(std::move(key), ConfigNode::Kind::sequence);
    for (const std::string& text : texts) made.children.push_back(scalar("", text));
    return made;
  }
  ConfigNode numbers(std::string key, const std::vector<std::int64_t>& values) const {
    std::vector<std::string> texts;
    for (const std::int64_t value : values) texts.push_back(std::to_string(value));
    return list(std::move(key), texts);
  }

 private:
  SourcePosition position_;
};

ConfigNode nvlinks_section(const TopologyMatrix& matrix, const SectionWriter& writer) {
  constexpr std::int64_t most_nvlinks = 18;  // of an H100 (datasheet), and of every later GPU so far
  std::vector<std::string> pairs;
  std::int64_t most = 0;
  for (std::size_t gpu = 0; gpu < matrix.gpus.size(); ++gpu) {
    std::int64_t links = 0;
    for (std::size_t other = 0; other < matrix.gpus.size(); ++other) {
      const std::int64_t between = nvlinks_of(matrix.cells[gpu][other].word);
      links += between;
      if (between == 0 || other < gpu) continue;
      pairs.push_back(between == 1 ? fmt::format("{}-{}", gpu, other)
                                   : fmt::format("{}-{}x{}", gpu, other, between));
    }
    most = std::max(most, links);
  }
  ConfigNode section = writer.node("intra_node", ConfigNode::Kind::map);
  const char* const topology = most == 0 ? "pcie" : most > most_nvlinks ? "nvswitch" : "nvlink_mesh";
  section.children.push_back(writer.scalar("topology", topology));
  if (!pairs.empty()) section.children.push_back(writer.list("nvlinks", pairs));
  return section;
}

ConfigNode pcie_section(const TopologyMatrix& matrix, const std::vector<std::size_t>& nics,
                        const SectionWriter& writer) {
  const PlacedDevices placed = place(matrix);
  Numbering switches, sockets;
  std::vector<std::int64_t> gpu_switches, nic_switches, switch_sockets;
  for (std::size_t gpu = 0; gpu < matrix.gpus.size(); ++gpu)
    gpu_switches.push_back(switches.of(placed.switches.of(gpu)));
  for (const std::size_t nic : nics) nic_switches.push_back(switches.of(placed.switches.of(nic)));
  for (const std::size_t set : switches.sets()) switch_sockets.push_back(sockets.of(placed.sockets.of(set)));
  ConfigNode section = writer.node("pcie", ConfigNode::Kind::map);
  section.children = {writer.numbers("gpu_switches", gpu_switches),
                      writer.numbers("nic_switches", nics.empty() ? gpu_switches : nic_switches),
                      writer.numbers("switch_sockets", switch_sockets)};
  return section;
}

}  // namespace

std::optional<TopologyMatrix> parse_topology_matrix(const std::string& text, const std::string& file,
                                                    std::vector<Diagnostic>& problems) {
  return MatrixReader(file, problems).read(lines_of(text));
}

ConfigNode cluster_of(const TopologyMatrix& matrix) {
  const SectionWriter writer(matrix.position);
  const std::vector<std::size_t> nics = compute_nics(matrix);
  ConfigNode cluster = writer.node("cluster", ConfigNode::Kind::map);
  cluster.children = {writer.scalar("gpus_per_node", std::to_string(matrix.gpus.size())),
                      nvlinks_section(matrix, writer), pcie_section(matrix, nics, writer)};
  if (!nics.empty()) cluster.children.push_back(writer.scalar("nics_per_node", std::to_string(nics.size())));
  return cluster;
}

}  // namespace simrun
