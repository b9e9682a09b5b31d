#include "configs/pipeline_layout.h"

#include <fmt/format.h>

#include <cstddef>
#include <optional>

namespace simrun {
namespace {

constexpr std::size_t longest_layout = 100'000;  // layers and stage ends after all repeats

struct Symbol {
  char character = 0;
  int column = 0;
};

struct Expansion {
  std::vector<Symbol> symbols;
  std::string problem;
  std::string hint;
  int column = 1;
};

class LayoutText {
 public:
  explicit LayoutText(const std::string& text) : text_(text) {}

  Expansion expand() {
    Expansion result;
    while (result.problem.empty() && at_ < text_.size()) {
      const std::vector<Symbol> part = text_[at_] == '(' ? group(result) : single(result);
      if (!result.problem.empty()) break;
      append(result, part);
    }
    return result;
  }

 private:
  int column() const { return static_cast<int>(at_) + 1; }
  static void fail(Expansion& result, int column, std::string problem, std::string hint) {
    result.problem = std::move(problem);
    result.hint = std::move(hint);
    result.column = column;
  }

  std::vector<Symbol> single(Expansion& result) {
    const char character = text_[at_];
    const Symbol symbol{character, column()};
    ++at_;
    if (character == ',') return {};
    if (character == '(') {  // here only within a group
      fail(result, symbol.column, "groups of a pipeline layout do not nest", "write the inner one out.");
    } else if (character != 'E' && character != 't' && character != 'm' && character != 'L' &&
               character != '|') {
      fail(result, symbol.column, fmt::format("{} means nothing in a pipeline layout", printable(character)),
           "E is the embedding, t a decoder layer, m one of multi-token prediction, L the loss, | ends a "
           "stage; t*4 and (tt|)*4 repeat.");
    }
    return {symbol};
  }

  std::vector<Symbol> group(Expansion& result) {
    const int start = column();
    std::vector<Symbol> symbols;
    for (++at_; at_ < text_.size() && text_[at_] != ')' && result.problem.empty();) {
      std::vector<Symbol> part = single(result);
      const std::optional<std::size_t> times = repeats(result);
      for (std::size_t n = 0; n < times.value_or(1) && symbols.size() <= longest_layout; ++n)
        symbols.insert(symbols.end(), part.begin(), part.end());
    }
    if (!result.problem.empty()) return {};
    if (at_ >= text_.size()) {
      fail(result, start, "this '(' is never closed", "");
      return {};
    }
    ++at_;
    if (at_ >= text_.size() || text_[at_] != '*')
      fail(result, start, "a group needs a repeat count after it", "write (tt|)*4.");
    return symbols;
  }

  // "*n" here, if there is one.
  std::optional<std::size_t> repeats(Expansion& result) {
    if (at_ >= text_.size() || text_[at_] != '*') return std::nullopt;
    const int star = column();
    std::size_t count = 0;
    std::size_t digits = 0;
    for (++at_; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_, ++digits)
      if (count <= longest_layout) count = count * 10 + static_cast<std::size_t>(text_[at_] - '0');
    if (digits == 0 || count == 0 || count > longest_layout)
      fail(result, star, fmt::format("'*' needs a count from 1 to {}", longest_layout), "");
    return count;
  }

  void append(Expansion& result, const std::vector<Symbol>& part) {
    const std::size_t times = repeats(result).value_or(1);
    if (!result.problem.empty()) return;
    if (part.size() * times + result.symbols.size() > longest_layout) {
      fail(result, 1, fmt::format("the layout has more than {} layers and stages", longest_layout), "");
      return;
    }
    for (std::size_t n = 0; n < times; ++n)
      result.symbols.insert(result.symbols.end(), part.begin(), part.end());
  }

  static std::string printable(char character) {
    const auto byte = static_cast<unsigned char>(character);
    return byte < 0x20 || byte >= 0x7f ? fmt::format("byte 0x{:02x}", byte) : fmt::format("'{}'", character);
  }

  const std::string& text_;
  std::size_t at_ = 0;
};

// Puts one symbol into the stage it belongs to; returns what is wrong with that, or "".
std::string place(Symbol symbol, std::vector<StageContent>& stages) {
  StageContent& stage = stages.back();
  const bool is_empty = stage == StageContent{};
  switch (symbol.character) {
    case '|':
      if (is_empty) return fmt::format("stage {} of the layout is empty", stages.size() - 1);
      if (stage.loss) return "the loss 'L' must be in the last stage";
      if (stage.mtp_layers > 0) return "multi-token prediction 'm' must be in the stage of the loss 'L'";
      stages.push_back({});
      return "";
    case 'E':
      if (!is_empty || stages.size() > 1) return "the embedding 'E' must come first, and once";
      stage.embedding = true;
      return "";
    case 'L':
      if (stage.loss) return "the loss 'L' must come last, and once";
      stage.loss = true;
      return "";
    case 'm':
      if (stage.loss) return "the loss 'L' must come last, and once";
      ++stage.mtp_layers;
      return "";
    default:
      if (stage.loss) return "the loss 'L' must come last, and once";
      if (stage.mtp_layers > 0) return "multi-token prediction 'm' must come behind all layers 't'";
      ++stage.layers;
      return "";
  }
}

}  // namespace

PipelineLayout parse_pipeline_layout(const std::string& text) {
  PipelineLayout layout;
  const Expansion expansion = LayoutText(text).expand();
  layout.problem = expansion.problem;
  layout.hint = expansion.hint;
  layout.column = expansion.column;
  if (!layout.problem.empty()) return layout;

  layout.stages.push_back({});
  for (const Symbol& symbol : expansion.symbols) {
    layout.problem = place(symbol, layout.stages);
    layout.column = symbol.column;
    if (!layout.problem.empty()) return layout;
  }
  layout.column = 1;
  if (!layout.stages.front().embedding)
    layout.problem = "the layout must start with the embedding 'E'";
  else if (!layout.stages.back().loss)
    layout.problem = "the layout must end with the loss 'L'";
  if (!layout.problem.empty()) layout.hint = "for example \"Ett|tt|tt|ttL\".";
  return layout;
}

std::string pipeline_layout_text(const std::vector<StageContent>& stages) {
  const auto repeated = [](char symbol, std::int64_t times) {
    return times == 0 ? "" : times == 1 ? std::string(1, symbol) : fmt::format("{}*{}", symbol, times);
  };
  std::string text;
  for (const StageContent& stage : stages) {
    if (&stage != &stages.front()) text += '|';
    text += (stage.embedding ? "E" : "") + repeated('t', stage.layers) + repeated('m', stage.mtp_layers) +
            (stage.loss ? "L" : "");
  }
  return text;
}

}  // namespace simrun
