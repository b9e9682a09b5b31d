#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "small_job.h"

using namespace simrun;
using namespace simrun::test;

namespace {

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(SIMRUN_SOURCE_DIR "/configs/") + folder))
    if (entry.path().extension() == ".yaml") files.push_back(entry.path().string());
  std::ranges::sort(files);
  return files;
}

std::string stem(const std::string& file) { return std::filesystem::path(file).stem().string(); }

}  // namespace

TEST_CASE("every job preset loads, and its effective config loads again as an equal job") {
  const std::vector<std::string> files = files_in("jobs");
  CHECK(files.size() >= 5);
  for (const std::string& file : files) {
    CAPTURE(file);
    const LoadedJob first = load_job(file, with_presets());
    const LoadedJob again = load_job_text(first.effective_yaml, file, LoadOptions{});
    CHECK(again.job == first.job);
    CHECK(again.job.config_sha256 == first.job.config_sha256);
    std::int64_t layers = 0;
    for (const StageContent& stage : first.job.parallelism.stages) layers += stage.layers;
    CHECK(layers == first.job.model.num_layers);
  }
}

TEST_CASE("every job preset loads alike from presets that were parsed before") {
  for (const std::string& file : files_in("jobs")) {
    CAPTURE(file);
    const LoadedJob first = load_job(file, with_presets());
    LoadOptions options = with_presets();
    options.parsed = parsed_files(first.files);
    CHECK(options.parsed.size() >= 3);  // the job, its model or its cluster, the cluster's GPU
    const LoadedJob again = load_job(file, options);
    CHECK(again.job == first.job);
    CHECK(again.effective_yaml == first.effective_yaml);
    CHECK(again.files == first.files);
  }
}

TEST_CASE("a preset that was parsed before is not read again") {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "simrun-parsed-presets";
  std::filesystem::create_directories(folder);
  const auto write_gpu = [&](const char* memory) {
    std::ofstream(folder / "own.yaml") << "from: h100_sxm\nmemory: " << memory << "\n";
  };
  const std::string job = (folder / "job.yaml").string();
  LoadOptions options = with_presets();
  options.overrides = {{"cluster.gpu", "own"}};
  write_gpu("70 GiB");
  options.parsed = parsed_files(load_job_text(small_job, job, options).files);
  write_gpu("60 GiB");
  CHECK(load_job_text(small_job, job, options).job.cluster.gpu.memory_bytes == std::int64_t{70} << 30);
  options.parsed.clear();
  CHECK(load_job_text(small_job, job, options).job.cluster.gpu.memory_bytes == std::int64_t{60} << 30);
  std::filesystem::remove_all(folder);
}

TEST_CASE("a job names the files that it was read from, and may be called like a preset that it uses") {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "simrun-named-like-a-preset";
  std::filesystem::create_directories(folder);
  const std::string path = (folder / "gpt2.yaml").string();
  std::ofstream(path)
      << "simrun: 1\nmodel: {from: gpt2}\n"
         "training: {seq_length: 1024, micro_batch_size: 1, global_batch_size: 8, precision: bf16}\n"
         "cluster: {from: dgx_h100, nodes: 1}\n";
  const LoadedJob loaded = load_job(path, with_presets());
  CHECK(loaded.job.model.num_layers == 12);
  REQUIRE(loaded.files.size() == 4);  // the job, the model, the cluster and its GPU
  CHECK(loaded.files.at(0) == path);
  CHECK(loaded.files.at(1).ends_with("models/gpt2.yaml"));
  std::filesystem::remove_all(folder);
}

TEST_CASE("every GPU preset loads, with its numbers in a plausible order") {
  for (const std::string& file : files_in("gpus")) {
    CAPTURE(file);
    LoadOptions options = with_presets();
    options.overrides = {{"cluster.gpu", stem(file)},
                         {"training.precision", "fp16"},
                         {"cluster.intra_node.bandwidth", "16 GB/s"}};
    const LoadedJob loaded = load_job_text(small_job, "job.yaml", options);
    const Gpu& gpu = loaded.job.cluster.gpu;
    CHECK(gpu.name == stem(file));
    CHECK(gpu.peak_flops.at(Dtype::fp16) >= gpu.peak_flops.at(Dtype::fp32));
    CHECK(gpu.memory_bandwidth >= 300e9);
    CHECK(gpu.memory_bytes > gpu.l2_bytes);
    CHECK(gpu.matmul_efficiency <= 1);
    CHECK(load_job_text(loaded.effective_yaml, "job.yaml", LoadOptions{}).job == loaded.job);
  }
}

TEST_CASE("every cluster preset loads") {
  for (const std::string& file : files_in("clusters")) {
    CAPTURE(file);
    LoadOptions options = with_presets();
    options.overrides = {{"cluster.nodes", "2"}};
    const Cluster cluster = load_cluster(stem(file), options);
    CHECK(cluster.name == stem(file));
    CHECK(cluster.nodes == 2);
    CHECK(cluster.gpus_per_node >= 4);
    CHECK(cluster.inter_node.bandwidth > 0);
  }
}

TEST_CASE("every model preset loads and keeps its shape over a reload") {
  for (const std::string& file : files_in("models")) {
    CAPTURE(file);
    std::ifstream preset(file);
    const std::string text{std::istreambuf_iterator<char>(preset), {}};
    // Image models have none, and a vision-language model's counts the image's tokens.
    const std::string length = text.find("vision_config") != std::string::npos ? "seq_length: 1024, "
                               : text.find("image_size") != std::string::npos  ? ""
                                                                               : "seq_length: 512, ";
    const LoadedJob loaded = load_job_text("simrun: 1\nmodel: {from: " + stem(file) + R"(}
training: {)" + length + R"(micro_batch_size: 1, global_batch_size: 8, precision: bf16}
cluster: {from: dgx_h100, nodes: 1}
)",
                                           "job.yaml", with_presets());
    CHECK(load_job_text(loaded.effective_yaml, "job.yaml", LoadOptions{}).job == loaded.job);
  }
}

