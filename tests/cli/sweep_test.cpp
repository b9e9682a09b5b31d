#include <catch2/catch.hpp>
#include <filesystem>

#include "cli/sweep_point.h"
#include "cli/sweep_values.h"
#include "tests/cli/parsed_output.h"
#include "tests/cli/run_simrun.h"

namespace simrun {
namespace {

using Words = std::vector<std::string>;

TEST_CASE("sweep: values are split at commas outside brackets, braces and quotes") {
  CHECK(split_values("1,2,4") == Words{"1", "2", "4"});
  CHECK(split_values("100 Gb/s, 200 Gb/s") == Words{"100 Gb/s", "200 Gb/s"});
  CHECK(split_values("{a: [1, 2], b: 3},[4,5]") == Words{"{a: [1, 2], b: 3}", "[4,5]"});
  CHECK(split_values("'a,b',\"c\\\",d\"") == Words{"'a,b'", "\"c\\\",d\""});
  CHECK(split_values("'it''s, one',2") == Words{"'it''s, one'", "2"});
  CHECK(split_values("it's,two") == Words{"it's", "two"});
  CHECK(split_values("1..8,12") == Words{"1", "2", "4", "8", "12"});
  CHECK(split_values("3..7") == Words{"3", "6"});
  CHECK(split_values("8..1,../a.csv,0..4") == Words{"8..1", "../a.csv", "0..4"});
  for (const char* wrong : {"", "1,", ",1", "1,,2", "[1,2", "1]", "{1]", "'a", " , "}) {
    CAPTURE(wrong);
    CHECK_FALSE(split_values(wrong).has_value());
  }
}

TEST_CASE("sweep: a range that does not go up is refused, a path with dots is not") {
  CHECK(fault_of(split_values("8..1")) ==
        "8..1 is no range: one doubles a number from 1 on up to another, as 1..8");
  CHECK(fault_of(split_values("1,0..4")).starts_with("0..4 is no range"));
  CHECK(fault_of(split_values("1..8,../a.csv,2")).empty());
  CHECK(fault_of(split_values("1,,2")) == "a value is empty, or a bracket or quote is not closed");
  const Ran ran = run_simrun(tiny + " --sweep training.micro_batch_size=8..1");
  CHECK(ran.code == 2);
  CHECK(ran.output.find("--sweep training.micro_batch_size=8..1: 8..1 is no range") != std::string::npos);
}

TEST_CASE("sweep: points are the cross product, the last key's values varying fastest") {
  const std::vector<SweepKey> keys{{"a", {"1", "2"}}, {"b", {"x", "y", "z"}}};
  REQUIRE(points_of(keys) == 6);
  CHECK(values_of_point(keys, 0) == Words{"1", "x"});
  CHECK(values_of_point(keys, 2) == Words{"1", "z"});
  CHECK(values_of_point(keys, 3) == Words{"2", "x"});
  CHECK(values_of_point(keys, 5) == Words{"2", "z"});
}

TEST_CASE("sweep: 10,000 points are accepted, one more is not, however many keys") {
  const auto key = [](std::size_t values) { return SweepKey{"k", Words(values, "1")}; };
  CHECK(is_small_enough({key(100), key(100)}));
  CHECK_FALSE(is_small_enough({key(10001)}));
  CHECK_FALSE(is_small_enough(std::vector<SweepKey>(64, key(100))));
}

TEST_CASE("sweep: a row survives the way from its worker") {
  SweepRow row;
  row.numbers = SweepNumbers{.step_time_s = 0.1, .mfu = 0.3, .peak_memory_bytes = 12345, .fits = true};
  row.engine = "fast";
  row.error = "no";
  const SweepRow read_back = row_from_bytes(to_bytes(row));
  CHECK(read_back.numbers->step_time_s == 0.1);
  CHECK(read_back.numbers->peak_memory_bytes == 12345);
  CHECK(read_back.numbers->fits);
  CHECK((read_back.engine == "fast" && read_back.error == "no"));
  CHECK_FALSE(row_from_bytes(to_bytes(SweepRow{})).numbers);
  CHECK_THROWS_AS(row_from_bytes("x"), std::runtime_error);
}

const std::string two_keys =
    tiny + " --sweep parallelism.tensor_model_parallel_size=1,2,3 --sweep training.micro_batch_size=1,2 ";

TEST_CASE("program: a sweep gives a row for every combination, refused ones with their reason") {
  const ConfigNode rows = parsed_json(run_simrun(two_keys + "--json").output);
  REQUIRE(rows.children.size() == 6);
  const auto value = [&](std::size_t row, const char* key) {
    return member(member(rows.children[row], "values"), key).text;
  };
  for (std::size_t row = 0; row < 6; ++row) {
    CAPTURE(row);
    CHECK(value(row, "parallelism.tensor_model_parallel_size") == std::to_string(row / 2 + 1));
    CHECK(value(row, "training.micro_batch_size") == std::to_string(row % 2 + 1));
    const bool is_refused = row >= 4;  // 4 heads do not split into 3
    CHECK((rows.children[row].find("step_time_s") == nullptr) == is_refused);
    CHECK((rows.children[row].find("error") != nullptr) == is_refused);
  }
}

TEST_CASE("program: a point of a sweep has the numbers of a run with --set") {
  const ConfigNode rows = parsed_json(run_simrun(two_keys + "--json").output);
  const ConfigNode run = parsed_json(
      run_simrun(tiny +
                 " --set parallelism.tensor_model_parallel_size=2 --set training.micro_batch_size=1 --json")
          .output);
  for (const char* key : {"step_time_s", "tokens_per_s", "mfu", "bubble_fraction", "exposed_comm_s", "engine",
                          "peak_memory_bytes", "memory_limit_bytes", "ranks", "fits"}) {
    CAPTURE(key);
    CHECK(member(rows.children[2], key).text == member(run, key).text);
  }
}

TEST_CASE("program: a sweep's CSV, JSON and table agree, and two runs write the same bytes", "[long]") {
  const Scratch scratch;
  const std::string arguments =
      two_keys + "--csv " + scratch.file("a.csv") + " --html " + scratch.file("a.html");
  const Ran first = run_simrun(arguments);
  CAPTURE(first.output);
  REQUIRE(first.code == 0);
  CHECK(first.output.find("\n*") != std::string::npos);
  CHECK(first.output.find("refused: ") != std::string::npos);
  const std::string csv = read(scratch.file("a.csv")), page = read(scratch.file("a.html"));
  const ConfigNode rows = parsed_json(run_simrun(two_keys + "--json").output);
  const auto records = parsed_csv(csv);
  REQUIRE(records.size() == 7);
  for (std::size_t row = 0; row < 6; ++row) {
    CAPTURE(row);
    REQUIRE(records[row + 1].size() == records[0].size());
    for (std::size_t field = 2; field < records[0].size(); ++field) {
      const ConfigNode* json = rows.children[row].find(records[0][field]);
      CHECK(records[row + 1][field] == (json == nullptr ? "" : json->text));
    }
  }
  CHECK(run_simrun_in_shell(arguments).output == first.output);
  CHECK(read(scratch.file("a.csv")) == csv);
  CHECK(read(scratch.file("a.html")) == page);
}

TEST_CASE("program: the page of a sweep lies beside the job, fetches nothing and runs no script") {
  const Scratch scratch;
  const std::string job = scratch.write("job.yaml", read(tiny));
  REQUIRE(run_simrun(job + " --sweep training.micro_batch_size=1,2 -q").output.empty());
  const std::string page = read(scratch.file("job.sweep.html"));
  CHECK(page.find("<svg") != std::string::npos);
  for (const char* foreign : {"<script", "http", "@import", "url("})
    CHECK(page.find(foreign) == std::string::npos);
  CHECK(run_simrun(job + " --sweep training.micro_batch_size=1,2 --json").code == 0);
  CHECK(run_simrun(job + " --sweep training.micro_batch_size=1,2 --no-html").code == 0);
  CHECK(scratch.files() == 2);
}

TEST_CASE("program: a point that does not fit is a row with its numbers, and is never the best") {
  const Ran ran = run_simrun(
      tiny + " --sweep 'cluster.gpu={from: a100_sxm_80gb, memory: 2060 MiB},a100_sxm_80gb' --json");
  CHECK(ran.code == 0);
  const ConfigNode rows = parsed_json(ran.output);
  REQUIRE(rows.children.size() == 2);
  CHECK(member(rows.children[0], "fits").text == "false");
  CHECK(member(rows.children[0], "error").text.starts_with("does not fit: pp 0 needs 21.8 MiB"));
  CHECK(number(rows.children[0], "step_time_s") == number(rows.children[1], "step_time_s"));
  CHECK(run_simrun(tiny + " --no-html --sweep 'cluster.reserved_memory=80 GiB,79.999 GiB'")
            .output.find("no point of the sweep fits") != std::string::npos);
}

TEST_CASE("program: a sweep of which no point runs exits with 2") {
  const Ran ran = run_simrun(tiny + " --no-html --sweep training.precision=int4,int8");
  CHECK(ran.code == 2);
  CHECK(ran.output.find("refused: 'training.precision' cannot be 'int4'") != std::string::npos);
  CHECK(ran.output.find("no point of the sweep could be simulated") != std::string::npos);
}

TEST_CASE("program: a key that does not exist is refused once, before anything runs") {
  const Scratch scratch;
  const std::string job = scratch.write("job.yaml", read(tiny));
  const Ran ran = run_simrun(job + " --sweep parallelism.tensor_model_paralel_size=1,2,4");
  CHECK(ran.code == 2);
  CHECK(ran.output ==
        "--sweep parallelism.tensor_model_paralel_size=1: error: unknown key 'tensor_model_paralel_size' in "
        "'parallelism'\n  hint: did you mean 'tensor_model_parallel_size'?\n1 error; nothing was run.\n");
  CHECK(scratch.files() == 1);
}

TEST_CASE("program: a key that only one value of another key knows is no mistake") {
  const Ran ran =
      run_simrun(tiny +
                 " --json --sweep optimizer.zero_stage=0 --sweep 'model={from: gpt2},{from: llama3-8b}' "
                 "--sweep model.num_key_value_heads=8");
  CAPTURE(ran.output);
  CHECK(ran.code == 0);
  const ConfigNode rows = parsed_json(ran.output);
  REQUIRE(rows.children.size() == 2);
  CHECK(member(rows.children[0], "error").text.starts_with("unknown key 'num_key_value_heads'"));
  CHECK(rows.children[1].find("step_time_s") != nullptr);
}

TEST_CASE("program: sweeps that contradict the command line are refused in a line") {
  struct Case {
    const char* arguments;
    const char* said;
  };
  for (const Case& wrong :
       {Case{"a.yaml --sweep a.b", "--sweep takes KEY=A,B,C, not 'a.b'"},
        Case{"a.yaml --sweep a.b=1,,2", "a value is empty, or a bracket or quote is not closed"},
        Case{"a.yaml --sweep a.b=1 --sweep a.b=2", "--sweep names 'a.b' twice"},
        Case{"a.yaml --set a.b=3 --sweep a.b=1", "'a.b' is given by --set and by --sweep"},
        Case{"a.yaml b.yaml --sweep a.b=1", "--sweep takes one job, not two"},
        Case{"a.yaml --sweep a.b=1 --check", "--check does not go with --sweep"},
        Case{"a.yaml --sweep a.b=1 --print-config", "--print-config does not go with --sweep"},
        Case{"a.yaml --sweep a.b=1 --print-schedule", "--print-schedule does not go with --sweep"},
        Case{"a.yaml --sweep a.b=1 --trace t.json", "--trace does not go with --sweep"},
        Case{"a.yaml --sweep a.b=1 --plan p", "--plan does not go with --sweep"},
        Case{"a.yaml --sweep a.b=1 --schedule-csv p", "--schedule-csv does not go with --sweep"},
        Case{"a.yaml --sweep a.b=1 --sensitivity", "--sensitivity does not go with --sweep"},
        Case{"a.yaml --csv t.csv", "--csv goes with --validate, --placement or --sweep"}}) {
    const Ran ran = run_simrun(wrong.arguments);
    CAPTURE(wrong.arguments, ran.output);
    CHECK(ran.code == 2);
    CHECK(ran.output.starts_with(std::string("simrun: error: ")));
    CHECK(ran.output.find(wrong.said) != std::string::npos);
  }
}

TEST_CASE("program: a sweep needs a job, and its outputs replace neither the job nor each other") {
  const Scratch scratch;
  const std::string job = scratch.write("job.yaml", read(tiny)), plan = scratch.file("a.plan");
  REQUIRE(run_simrun(job + " --no-html --plan " + plan).code == 0);
  const std::string sweep = " --sweep training.micro_batch_size=1,2 ";
  CHECK(run_simrun(plan + sweep).output.find("--sweep needs a job, this is a Plan file") !=
        std::string::npos);
  CHECK(run_simrun(job + sweep + "--csv " + job).output.find("this would overwrite the input") !=
        std::string::npos);
  const std::string same = scratch.file("same");
  CHECK(run_simrun(job + sweep + "--csv " + same + " --html " + same)
            .output.find("two outputs have this path") != std::string::npos);
  CHECK(read(job) == read(tiny));
}

}  // namespace
}  // namespace simrun
