#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/run_simrun.h"

namespace simrun {
namespace {

const std::string planned_job = SIMRUN_SOURCE_DIR "/configs/jobs/tiny-4xa100.yaml";

}  // namespace

TEST_CASE("--plan CONFIG prints the best ways to split a job and writes the first as a job of its own",
          "[long]") {
  const Scratch scratch;
  const std::string best = scratch.file("best.yaml");
  const Ran planned =
      run_simrun("--plan " + planned_job + " -o " + best + " --json --set plan.evaluations=16");
  CAPTURE(planned.output);
  REQUIRE(planned.code == 0);
  const auto found = nlohmann::json::parse(planned.output);
  CHECK(found["candidates"] >= found["feasible"]);
  CHECK(found["feasible"] >= found["best"].size());
  CHECK(found["evaluated"] >= 16);
  CHECK(found["seconds"].is_number());
  REQUIRE(!found["best"].empty());
  const auto& first = found["best"][0];
  CHECK(first["config"].get<std::string>().find("simrun: 1") != std::string::npos);
  for (const auto& other : found["best"]) {
    CHECK(other["step_time_s"] >= first["step_time_s"]);
    const auto& estimated = other["estimated_step_time_s"];
    CHECK((estimated.is_null() || estimated > 0));
    CHECK(estimated.is_null() == other["estimated_peak_bytes"].is_null());
  }
  // The file is a job that takes what was promised, to the last digit, and runs.
  const auto run = nlohmann::json::parse(run_simrun(best + " --json --no-html").output);
  CHECK(run["step_time_s"] == first["step_time_s"]);
  CHECK(run["peak_memory_bytes"] == first["peak_memory_bytes"]);
  CHECK(run["likely"] == found["likely"]);
  CHECK(run_simrun(best + " --execute --no-html").code == 0);
  // As good as the job as written.
  const auto written = nlohmann::json::parse(run_simrun(planned_job + " --json --no-html").output);
  CHECK(first["step_time_s"] <= written["step_time_s"]);
}

// A model, a cluster and a batch. Six sequences do not divide by the four GPUs: as data parallel alone, which
// a job without sizes is, no step has them.
TEST_CASE("--plan needs no more than a model, a cluster and a global batch", "[long]") {
  const Scratch scratch;
  const std::string job = scratch.file("bare.yaml");
  std::ofstream(job) << "simrun: 1\n"
                        "model: {model_type: gpt, num_layers: 4, hidden_size: 256, num_attention_heads: 4, "
                        "vocab_size: 1024, attention_dropout: 0, hidden_dropout: 0}\n"
                        "training: {global_batch_size: 6, seq_length: 128, precision: bf16}\n"
                        "cluster: {from: dgx_a100, nodes: 1, gpus_per_node: 4}\n";
  CHECK(run_simrun(job + " --no-html").code == 2);
  for (const char* search : {"", " --plan alpa", " --plan galvatron"}) {
    CAPTURE(search);
    const std::string best = scratch.file("best.yaml");
    const Ran planned = run_simrun((*search == '\0' ? "--plan " + job : job + search) + " -o " + best +
                                   " --json --set plan.evaluations=16");
    CAPTURE(planned.output);
    REQUIRE(planned.code == 0);
    const auto first = nlohmann::json::parse(planned.output)["best"][0];
    const auto run = nlohmann::json::parse(run_simrun(best + " --json --no-html").output);
    CHECK(run["step_time_s"] == first["step_time_s"]);
  }
  // What is written stays, and what is wrong is said of what was written.
  const Ran kept = run_simrun("--plan " + job + " -o " + scratch.file("kept.yaml") +
                              " --json --set plan.fix.tensor_model_parallel_size=4");
  REQUIRE(kept.code == 0);
  const auto kept_best = nlohmann::json::parse(kept.output)["best"];
  for (const auto& one : kept_best)
    CHECK(one["config"].get<std::string>().find("tensor_model_parallel_size: 4") != std::string::npos);
  const Ran wrong = run_simrun("--plan " + job + " --set training.global_batch_size=0");
  CHECK(wrong.code == 2);
  CHECK(wrong.output.find("global_batch_size") != std::string::npos);
  CHECK(wrong.output.find("pipeline_model_parallel_size") == std::string::npos);
}

TEST_CASE("a training's cost is that of its tokens", "[long]") {
  const Scratch scratch;
  const Ran planned = run_simrun("--plan " + planned_job + " -o " + scratch.file("b.yaml") +
                                 " --json --set training.tokens=1024000 --set plan.price_per_gpu_hour=2 "
                                 "--set plan.watts_per_gpu=500 --set plan.evaluations=8");
  CAPTURE(planned.output);
  REQUIRE(planned.code == 0);
  // 8 sequences of 128 tokens are 1,024 a step: 1,000 steps on 4 GPUs.
  const auto first = nlohmann::json::parse(planned.output)["best"][0];
  const double hours = 1000 * first["step_time_s"].get<double>() * 4 / 3600;
  CHECK(first["gpu_hours"].get<double>() == Approx(hours));
  CHECK(first["money"].get<double>() == Approx(2 * hours));
  CHECK(first["kilowatt_hours"].get<double>() == Approx(hours / 2));
}

TEST_CASE("wrong limits of a search are refused together, each at its place", "[long]") {
  const Ran bad = run_simrun("--plan " + planned_job +
                             " --set plan.minimise=tme --set plan.fix.tensor=2 --set plan.max_memory=big");
  CAPTURE(bad.output);
  CHECK(bad.code == 2);
  CHECK(bad.output.find("3 errors") != std::string::npos);
  const Ran contradiction = run_simrun("--plan " + planned_job + " --set plan.fix.data_parallel_size=3");
  CHECK(contradiction.code == 2);
  CHECK(contradiction.output.find("data_parallel_size is not 3") != std::string::npos);
  CHECK(contradiction.output.find("with the other limits it can be 1, 2, 4.") != std::string::npos);
  const Scratch scratch;
  const Ran nothing =
      run_simrun("--plan " + planned_job + " --set plan.max_memory='1 MiB' -o " + scratch.file("best.yaml"));
  CHECK(nothing.code == 3);
  CHECK(nothing.output.find("nothing fits; the nearest needs") != std::string::npos);
  CHECK(nothing.output.find("without plan.max_memory it fits: ") != std::string::npos);
  const Ran roomy = run_simrun("--plan " + planned_job + " --set plan.max_memory='200 GiB' -o " +
                               scratch.file("best.yaml"));
  CHECK(roomy.output.find("plan.max_memory is 200.0 GiB, more than the largest GPU has ") !=
        std::string::npos);
  const Ran hosts =
      run_simrun("--plan " + planned_job +
                 " --set offload.optimizer=cpu --set \"cluster.host={memory: 1 MiB, "
                 "memory_bandwidth: 400 GB/s, flops: 9 TFLOP/s, pcie_bandwidth: 31.5 GB/s}\" -o " +
                 scratch.file("best.yaml"));
  CAPTURE(hosts.output);
  CHECK(hosts.code == 3);
  CHECK(hosts.output.find(" more than its node's host has: ") != std::string::npos);
  CHECK(hosts.output.find(" -") == std::string::npos);  // no negative number of bytes
  const Ran both = run_simrun("--plan " + planned_job +
                              " --set plan.max_memory='1 MiB' --set offload.optimizer=cpu --set "
                              "\"cluster.host={memory: 1 MiB, memory_bandwidth: 400 GB/s, flops: 9 TFLOP/s, "
                              "pcie_bandwidth: 31.5 GB/s}\" -o " +
                              scratch.file("best.yaml"));
  CAPTURE(both.output);
  CHECK(both.output.find("that it may have, and ") != std::string::npos);
  const Ran json = run_simrun("--plan " + planned_job + " --json --set plan.max_memory='1 MiB' -o " +
                              scratch.file("best.yaml"));
  CHECK(json.code == 3);
  const auto read = nlohmann::json::parse(json.output);
  CHECK(read["nearest"]["peak_memory_bytes"] > read["nearest"]["memory_limit_bytes"]);
  CHECK(read["nearest_that_fits"]["change"] == "without plan.max_memory");
  CHECK(read["nearest_that_fits"]["best"]["step_time_s"] > 0);
}

TEST_CASE("the plan of a job that names a file beside it is a job for any folder", "[long]") {
  const Scratch scratch;
  scratch.write("small.yaml",
                "model_type: gpt\nnum_layers: 2\nhidden_size: 64\nnum_attention_heads: 2\nvocab_size: 128\n"
                "attention_dropout: 0\nhidden_dropout: 0\n");
  const std::string job =
      scratch.write("job.yaml",
                    "simrun: 1\nmodel: {from: small.yaml}\n"
                    "training: {global_batch_size: 4, micro_batch_size: 1, seq_length: 32, precision: bf16}\n"
                    "cluster: {from: dgx_a100, nodes: 1, gpus_per_node: 2, nics_per_node: 2}\n");
  const Scratch elsewhere;
  const std::string best = elsewhere.file("best.yaml");
  const Ran planned = run_simrun("--plan " + job + " --json --set plan.evaluations=4 -o " + best);
  CAPTURE(planned.output);
  REQUIRE(planned.code == 0);
  const auto run = nlohmann::json::parse(run_simrun(best + " --json --no-html").output);
  CHECK(run["step_time_s"] == nlohmann::json::parse(planned.output)["best"][0]["step_time_s"]);
}

TEST_CASE("a Plan is never written over another job's file") {
  const Scratch scratch;
  const std::string other = scratch.write("other.yaml", "simrun: 1\n");
  const Ran ran = run_simrun("--plan " + other + " " + planned_job + " --no-html");
  CHECK(ran.code == 2);
  CHECK(ran.output.find("a Plan's name ends in .plan") != std::string::npos);
  CHECK(read(other) == "simrun: 1\n");
}

TEST_CASE("--json takes no name: it says so instead of reading one as a job") {
  const Scratch scratch;
  const std::string out = scratch.file("out.json");
  for (const std::string& command :
       {"--plan " + planned_job + " --json " + out, "--plan whale " + planned_job + " --json " + out,
        planned_job + " --json " + out, "--json " + out + " " + planned_job}) {
    const Ran ran = run_simrun(command);
    CAPTURE(command, ran.output);
    CHECK(ran.code == 2);
    CHECK(ran.output == "simrun: error: " + out +
                            ": no such file; --json takes no name, it prints: simrun ... --json > " + out +
                            "\n");
  }
}

TEST_CASE("--resume takes up what an earlier search has simulated, and nobody else's") {
  const Scratch scratch;
  const std::string out = " -o " + scratch.file("best.yaml") + " --set plan.evaluations=8";
  CHECK(run_simrun("--plan " + planned_job + " --resume" + out).code == 2);  // nothing is there
  CHECK(run_simrun("--resume " + planned_job).code == 2);
}

}  // namespace simrun
