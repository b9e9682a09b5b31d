#include "tests/cli/run_simrun.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "cli/run.h"

namespace simrun {
namespace {

constexpr std::string_view for_the_shell = "\n\t\"\\|&;<>()$`*?[]{}#~!";

// The words of a command line as a shell makes them, where it has no more to do than to take quotes away.
std::optional<std::vector<std::string>> words_of(const std::string& line) {
  std::vector<std::string> words;
  bool in_word = false, quoted = false;
  for (const char c : line) {
    if (!quoted && for_the_shell.find(c) != std::string_view::npos) return std::nullopt;
    const bool ends_word = !quoted && c == ' ';
    if (!ends_word && !in_word) words.emplace_back();
    in_word = !ends_word;
    if (c == '\'')
      quoted = !quoted;
    else if (in_word)
      words.back() += c;
  }
  if (quoted) return std::nullopt;
  return words;
}

// What simrun is started with: Catch2's handlers of signals would print a test's failure.
void start_as_simrun(int output) {
  for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  ::dup2(::open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  std::setvbuf(stdout, nullptr, _IOFBF, BUFSIZ);
  ::setenv("SIMRUN_CONFIGS", SIMRUN_SOURCE_DIR "/configs", 1);
  const std::filesystem::path program = SIMRUN_PROGRAM;
  ::setenv("SIMRUN_PLUGIN_PATH", program.parent_path().c_str(), 0);
}

[[noreturn]] void become_simrun(std::vector<std::string> words) noexcept {
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
  if (child == 0) {
    ::close(ends[0]);
    start_as_simrun(ends[1]);
    become_simrun(*words);
  }
  ::close(ends[1]);
  std::FILE* const pipe = ::fdopen(ends[0], "r");
  REQUIRE(child > 0);
  REQUIRE(pipe != nullptr);
  Ran ran;
  ran.output = read_all(pipe);
  std::fclose(pipe);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  ran.code = shell_code(status);
  return ran;
}

}  // namespace simrun
