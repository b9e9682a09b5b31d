#include "traces/json_stream.h"

#include <catch2/catch.hpp>

#include "traces/nanoseconds.h"

namespace simrun {
namespace {

// One letter or text per token.
std::string tokens(const std::string& text) {
  ByteSource bytes(text, "t.json");
  JsonStream json(bytes);
  std::string seen;
  for (int i = 0; i < 1000; ++i) {
    const JsonToken token = json.next();
    switch (token) {
      case JsonToken::begin_object: seen += "{"; break;
      case JsonToken::end_object: seen += "}"; break;
      case JsonToken::begin_array: seen += "["; break;
      case JsonToken::end_array: seen += "]"; break;
      case JsonToken::key: seen += "k:" + json.text() + " "; break;
      case JsonToken::string: seen += "s:" + json.text() + " "; break;
      case JsonToken::number: seen += "n:" + json.text() + " "; break;
      case JsonToken::literal: seen += "l:" + json.text() + " "; break;
      case JsonToken::end: return seen + "end";
      case JsonToken::cut_off: return seen + "cut";
    }
  }
  return seen;
}

Diagnostic fault(const std::string& text) {
  try {
    tokens(text);
  } catch (const ConfigError& error) {
    return error.diagnostics().front();
  }
  return {};
}

}  // namespace

TEST_CASE("json stream: tokens come in order, numbers and escapes as they were meant") {
  CHECK(tokens(R"({"a": [1.50, -2e3, true, null, NaN], "b\n\u00e9\ud83d\ude00\q": "\"\/\\"})") ==
        "{k:a [n:1.50 n:-2e3 l:true l:null l:NaN ]k:b\n\xc3\xa9\xf0\x9f\x98\x80\\q s:\"/\\ }end");
  CHECK(tokens("  [ ] \n") == "[]end");
  CHECK(tokens("[1,]") == "[n:1 ]end");  // Chrome's format allows it
  CHECK(tokens("\"\\ud83dx\"") == "s:\xef\xbf\xbdx end");
}

TEST_CASE("json stream: a text that ends early is cut off, at whichever byte") {
  const std::string whole = R"({"traceEvents": [{"ph": "X", "ts": 12.5, "args": {"n": [true, "\u00e9"]}}]})";
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::string seen = tokens(whole.substr(0, size));
    CAPTURE(size, seen);
    CHECK(seen.ends_with("cut"));
  }
  CHECK(tokens(whole).ends_with("end"));
}

TEST_CASE("json stream: what is no JSON is refused at its line and column") {
  const Diagnostic comma = fault("{\"a\": 1,\n  ,}");
  CHECK(comma.position.line == 2);
  CHECK(comma.position.column == 3);
  CHECK(comma.message == "',' where JSON needs a key");
  CHECK(fault("[1 2]").message == "'2' where JSON needs a comma or a bracket");
  CHECK(fault("[01x]").message == "'0' where JSON needs a value");
  CHECK(fault("{\"a\" 1}").message == "'1' where JSON needs a ':'");
  CHECK(fault("[1}").message == "'}' closes what '[' opened");
  CHECK(fault("[] []").message == "'[' behind the end of the JSON");
  CHECK(fault("\"\\u12g4\"").message == "\\u needs four hexadecimal digits");
  CHECK(fault(std::string(201, '[')).message == "JSON more than 200 deep");
  CHECK(tokens(std::string(200, '[')).ends_with("cut"));
}

TEST_CASE("json stream: a value of any kind is skipped whole") {
  const std::string text = R"([{"x": [[], {}], "y": {"z": "]"}}, 5])";
  ByteSource bytes(text, "t.json");
  JsonStream json(bytes);
  CHECK(json.next() == JsonToken::begin_array);
  CHECK(json.skip());
  CHECK(json.next() == JsonToken::number);
  CHECK(json.text() == "5");
}

TEST_CASE("microseconds: their decimals are nanoseconds and picoseconds, exactly") {
  const auto time = [](const char* text) { return microseconds_to_ns(text).value(); };
  CHECK(time("1712345678901234.567") == TracedTime{1712345678901234567, 0});  // no double holds it
  CHECK(time("0.000999") == TracedTime{0, 999});
  CHECK(time("12") == TracedTime{12000, 0});
  CHECK(time("1.5e3") == TracedTime{1500000, 0});
  CHECK(time("25e-1") == TracedTime{2500, 0});
  CHECK(time("1e-9") == TracedTime{0, 0});
  CHECK(time("-0.25") == TracedTime{-250, 0});
  CHECK(time("-0.0001") == TracedTime{-1, 900});
  CHECK(time("0e99999999") == TracedTime{0, 0});
  for (const char* text : {"", "-", "x", "1.2.3", "1e", "1e99999999999", "9e15", "1e300", "NaN"}) {
    CAPTURE(text);
    CHECK_FALSE(microseconds_to_ns(text));
  }
  for (const char* text : {"9e15", "-9e15", "1e300", "1700000000000000000"}) CHECK(is_beyond_ns(text));
  for (const char* text : {"", "-", "x", "1.2.3", "NaN", "2e15", "-5"}) CHECK_FALSE(is_beyond_ns(text));
}

}  // namespace simrun
