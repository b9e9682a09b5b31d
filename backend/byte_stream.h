#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "backend/transport.h"

// Numbers and texts as the bytes that processes of one build on one kind of machine exchange.
namespace simrun {

class ByteWriter {
 public:
  template <class Number>
  void number(Number value) {
    static_assert(std::is_trivially_copyable_v<Number>);
    append(&value, sizeof value);
  }
  template <class Number>
  void numbers(const std::vector<Number>& values) {
    static_assert(std::is_trivially_copyable_v<Number>);
    number(static_cast<std::int64_t>(values.size()));
    append(values.data(), values.size() * sizeof(Number));
  }
  void text(std::string_view value) {
    number(static_cast<std::int64_t>(value.size()));
    append(value.data(), value.size());
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  void append(const void* from, std::size_t count) {
    const auto* const first = static_cast<const std::byte*>(from);
    bytes_.insert(bytes_.end(), first, first + count);
  }
  std::vector<std::byte> bytes_;
};

// Reads what a ByteWriter wrote, in the same order. Throws TransportError where the bytes end too early.
class ByteReader {
 public:
  explicit ByteReader(const std::vector<std::byte>& bytes) : bytes_(bytes) {}

  template <class Number>
  Number number() {
    Number value{};
    copy(&value, sizeof value);
    return value;
  }
  template <class Number>
  std::vector<Number> numbers() {
    std::vector<Number> values(count(sizeof(Number)));
    copy(values.data(), values.size() * sizeof(Number));
    return values;
  }
  std::string text() {
    std::string value(count(1), '\0');
    copy(value.data(), value.size());
    return value;
  }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  std::size_t count(std::size_t size) {
    const auto count = number<std::int64_t>();
    if (count < 0 || static_cast<std::uint64_t>(count) > (bytes_.size() - at_) / size) too_short();
    return static_cast<std::size_t>(count);
  }
  void copy(void* to, std::size_t count) {
    if (count > bytes_.size() - at_) too_short();
    if (count > 0) std::memcpy(to, bytes_.data() + at_, count);
    at_ += count;
  }
  [[noreturn]] static void too_short() { throw TransportError("a message between processes is too short"); }

  const std::vector<std::byte>& bytes_;
  std::size_t at_ = 0;
};

}  // namespace simrun
