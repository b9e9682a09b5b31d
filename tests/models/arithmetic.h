#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace simrun {

// The value of whole numbers with + * ^ and parentheses, as a derivation is written in tests/data.
class Arithmetic {
 public:
  explicit Arithmetic(std::string text) : text_(std::move(text)) {}

  std::int64_t value() {
    const std::int64_t result = sum();
    if (at_ != text_.size()) throw std::invalid_argument("cannot read " + text_.substr(at_));
    return result;
  }

 private:
  bool takes(char character) {
    if (at_ >= text_.size() || text_[at_] != character) return false;
    ++at_;
    return true;
  }
  std::int64_t sum() {
    std::int64_t result = product();
    while (takes('+')) result += product();
    return result;
  }
  std::int64_t product() {
    std::int64_t result = power();
    while (takes('*')) result *= power();
    return result;
  }
  std::int64_t power() {
    const std::int64_t base = atom();
    if (!takes('^')) return base;
    std::int64_t result = 1;
    for (std::int64_t times = atom(); times > 0; --times) result *= base;
    return result;
  }
  std::int64_t atom() {
    if (takes('(')) {
      const std::int64_t inner = sum();
      if (!takes(')')) throw std::invalid_argument("no closing parenthesis in " + text_);
      return inner;
    }
    std::size_t digits = 0;
    const std::int64_t number = std::stoll(text_.substr(at_), &digits);
    at_ += digits;
    return number;
  }

  std::string text_;
  std::size_t at_ = 0;
};

}  // namespace simrun
