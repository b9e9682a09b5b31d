#include "traces/json_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace simrun {
namespace {

constexpr std::size_t deepest = 200;
constexpr std::size_t longest_text = 4096;

bool is_space(int byte) { return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t'; }
bool ends_word(int byte) {
  return byte == ByteSource::end || is_space(byte) || byte == ',' || byte == ']' || byte == '}' ||
         byte == ':' || byte == '"' || byte == '[' || byte == '{';
}

std::size_t digits_from(std::string_view text, std::size_t at) {
  const std::size_t begin = at;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
  return at - begin;
}

// -12.5e+3
bool is_number(std::string_view text) {
  std::size_t at = text.starts_with('-') ? 1 : 0;
  const std::size_t whole = digits_from(text, at);
  if (whole == 0) return false;
  at += whole;
  if (at < text.size() && text[at] == '.') {
    const std::size_t fraction = digits_from(text, at + 1);
    if (fraction == 0) return false;
    at += 1 + fraction;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    const std::size_t exponent = digits_from(text, at);
    if (exponent == 0) return false;
    at += exponent;
  }
  return at == text.size();
}

bool is_literal(std::string_view text) {
  static constexpr std::array<std::string_view, 6> literals{"true", "false",    "null",
                                                            "NaN",  "Infinity", "-Infinity"};
  return std::find(literals.begin(), literals.end(), text) != literals.end();
}

std::string shown(int byte) {
  return byte >= 0x20 && byte < 0x7f ? fmt::format("'{}'", static_cast<char>(byte))
                                     : fmt::format("byte {:#04x}", byte);
}

}  // namespace

void JsonStream::refuse(const std::string& message, const std::string& hint) const {
  throw ConfigError({{token_position_, message + bytes_.place_text(), hint}});
}

void JsonStream::skip_space() {
  while (is_space(bytes_.peek())) bytes_.next();
}

void JsonStream::after_value() { expected_ = open_.empty() ? Expected::nothing : Expected::comma_or_end; }

JsonToken JsonStream::next() {
  for (;;) {
    skip_space();
    token_position_ = bytes_.position();
    const int byte = bytes_.peek();
    if (expected_ == Expected::nothing) {
      if (byte != ByteSource::end)
        refuse(fmt::format("{} behind the end of the JSON", shown(byte)),
               "one JSON array or object is a trace.");
      return JsonToken::end;
    }
    if (byte == ByteSource::end) return JsonToken::cut_off;
    if (expected_ != Expected::comma_or_end) return take();
    if (byte == ']' || byte == '}') return finish(static_cast<char>(byte));
    if (byte != ',') refuse(fmt::format("{} where JSON needs a comma or a bracket", shown(byte)), "");
    bytes_.next();
    expected_ = open_.back() == '{' ? Expected::key : Expected::value;
  }
}

JsonToken JsonStream::take() {
  const int byte = bytes_.peek();
  const bool may_end = expected_ == Expected::value_or_end || expected_ == Expected::key_or_end;
  // Chrome's format allows a comma behind the last event.
  const bool is_behind_comma = expected_ == Expected::value && !open_.empty() && open_.back() == '[';
  if ((may_end || is_behind_comma) && (byte == ']' || byte == '}')) return finish(static_cast<char>(byte));
  return expected_ == Expected::key || expected_ == Expected::key_or_end ? read_key() : value();
}

JsonToken JsonStream::read_key() {
  if (bytes_.peek() != '"') refuse(fmt::format("{} where JSON needs a key", shown(bytes_.peek())), "");
  if (!read_string()) return JsonToken::cut_off;
  skip_space();
  if (bytes_.peek() == ByteSource::end) return JsonToken::cut_off;
  if (bytes_.peek() != ':') refuse(fmt::format("{} where JSON needs a ':'", shown(bytes_.peek())), "");
  bytes_.next();
  expected_ = Expected::value;
  return JsonToken::key;
}

JsonToken JsonStream::value() {
  switch (bytes_.peek()) {
    case '{': return begin('{', JsonToken::begin_object);
    case '[': return begin('[', JsonToken::begin_array);
    case '"':
      if (!read_string()) return JsonToken::cut_off;
      after_value();
      return JsonToken::string;
    default: return word();
  }
}

JsonToken JsonStream::begin(char bracket, JsonToken token) {
  bytes_.next();
  if (open_.size() == deepest) refuse(fmt::format("JSON more than {} deep", deepest), "");
  open_.push_back(bracket);
  expected_ = bracket == '{' ? Expected::key_or_end : Expected::value_or_end;
  return token;
}

JsonToken JsonStream::finish(char bracket) {
  if (open_.back() != (bracket == '}' ? '{' : '['))
    refuse(fmt::format("'{}' closes what '{}' opened", bracket, open_.back()), "");
  bytes_.next();
  open_.pop_back();
  after_value();
  return bracket == '}' ? JsonToken::end_object : JsonToken::end_array;
}

JsonToken JsonStream::word() {
  text_.clear();
  while (!ends_word(bytes_.peek()) && text_.size() < longest_text) text_ += static_cast<char>(bytes_.next());
  if (bytes_.peek() == ByteSource::end && !open_.empty()) return JsonToken::cut_off;
  const bool number = is_number(text_);
  if (!number && !is_literal(text_)) {
    if (text_.empty()) refuse(fmt::format("{} where JSON needs a value", shown(bytes_.peek())), "");
    refuse(fmt::format("{} where JSON needs a value", shown(static_cast<unsigned char>(text_.front()))), "");
  }
  after_value();
  return number ? JsonToken::number : JsonToken::literal;
}

void JsonStream::append(char byte) {
  if (text_.size() < longest_text) text_ += byte;
}

// False: cut off.
bool JsonStream::read_string() {
  text_.clear();
  bytes_.next();
  for (;;) {
    const int byte = bytes_.next();
    if (byte == ByteSource::end) return false;
    if (byte == '"') return true;
    if (byte != '\\')
      append(static_cast<char>(byte));
    else if (!read_escape())
      return false;
  }
}

// Behind a backslash. What is no escape stays as it is: profilers write paths of Windows unescaped.
bool JsonStream::read_escape() {
  static constexpr std::string_view letters = "bfnrt", meanings = "\b\f\n\r\t";
  const int byte = bytes_.next();
  if (byte == ByteSource::end) return false;
  if (byte == 'u') return read_unicode();
  const auto letter = static_cast<char>(byte);
  const std::size_t at = letters.find(letter);
  if (at != std::string_view::npos) {
    append(meanings[at]);
    return true;
  }
  if (byte != '"' && byte != '\\' && byte != '/') append('\\');
  append(letter);
  return true;
}

bool JsonStream::read_code_unit(unsigned& unit) {
  unit = 0;
  for (int i = 0; i < 4; ++i) {
    const int byte = bytes_.peek();
    if (byte == ByteSource::end) return false;
    static constexpr std::string_view digits = "0123456789abcdef";
    const std::size_t digit = digits.find(static_cast<char>(byte | (byte >= 'A' && byte <= 'F' ? 0x20 : 0)));
    if (digit == std::string_view::npos) {
      token_position_ = bytes_.position();
      refuse("\\u needs four hexadecimal digits", "");
    }
    bytes_.next();
    unit = unit * 16 + static_cast<unsigned>(digit);
  }
  return true;
}

bool JsonStream::read_unicode() {
  constexpr unsigned high = 0xd800, low = 0xdc00, behind = 0xe000, replacement = 0xfffd;
  unsigned code = 0;
  if (!read_code_unit(code)) return false;
  while (code >= high && code < low) {  // the first of two
    unsigned second = 0;
    if (bytes_.peek() != '\\') break;
    bytes_.next();
    if (bytes_.peek() != 'u') {
      append_character(replacement);
      return read_escape();
    }
    bytes_.next();
    if (!read_code_unit(second)) return false;
    if (second >= low && second < behind) {
      append_character(0x10000 + ((code - high) << 10U) + (second - low));
      return true;
    }
    append_character(replacement);
    code = second;
  }
  append_character(code >= high && code < behind ? replacement : code);
  return true;
}

void JsonStream::append_character(unsigned code) {
  const auto put = [&](unsigned byte) { append(static_cast<char>(byte)); };
  const auto tail = [&](unsigned shift) { put(0x80U | (code >> shift & 0x3fU)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0U | code >> 6U);
    tail(0);
  } else if (code < 0x10000) {
    put(0xe0U | code >> 12U);
    tail(6);
    tail(0);
  } else {
    put(0xf0U | code >> 18U);
    tail(12);
    tail(6);
    tail(0);
  }
}

bool JsonStream::skip() { return skip_from(next()); }

bool JsonStream::skip_from(JsonToken first) {
  const auto opens = [](JsonToken token) {
    return token == JsonToken::begin_object || token == JsonToken::begin_array;
  };
  if (first == JsonToken::cut_off) return false;
  if (!opens(first)) return true;
  for (std::size_t depth = 1; depth > 0;) {
    const JsonToken token = next();
    if (token == JsonToken::cut_off) return false;
    if (opens(token)) ++depth;
    if (token == JsonToken::end_object || token == JsonToken::end_array) --depth;
  }
  return true;
}

}  // namespace simrun