TEST_CASE("the effective config says of every value where it comes from") {
  const std::string file = SIMRUN_SOURCE_DIR "/configs/jobs/llama3-70b-64xh100.yaml";
  const std::string yaml = load_job(file, with_presets()).effective_yaml;
  std::size_t start = 0;
  while (start < yaml.size()) {
    const std::string line = yaml.substr(start, yaml.find('\n', start) - start);
    start += line.size() + 1;
    CAPTURE(line);
    const bool is_section = line.ends_with(":");
    const bool has_origin = line.find("  # from ") != std::string::npos ||
                            line.find("  # default") != std::string::npos ||
                            line.find("  # derived") != std::string::npos;
    CHECK(is_section != has_origin);
  }
  CHECK(yaml.find("num_hidden_layers: 80 ") != std::string::npos);
  CHECK(yaml.find("configs/models/llama3-70b.yaml:3\n") != std::string::npos);
  CHECK(yaml.find("data_parallel_size: 2 ") != std::string::npos);
}

TEST_CASE("the published jobs have their published shapes") {
  const auto preset = [](const std::string& name) {
    return load_job(SIMRUN_SOURCE_DIR "/configs/jobs/" + name + ".yaml", with_presets()).job;
  };
  const Job llama = preset("llama3-70b-64xh100");
  CHECK(llama.parallelism.data_parallel_size == 2);
  CHECK(llama.microbatches() == 64);
  CHECK(llama.parallelism.stages.size() == 20);
  const Job gpt3 = preset("gpt3-175b-1024xa100");
  CHECK(gpt3.world_size() == 1024);
  CHECK(gpt3.parallelism.data_parallel_size == 16);
  CHECK(gpt3.microbatches() == 96);
  const Job trillion = preset("gpt-1t-3072xa100");
  CHECK(trillion.world_size() == 3072);
  CHECK(trillion.parallelism.data_parallel_size == 6);
  CHECK(trillion.microbatches() == 512);
  CHECK(preset("llama3-8b-8xh100").parallelism.data_parallel_size == 4);
}

TEST_CASE("a file that starts from itself, through others or not, is refused") {
  const auto folder = std::filesystem::temp_directory_path() / "simrun_presets_test";
  std::filesystem::create_directories(folder);
  const auto write = [&](const char* name, const char* text) {
    FILE* file = std::fopen((folder / name).c_str(), "w");
    REQUIRE(file != nullptr);
    std::fputs(text, file);
    std::fclose(file);
  };
  write("a.yaml", "from: b\n");
  write("b.yaml", "from: a.yaml\n");
  const std::string text = edited("  model_type: gpt\n", "  from: " + (folder / "a").string() + "\n");
  const std::vector<Diagnostic> problems = problems_of(text);
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].message == "'from' leads back to 'a.yaml', which led here");

  for (int file = 0; file < 10; ++file)
    write(("c" + std::to_string(file) + ".yaml").c_str(), ("from: c" + std::to_string(file + 1)).c_str());
  const std::string chain = edited("  model_type: gpt\n", "  from: " + (folder / "c0").string() + "\n");
  CHECK(problems_of(chain).at(0).message == "'from' leads through more than 8 files");
  std::filesystem::remove_all(folder);
}

TEST_CASE(
    "a job or a result beside the job is not taken for a preset of its name, unless there is no other") {
  const auto folder = std::filesystem::temp_directory_path() / "simrun_jobs_like_presets";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "h100_sxm.yaml") << small_job;
  std::ofstream(folder / "dgx_h100.yaml") << "simrun: 1\nmodel: {from: gpt2}\n";
  std::ofstream(folder / "mine.yaml") << "simrun: 1\nmodel_type: gpt\nnum_layers: 2\n";
  const auto load_here = [&](const std::string& text) {
    return load_job_text(text, (folder / "job.yaml").string(), with_presets());
  };
  CHECK(load_here(edited("nodes: 1", "nodes: 1, gpu: h100_sxm")).job.cluster.gpu.memory_bytes == 85899345920);
  // What the shell makes for `simrun job.yaml --json > dgx_h100.json`, before and after.
  std::filesystem::remove(folder / "dgx_h100.yaml");
  for (const char* result :
       {"", "{\"schema_version\": 1, \"step_time_s\": 0.5}", "{\"a\": {\"schema_version\": 1}}"}) {
    std::ofstream(folder / "dgx_h100.json") << result;
    CHECK(load_here(small_job).job.cluster.gpus_per_node == 8);
  }
  const std::string mine = edited("model_type: gpt\n  num_layers: 8", "from: mine");
  CHECK(load_here(mine).job.model.num_layers == 2);
  std::filesystem::remove_all(folder);
}

TEST_CASE("a file that starts from its own name means the preset of that name") {
  const auto folder = std::filesystem::temp_directory_path() / "simrun_presets_over_presets";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "h100_sxm.yaml") << "from: h100_sxm\nmemory: 96 GiB\n";
  const LoadedJob loaded = load_job_text(edited("nodes: 1", "nodes: 1, gpu: h100_sxm"),
                                         (folder / "job.yaml").string(), with_presets());
  CHECK(loaded.job.cluster.gpu.memory_bytes == 103079215104);  // 96 x 2^30
  CHECK(loaded.files.size() == 4);                             // job, cluster, both GPUs
  std::filesystem::remove_all(folder);
}
