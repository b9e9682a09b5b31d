#include <algorithm>
#include <catch2/catch.hpp>
#include <cctype>
#include <filesystem>
#include <set>

#include "tests/cli/run_simrun.h"

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

TEST_CASE("docs: every command of a schedule without a model runs, in the order in which they stand",
          "[long]") {
  const Scratch scratch;
  const InFolder here(scratch.file(""));
  const std::string command = "simrun --schedule ";
  int ran = 0;
  for (const std::string& line : lines_of(read(SIMRUN_SOURCE_DIR "/docs/playground.md"))) {
    if (!line.starts_with(command)) continue;
    CAPTURE(line);
    CHECK(run_simrun(line.substr(std::string("simrun ").size())).code == 0);  // the shell drops the comment
    ++ran;
  }
  CHECK(ran >= 8);
}

TEST_CASE("docs: the schedule that they show is what the program prints") {
  const std::string readme = read(SIMRUN_SOURCE_DIR "/docs/playground.md");
  const std::string prompt = "\n$ simrun --schedule ";
  const std::size_t at = readme.find(prompt);
  REQUIRE(at != std::string::npos);
  const std::size_t output = readme.find('\n', at + 1) + 1;
  const std::string arguments = readme.substr(at + 10, output - 1 - (at + 10));
  const std::string shown = readme.substr(output, readme.find("```", output) - output);
  CHECK(run_simrun(arguments + " --no-html").output == shown);
}

// What GitHub makes of a heading for links: lower case, words joined by hyphens, nothing else.
std::string anchor_of(const std::string& heading) {
  std::string anchor;
  for (const char c : heading.substr(heading.find_first_not_of("# "))) {
    if (c == ' ' || c == '-') anchor += '-';
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_')
      anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return anchor;
}

// The document without what stands between ``` lines.
std::string prose_of(const std::string& document) {
  std::string prose;
  bool code = false;
  for (const std::string& line : lines_of(document)) {
    if (line.find("```") == line.find_first_not_of(' ') && line.find("```") != std::string::npos)
      code = !code;
    if (!code) prose += line + "\n";
  }
  return prose;
}

std::set<std::string> anchors_of(const std::string& document) {
  std::set<std::string> anchors;
  for (const std::string& line : lines_of(prose_of(document)))
    if (line.starts_with("#")) anchors.insert(anchor_of(line));
  return anchors;
}

TEST_CASE("README and docs: every link leads to a file and a heading that are there") {
  std::vector<std::filesystem::path> documents = {SIMRUN_SOURCE_DIR "/README.md"};
  for (const auto& entry : std::filesystem::directory_iterator(SIMRUN_SOURCE_DIR "/docs"))
    if (entry.path().extension() == ".md") documents.push_back(entry.path());
  int links = 0;
  for (const std::filesystem::path& document : documents) {
    const std::string text = prose_of(read(document.string()));
    for (std::size_t at = text.find("]("); at != std::string::npos; at = text.find("](", at + 1)) {
      const std::string target = text.substr(at + 2, text.find(')', at) - at - 2);
      if (target.starts_with("http")) continue;
      CAPTURE(document.string(), target);
      const std::size_t hash = std::min(target.find('#'), target.size());
      const std::filesystem::path file =
          hash == 0 ? document : document.parent_path() / target.substr(0, hash);
      REQUIRE(std::filesystem::exists(file));
      if (hash < target.size()) CHECK(anchors_of(read(file.string())).count(target.substr(hash + 1)) == 1);
      ++links;
    }
  }
  CHECK(links > 40);
}

// `key: value` lines of the effective job, without the names that a job gives itself.
std::set<std::string> keys_of(const std::string& config, const std::string& section) {
  std::set<std::string> keys;
  bool inside = false;
  for (const std::string& line : lines_of(config)) {
    if (!line.empty() && std::isalpha(static_cast<unsigned char>(line[0])))
      inside = line.starts_with(section + ":");
    const std::size_t first = line.find_first_not_of(' ');
    if (!inside || first == std::string::npos || first != 2 || line[first] == '#') continue;
    keys.insert(line.substr(first, line.find(':') - first));
  }
  return keys;
}

TEST_CASE("docs/job.md has every key of a job's sections that --print-config prints") {
  const std::string document = read(SIMRUN_SOURCE_DIR "/docs/job.md");
  const std::string config =
      run_simrun(SIMRUN_SOURCE_DIR "/configs/jobs/deepseek-v3-1024xh100.yaml --print-config").output;
  int known = 0;
  for (const char* section : {"training", "parallelism", "moe", "optimizer", "recompute", "cluster"}) {
    for (const std::string& key : keys_of(config, section)) {
      CAPTURE(section, key);
      CHECK(document.find("`" + key) != std::string::npos);
      ++known;
    }
  }
  CHECK(known > 40);
}

// Keys at the left margin.
std::set<std::string> top_keys_of(const std::string& yaml) {
  std::set<std::string> keys;
  for (const std::string& line : lines_of(yaml))
    if (!line.empty() && std::isalpha(static_cast<unsigned char>(line[0])))
      keys.insert(line.substr(0, line.find(':')));
  return keys;
}

TEST_CASE("docs/job.md has every key of a GPU's file, and those that Megatron-LM's names give a gpt") {
  const std::string document = read(SIMRUN_SOURCE_DIR "/docs/job.md");
  std::set<std::string> keys;
  for (const auto& entry : std::filesystem::directory_iterator(SIMRUN_SOURCE_DIR "/configs/gpus"))
    if (entry.path().extension() == ".yaml") keys.merge(top_keys_of(read(entry.path().string())));
  const std::string layers = " --set model.swiglu=true --set model.ffn_hidden_size=1024";
  for (const char* more : {"", " --set model.num_experts=4", " --set model.position_embedding_type=rope"})
    keys.merge(keys_of(run_simrun(tiny + " --print-config" + layers + more).output, "model"));
  for (const std::string& key : keys) {
    CAPTURE(key);
    CHECK(document.find("`" + key + "`") != std::string::npos);
  }
  CHECK(keys.size() > 20);
}

TEST_CASE("docs/command-line.md has every flag of --help") {
  const std::string document = read(SIMRUN_SOURCE_DIR "/docs/command-line.md");
  int flags = 0;
  for (const std::string& line : lines_of(run_simrun("--help").output)) {
    if (!line.starts_with("  -")) continue;
    const std::string flag = line.substr(2, line.find_first_of(" ,:", 2) - 2);  // -q of -q,--quiet
    CAPTURE(flag);
    CHECK(document.find(flag) != std::string::npos);
    ++flags;
  }
  CHECK(flags > 60);
}

}  // namespace
}  // namespace simrun
