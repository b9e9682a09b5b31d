#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/cli/run_program.h"

namespace simrun {
namespace {

// The working directory, for as long as it lives: commands of the README write beside themselves.
class InFolder {
 public:
  explicit InFolder(const std::string& path) : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(path);
  }
  ~InFolder() { std::filesystem::current_path(before_); }
  InFolder(const InFolder&) = delete;
  InFolder& operator=(const InFolder&) = delete;

 private:
  std::filesystem::path before_;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

TEST_CASE("README: every command of a schedule without a model runs, in the order in which they stand",
          "[long]") {
  const Scratch scratch;
  const InFolder here(scratch.file(""));
  const std::string command = "simrun --schedule ";
  int ran = 0;
  for (const std::string& line : lines_of(read(SIMRUN_SOURCE_DIR "/README.md"))) {
    if (!line.starts_with(command)) continue;
    CAPTURE(line);
    CHECK(run_simrun(line.substr(std::string("simrun ").size())).code == 0);  // the shell drops the comment
    ++ran;
  }
  CHECK(ran >= 8);
}

TEST_CASE("README: the schedule that it shows is what the program prints") {
  const std::string readme = read(SIMRUN_SOURCE_DIR "/README.md");
  const std::string prompt = "\n$ simrun --schedule ";
  const std::size_t at = readme.find(prompt);
  REQUIRE(at != std::string::npos);
  const std::size_t output = readme.find('\n', at + 1) + 1;
  const std::string arguments = readme.substr(at + 10, output - 1 - (at + 10));
  const std::string shown = readme.substr(output, readme.find("```", output) - output);
  CHECK(run_simrun(arguments + " --no-html").output == shown);
}

}  // namespace
}  // namespace simrun
