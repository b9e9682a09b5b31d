#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace simrun {

// What the loader accepts as the value of one key, for programs that offer a choice.
struct KeyRule {
  enum class Kind : std::uint8_t { integer, boolean, word };

  Kind kind = Kind::integer;
  std::int64_t least = 0, most = 0;  // of an integer
  std::vector<std::string> words;    // of a word; files are not among them
};

}  // namespace simrun
