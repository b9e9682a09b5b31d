#include "configs/layer_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace simrun {
namespace {

// sum     = product {"+" product}
// product = operand {"*" operand}, of which one at most is a list
// operand = number | "[" [digit {"," digit}] "]" | "(" sum ")"
class PatternParser {
 public:
  PatternParser(std::string_view text, std::size_t most) : text_(text), most_(most) {}

  LayerPattern run() {
    const Term term = sum();
    if (ok() && peek() != '\0') fail(fmt::format("'{}' where the expression should end", peek()));
    if (ok() && !term.is_list) fail("a number where a list of 0 and 1 must be", 0);
    if (ok()) result_.layers = term.list;
    return std::move(result_);
  }

 private:
  struct Term {
    bool is_list = false;
    std::int64_t number = 0;
    std::vector<bool> list;
  };
  static constexpr int most_nested = 50;

  bool ok() const { return result_.problem.empty(); }
  Term fail(std::string problem, std::optional<std::size_t> at = {}) {
    if (ok()) result_ = {{}, std::move(problem), at.value_or(at_)};
    return {};
  }
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char wanted) {
    const bool there = peek() == wanted;
    at_ += there ? 1 : 0;
    return there;
  }

  Term sum() {
    Term total = product();
    while (ok() && take('+')) {
      const std::size_t at = at_;
      const Term more = product();
      if (ok() && (!total.is_list || !more.is_list)) return fail("only lists can be added", at);
      if (total.list.size() + more.list.size() > most_) return too_long(at);
      total.list.insert(total.list.end(), more.list.begin(), more.list.end());
    }
    return total;
  }

  Term product() {
    Term left = operand();
    while (ok() && take('*')) {
      const std::size_t at = at_;
      const Term right = operand();
      if (!ok()) return {};
      if (left.is_list == right.is_list)
        return fail("one side of '*' must be a list, the other a number", at);
      left = repeated(left.is_list ? left.list : right.list, left.is_list ? right.number : left.number, at);
    }
    return left;
  }

  Term repeated(const std::vector<bool>& list, std::int64_t times, std::size_t at) {
    if (!list.empty() && static_cast<std::size_t>(times) > most_ / list.size()) return too_long(at);
    Term term{true, 0, {}};
    for (std::int64_t t = 0; t < times && !list.empty(); ++t)
      term.list.insert(term.list.end(), list.begin(), list.end());
    return term;
  }

  Term too_long(std::size_t at) { return fail(fmt::format("more than {} layers", most_), at); }

  Term operand() {
    if (take('[')) return list();
    if (take('(')) {
      if (++nested_ > most_nested) return fail("too many parentheses");
      Term inside = sum();
      if (ok() && !take(')')) return fail("')' is missing");
      --nested_;
      return inside;
    }
    return number();
  }

  Term number() {
    peek();
    Term term;
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), term.number);
    if (error != std::errc() || term.number < 0 || term.number > static_cast<std::int64_t>(most_))
      return fail(at_ < text_.size()
                      ? fmt::format("'{}' where a list or a number of repeats must be", text_[at_])
                      : "a list or a number of repeats is missing at the end");
    at_ += static_cast<std::size_t>(end - begin);
    return term;
  }

  Term list() {
    Term term{true, 0, {}};
    if (take(']')) return term;
    do {
      const char digit = peek();
      if (digit != '0' && digit != '1') return fail("a list has 0 and 1, no other entries");
      ++at_;
      term.list.push_back(digit == '1');
      if (term.list.size() > most_) return too_long(at_);
    } while (take(','));
    if (!take(']')) return fail("',' or ']' is missing");
    return term;
  }

  const std::string_view text_;
  const std::size_t most_;
  std::size_t at_ = 0;
  int nested_ = 0;
  LayerPattern result_;
};

}  // namespace

LayerPattern parse_layer_pattern(std::string_view text, std::size_t most) {
  return PatternParser(text, most).run();
}

}  // namespace simrun
