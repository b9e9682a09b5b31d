#include "cli/run.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "tests/cli/run_program.h"

namespace simrun {
namespace {

// The words of a command line as a shell makes them, where it has no more to do than to take quotes away.
std::optional<std::vector<std::string>> words_of(const std::string& line) {
  std::vector<std::string> words;
  bool in_word = false;
  bool quoted = false;
  for (const char c : line) {
    if (c == '\'') {
      quoted = !quoted;
      if (!in_word) words.emplace_back();
      in_word = true;
    } else if (quoted || std::string_view(" \n\t\"\\|&;<>()$`*?[]{}#~!").find(c) == std::string_view::npos) {
      if (!in_word) words.emplace_back();
      in_word = true;
      words.back() += c;
    } else if (c == ' ') {
      in_word = false;
    } else {
      return std::nullopt;
    }
  }
  return words;
}

[[noreturn]] void become_simrun(std::vector<std::string> words, int output) noexcept {
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  ::dup2(::open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  ::setenv("SIMRUN_CONFIGS", SIMRUN_SOURCE_DIR "/configs", 1);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int code = run_program(static_cast<int>(words.size()), arguments.data());
  std::fflush(nullptr);
  ::_exit(code);
}

}  // namespace

Ran run_simrun(const std::string& arguments) {
  const std::optional<std::vector<std::string>> words = words_of(SIMRUN_PROGRAM " " + arguments);
  if (!words) return run_simrun_in_shell(arguments);
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) become_simrun(*words, ends[1]);
  ::close(ends[1]);
  std::FILE* const pipe = ::fdopen(ends[0], "r");
  REQUIRE(pipe != nullptr);
  REQUIRE(child > 0);
  Ran ran;
  ran.output = read_all(pipe);
  std::fclose(pipe);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  ran.code = exit_code(status);
  return ran;
}

}  // namespace simrun
