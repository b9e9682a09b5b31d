#pragma once

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <string>

namespace simrun {

// The smallest job that comes with the program and is executed in a second.
inline const std::string tiny_gpt_job = SIMRUN_SOURCE_DIR "/configs/jobs/tiny-gpt-8ranks.yaml";

struct Ran {
  int code = -1;
  std::string output;  // standard output and error
};

// Runs the program with the shipped presets. `arguments` are for the shell; standard input is empty.
Ran run_simrun_in_shell(const std::string& arguments);

std::string read_all(std::FILE* pipe);
int shell_code(int status);  // of a process that waitpid() told of

// An empty folder that goes away with the test.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const;  // its path
  std::size_t files() const;

 private:
  std::filesystem::path path_;
};

std::string read(const std::string& path);

inline const std::string tiny = SIMRUN_SOURCE_DIR "/configs/jobs/tiny-4xa100.yaml";

}  // namespace simrun
