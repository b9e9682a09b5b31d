#include "configs/diagnostics.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

using namespace simrun;

namespace {

// A file that is gone at the end of the test; messages name it by its path.
struct TemporaryFile {
  explicit TemporaryFile(const std::string& text)
      : path((std::filesystem::temp_directory_path() / "simrun_diagnostics_test.yaml").string()) {
    std::ofstream(path, std::ios::binary) << text;
  }
  ~TemporaryFile() { std::filesystem::remove(path); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  std::string path;
};

}  // namespace

TEST_CASE("a rendered problem shows its line with a caret under the column, then the hint") {
  const TemporaryFile file("parallelism:\n  pipeline_model_paralel_size: 4\n");
  CHECK(render({{{file.path, 2, 3},
                 "unknown key 'pipeline_model_paralel_size' in 'parallelism'",
                 "did you mean 'pipeline_model_parallel_size'?"}}) ==
        file.path +
            ":2:3: error: unknown key 'pipeline_model_paralel_size' in 'parallelism'\n"
            "    pipeline_model_paralel_size: 4\n"
            "    ^\n"
            "  hint: did you mean 'pipeline_model_parallel_size'?\n"
            "1 error; nothing was run.\n");
}

TEST_CASE("a problem without a line, or in a file that is not there, is rendered without a source line") {
  CHECK(render({{{"--set a.b=1", 0, 0}, "no", ""}, {{"/nowhere.yaml", 3, 4}, "also no", "write yes."}}) ==
        "--set a.b=1: error: no\n"
        "/nowhere.yaml:3:4: error: also no\n"
        "  hint: write yes.\n"
        "2 errors; nothing was run.\n");
}

TEST_CASE("the caret stands under its character after multi-byte ones, tabs and Windows line ends") {
  const TemporaryFile file("a: \xc3\xa9 b\r\n\tc: d\r\n");
  CHECK(render({{{file.path, 1, 7}, "here", ""}}).find("  a: \xc3\xa9 b\n       ^\n") != std::string::npos);
  CHECK(render({{{file.path, 2, 5}, "here", ""}}).find("  \tc: d\n  \t   ^\n") != std::string::npos);
}

TEST_CASE("a line too long for a terminal is cut around the caret, and control characters are masked") {
  const TemporaryFile file(std::string(500, 'a') + "X" + std::string(500, 'b') + "\nx\x1b[31mred\n");
  const std::string text = render({{{file.path, 1, 501}, "here", ""}});
  CHECK(text.find("aX") != std::string::npos);
  CHECK(text.size() < 500);
  CHECK(render({{{file.path, 2, 1}, "here", ""}}).find("x?[31mred") != std::string::npos);
}

TEST_CASE("closest finds one slip and never guesses a word that shares less than half") {
  const std::vector<std::string> keys = {"tensor_model_parallel_size", "nodes", "gpu", "precision"};
  CHECK(closest("tensor_model_paralel_size", keys) == "tensor_model_parallel_size");
  CHECK(closest("ndoes", keys) == "nodes");
  CHECK(closest("precisoin", keys) == "precision");
  CHECK(closest("cpu", keys) == "gpu");
  CHECK(closest("xy", keys).empty());
  CHECK(closest("banana", keys).empty());
  CHECK(closest("", keys).empty());
  CHECK(closest(std::string(100'000, 'n'), keys).empty());
}

TEST_CASE("a ConfigError says its first problem as an exception too") {
  const ConfigError error({{{"a.yaml", 2, 3}, "first", ""}, {{"a.yaml", 4, 5}, "second", ""}});
  CHECK(std::string(error.what()) == "a.yaml:2:3: error: first");
  CHECK(error.diagnostics().size() == 2);
}
