#include "tests/cli/run_program.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>
#include <iterator>

namespace simrun {

namespace fs = std::filesystem;

std::string read_all(std::FILE* pipe) {
  std::string text;
  std::array<char, 4096> chunk{};
  for (std::size_t count = 0; (count = std::fread(chunk.data(), 1, chunk.size(), pipe)) > 0;)
    text.append(chunk.data(), count);
  return text;
}

int shell_code(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

Ran run_simrun_in_shell(const std::string& arguments) {
  const std::string command =
      "SIMRUN_CONFIGS=" SIMRUN_SOURCE_DIR "/configs " SIMRUN_PROGRAM " " + arguments + " 2>&1 </dev/null";
  std::FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  Ran ran;
  ran.output = read_all(pipe);
  ran.code = shell_code(::pclose(pipe));
  return ran;
}

Scratch::Scratch() {
  static int count = 0;
  path_ = fs::temp_directory_path() /
          ("simrun-test-" + std::to_string(::getpid()) + "-" + std::to_string(++count));
  fs::remove_all(path_);
  fs::create_directories(path_);
}

Scratch::~Scratch() { fs::remove_all(path_); }

std::string Scratch::write(const std::string& name, const std::string& text) const {
  std::ofstream(file(name), std::ios::binary) << text;
  return file(name);
}

std::size_t Scratch::files() const {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
}

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace simrun
