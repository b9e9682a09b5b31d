#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/byte_source.h"

namespace simrun {

enum class JsonToken : std::uint8_t {
  begin_object,
  end_object,
  begin_array,
  end_array,
  key,
  string,
  number,   // text() is its characters: microseconds since 1970 with nanoseconds fit no double
  literal,  // true, false, null; NaN and Infinity too, which profilers write
  end,      // behind the outermost value
  cut_off,  // the file ends before the outermost value does
};

// JSON (RFC 8259) token by token, in constant memory. Throws ConfigError at the first byte that is not JSON,
// and where values lie more than 200 deep. Of a string longer than 4 KiB the rest is left out.
class JsonStream {
 public:
  explicit JsonStream(ByteSource& bytes) : bytes_(bytes) {}

  JsonToken next();
  // Of the last key, string, number or literal.
  const std::string& text() const { return text_; }
  // The value of the key just read, whatever it is; false: cut off in it. `first`: its first token, if read.
  bool skip();
  bool skip_from(JsonToken first);
  // Where the last token begins.
  const SourcePosition& position() const { return token_position_; }
  // How many brackets are open.
  std::size_t depth() const { return open_.size(); }
  [[noreturn]] void refuse(const std::string& message, const std::string& hint) const;

 private:
  enum class Expected : std::uint8_t { value, value_or_end, key, key_or_end, comma_or_end, nothing };

  JsonToken take();
  JsonToken begin(char bracket, JsonToken token);
  JsonToken finish(char bracket);
  JsonToken word();
  JsonToken value();
  bool read_string();
  bool read_escape();
  bool read_code_unit(unsigned& unit);
  bool read_unicode();
  JsonToken read_key();
  void append(char byte);
  void append_character(unsigned code);
  void after_value();
  void skip_space();

  ByteSource& bytes_;
  std::vector<char> open_;  // brackets
  Expected expected_ = Expected::value;
  std::string text_;
  SourcePosition token_position_;
};

}  // namespace simrun
