#include "traces/read_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include "traces/byte_source.h"
#include "traces/read_chakra.h"
#include "traces/read_chrome.h"
#include "traces/refuse_trace.h"

namespace simrun {
namespace {

namespace fs = std::filesystem;

// What editors of Windows put before a text.
void skip_byte_order_mark(ByteSource& bytes, const std::string& path) {
  constexpr int begin = 0xef, length = 3;
  if (bytes.peek() == begin && path.find(".json") != std::string::npos)
    for (int i = 0; i < length; ++i) bytes.next();
}

// Numbers in names by their size: trace-2 before trace-10.
bool is_before(const std::string& a, const std::string& b) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (!is_digit(a[i]) || !is_digit(b[j])) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i, ++j;
      continue;
    }
    const auto number = [&](const std::string& text, std::size_t& at) {
      while (at + 1 < text.size() && text[at] == '0' && is_digit(text[at + 1])) ++at;
      const std::size_t begin = at;
      while (at < text.size() && is_digit(text[at])) ++at;
      return text.substr(begin, at - begin);
    };
    const std::string x = number(a, i), y = number(b, j);
    if (x != y) return std::pair(x.size(), x) < std::pair(y.size(), y);
  }
  return a.size() - i != b.size() - j ? a.size() - i < b.size() - j : a < b;
}

}  // namespace

bool is_trace_name(const std::string& name) {
  return name.ends_with(".json") || name.ends_with(".json.gz") || name.ends_with(".et");
}

std::vector<std::string> trace_files(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return {path};
  std::vector<std::string> files;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    std::error_code unreadable;
    if (at->is_regular_file(unreadable) && is_trace_name(at->path().filename().string()))
      files.push_back(at->path().string());
  }
  if (error) refuse_trace(path, error.message(), "");
  if (files.empty())
    refuse_trace(path, "no trace lies in this folder", "a trace's name ends in .json, .json.gz or .et.");
  std::sort(files.begin(), files.end(), is_before);
  return files;
}

RecordedTrace read_trace(const std::string& path) {
  ByteSource bytes(path);
  skip_byte_order_mark(bytes, path);
  const int first = bytes.peek();
  if (first == ByteSource::end) refuse_trace(path, "the trace is empty", "");
  if (path.ends_with(".perfetto-trace"))
    refuse_trace(path, "Perfetto's traces are not read", "simrun --trace x.json writes the same as JSON.");
  constexpr std::string_view of_text = "{[ \n\r\t";
  if (of_text.find(static_cast<char>(first)) != std::string_view::npos && !path.ends_with(".et"))
    return read_chrome_trace(bytes);
  const bool is_binary = first < ' ' || first >= 0x80;
  if (is_binary || path.ends_with(".et")) return read_chakra_trace(bytes);
  refuse_trace(path, fmt::format("this is no trace: it begins with '{}'", static_cast<char>(first)),
               "a trace is the JSON of a PyTorch profiler or of Chrome, or Chakra's messages.");
}

}  // namespace simrun
