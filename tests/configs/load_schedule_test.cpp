#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "small_job.h"

using namespace simrun;
using namespace simrun::test;

namespace {

namespace fs = std::filesystem;

std::string with_schedule(const std::string& lines) {
  return edited("parallelism:\n", "parallelism:\n" + lines);
}

// A folder with a job and a CSV beside it.
class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / "simrun-load-schedule") { fs::create_directories(path_); }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(file(name)) << text;
    return file(name);
  }

 private:
  fs::path path_;
};

}  // namespace

TEST_CASE("a schedule's CSV lies beside the job, and its text is part of the job") {
  const Folder folder;
  const std::string csv = folder.write("mine.csv", "0F0,0B0\n1F0,1B0\n");
  const std::string job = folder.write("job.yaml", with_schedule("  pipeline_schedule: mine.csv\n"));
  const LoadedJob loaded = load_job(job, with_presets());
  CHECK(loaded.job.parallelism.pipeline_schedule == "mine.csv");
  REQUIRE(loaded.job.parallelism.schedule_csv.has_value());
  CHECK(loaded.job.parallelism.schedule_csv->path == csv);
  CHECK(loaded.job.parallelism.schedule_csv->text == "0F0,0B0\n1F0,1B0\n");
  CHECK(loaded.files.back().ends_with("h100_sxm.yaml"));
  CHECK(std::ranges::find(loaded.files, csv) != loaded.files.end());
  CHECK(loaded.schedule_position.line == 14);
  CHECK(loaded.schedule_position.column == 22);

  SECTION("the effective config loads to an equal job from anywhere") {
    CHECK(load_job_text(loaded.effective_yaml, "job.yaml", with_presets()).job == loaded.job);
  }
  SECTION("the hash follows the text, not the place") {
    fs::create_directories(folder.file("other"));
    folder.write("other/copy.csv", "0F0,0B0\n1F0,1B0\n");
    folder.write("changed.csv", "0F0,0B0\n1F0,1B0\n\n");
    const auto hash = [&](const std::string& path) {
      LoadOptions options = with_presets();
      options.overrides = {{"parallelism.pipeline_schedule", path}};
      return load_job(job, options).job.config_sha256;
    };
    CHECK(hash("other/copy.csv") == loaded.job.config_sha256);
    CHECK(hash(folder.file("other/copy.csv")) == loaded.job.config_sha256);
    CHECK(hash("changed.csv") != loaded.job.config_sha256);
    CHECK(hash("1f1b") != loaded.job.config_sha256);
  }
}

TEST_CASE("a CSV that cannot be read is refused at its key") {
  CHECK(refusal(with_schedule("  pipeline_schedule: no/such.csv\n")) ==
        "job.yaml:14:22: error: cannot read 'no/such.csv': no such file\n1 error; nothing was run.\n");
  const Folder folder;
  fs::create_directories(folder.file("folder.csv"));
  CHECK(refusal(with_schedule("  pipeline_schedule: " + folder.file("folder.csv") + "\n"))
            .find("it is a directory") != std::string::npos);
}

TEST_CASE("only schedules that plan within a memory limit take one, at least an activation per stage") {
  const auto limit = [](const std::string& schedule) {
    return load(with_schedule(schedule)).parallelism.pipeline_memory_limit;
  };
  CHECK(limit("  pipeline_schedule: zb_auto\n") == 4);  // twice the 2 ranks
  CHECK(limit("  pipeline_schedule: zb_auto\n  pipeline_memory_limit: 3\n") == 3);
  CHECK(limit("  pipeline_schedule: auto\n  pipeline_memory_limit: 3\n") == 3);
  CHECK(limit("  pipeline_schedule: auto\n") == 0);
  CHECK(refusal(with_schedule("  pipeline_memory_limit: 3\n")) ==
        "job.yaml:14:26: error: 1f1b keeps to no pipeline_memory_limit\n"
        "  hint: zb_auto, v_auto and auto do.\n1 error; nothing was run.\n");
  CHECK(problems_of(with_schedule("  virtual_pipeline_model_parallel_size: 2\n  pipeline_schedule: v_auto\n"
                                  "  pipeline_memory_limit: 1\n"))
            .at(0)
            .message ==
        "a rank holds an activation of each of its 2 stages at once: pipeline_memory_limit must be at least "
        "2, not 1");
  CHECK(refusal(with_schedule("  pipeline_schedule: zb_auto\n  pipeline_memory_limit: 0\n")) != "accepted");
}

TEST_CASE("schedules that plans cannot hold are refused with the rule that they break") {
  for (const char* name : {"pipedream", "async_1f1b"}) {
    CAPTURE(name);
    const std::vector<Diagnostic> problems =
        problems_of(with_schedule(std::string("  pipeline_schedule: ") + name + "\n"));
    REQUIRE(problems.size() == 1);
    CHECK(problems[0].message ==
          "pipedream updates the weights without a flush, and a plan's step ends with one update behind all "
          "microbatches; simrun --schedule pipedream draws it");
  }
}
