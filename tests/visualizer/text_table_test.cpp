#include "visualizer/text_table.h"

#include <catch2/catch.hpp>

namespace simrun {
namespace {

TEST_CASE("text table: columns are as wide as their widest cell, right-aligned unless asked") {
  CHECK(text_table({{"key", "step"}, {"a", "13.99"}, {"longer", "1"}}, {0}) ==
        "key      step\n"
        "a       13.99\n"
        "longer      1\n");
}

TEST_CASE("text table: a shorter row ends in a remark that widens nothing") {
  CHECK(text_table({{"tp", "step", "MFU"}, {"8", "1", "2"}, {"3", "refused: 8 heads do not split"}}, {}) ==
        "tp  step  MFU\n"
        " 8     1    2\n"
        " 3  refused: 8 heads do not split\n");
}

TEST_CASE("text table: characters are counted, not bytes, and control characters do not reach the terminal") {
  CHECK(text_width("é…x") == 3);
  CHECK(text_table({{"é", "b"}, {"xx", "\x1b[31m"}}, {0}) == "é       b\nxx  ?[31m\n");
}

}  // namespace
}  // namespace simrun
