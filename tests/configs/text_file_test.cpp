#include "configs/text_file.h"

#include <catch2/catch.hpp>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>

namespace simrun {

TEST_CASE("a file is read whole, and of one longer than the limit one byte more than that") {
  const std::string path = (std::filesystem::temp_directory_path() / "simrun_text_file_test").string();
  constexpr std::size_t most = 100'000;
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{16'383}, std::size_t{16'384}, std::size_t{16'385},
        std::size_t{32'768}, std::size_t{65'537}, most - 1, most, most + 1, most + 2, 3 * most}) {
    CAPTURE(size);
    std::string bytes;
    for (std::size_t i = 0; i < size; ++i) bytes += static_cast<char>('a' + i % 23);
    std::ofstream(path, std::ios::binary) << bytes;
    const TextFile read = read_text_file(path, most);
    REQUIRE(read.text);
    CHECK(read.reason.empty());
    CHECK((*read.text == bytes.substr(0, most + 1)));
  }
  std::filesystem::remove(path);
  CHECK(read_text_file(path, most).reason == "no such file");
}

}  // namespace simrun
