#include "visualizer/sweep_tables.h"

#include <catch2/catch.hpp>

namespace simrun {
namespace {

SweepRow row_of(const std::string& value, double step, bool fits) {
  SweepRow row{{value}, SweepNumbers{}, "fast", fits ? "" : "does not fit: too \"large\", by far"};
  row.numbers->step_time_s = step;
  row.numbers->tokens_per_s_per_gpu = 1000 / step;
  row.numbers->exposed_comm_s = step / 4;
  row.numbers->peak_memory_bytes = std::int64_t{1} << 30;
  row.numbers->fits = fits;
  return row;
}

Sweep three_points() {
  return {"job",
          {{"a.b", {"1", "2", "3"}}},
          {row_of("1", 2, true), row_of("2", 1, false), {{"3"}, {}, "", "no, \"3\""}}};
}

TEST_CASE("sweep table: the best row is the fastest per GPU of those that fit, the first of equals") {
  Sweep sweep = three_points();
  CHECK(best_row(sweep) == 0);
  sweep.rows[1].numbers->fits = true;
  CHECK(best_row(sweep) == 1);
  sweep.rows[0].numbers = sweep.rows[1].numbers;
  CHECK(best_row(sweep) == 0);
  CHECK_FALSE(best_row({"job", {{"a", {"1"}}}, {{{"1"}, {}, "", "no"}}}));
}

TEST_CASE("sweep table: one line per row, the refused with their reason") {
  CHECK(sweep_table(three_points()) ==
        "   b  step s  tokens/s/GPU    MFU  bubble  exposed  peak GiB  fits  engine\n"
        "*  1   2.000           500  0.0 %   0.0 %   25.0 %       1.0   yes  fast\n"
        "   2   1.000        1.00 k  0.0 %   0.0 %   25.0 %       1.0    no  fast\n"
        "   3  refused: no, \"3\"\n"
        "* most tokens per second and GPU of those that fit\n");
}

TEST_CASE("sweep table: where one unit leaves fewer than two figures, each row has its own") {
  Sweep sweep = three_points();
  sweep.rows[1].numbers->step_time_s = 0.0041;
  sweep.rows[1].numbers->peak_memory_bytes = 5 << 20;
  CHECK(sweep_columns(sweep_units(sweep)).front() == "step");
  CHECK(sweep_cells(sweep.rows[0], sweep_units(sweep)).front() == "2.000 s");
  CHECK(sweep_cells(sweep.rows[1], sweep_units(sweep)).front() == "4.100 ms");
  CHECK(sweep_cells(sweep.rows[1], sweep_units(sweep)).at(5) == "5.0 MiB");
  // 0.010 of 2.000 s has two figures, 0.009 one.
  sweep.rows[1].numbers->step_time_s = 0.0100;
  CHECK(sweep_columns(sweep_units(sweep)).front() == "step s");
  sweep.rows[1].numbers->step_time_s = 0.0099;
  CHECK(sweep_columns(sweep_units(sweep)).front() == "step");
}

TEST_CASE("sweep table: keys are as short as they can be told apart") {
  CHECK(short_keys({{"a.x", {}}, {"a.y", {}}}) == std::vector<std::string>{"x", "y"});
  CHECK(short_keys({{"c.inter.bw", {}}, {"c.intra.bw", {}}, {"t.m", {}}}) ==
        std::vector<std::string>{"inter.bw", "intra.bw", "t.m"});
  CHECK(short_keys({{"bw", {}}, {"c.bw", {}}}) == std::vector<std::string>{"bw", "c.bw"});
}

TEST_CASE("sweep CSV: commas and quotes are quoted as RFC 4180 has it, refused rows have empty numbers") {
  const std::string csv = sweep_csv(three_points());
  CHECK(csv.starts_with("a.b,step_time_s,tokens_per_s,"));
  CHECK(csv.find("\n1,2,0,500,") != std::string::npos);
  CHECK(csv.find(",false,fast,\"does not fit: too \"\"large\"\", by far\"\n") != std::string::npos);
  CHECK(csv.ends_with("\n3,,,,,,,,,,,,,,,,,,\"no, \"\"3\"\"\"\n"));
}

TEST_CASE("sweeps of models that read images count images; where models differ, each row says which") {
  Sweep sweep = three_points();
  sweep.rows[0].numbers->counts_images = true;
  CHECK(sweep_table(sweep).find("  samples/s/GPU  ") != std::string::npos);
  CHECK(sweep_csv(sweep).starts_with("a.b,step_time_s,tokens_per_s,"));
  CHECK(sweep_csv(sweep).find("\n1,2,,,") != std::string::npos);  // has images, no tokens
  CHECK(sweep_json(sweep).find("\"step_time_s\": 2, \"images_per_s\": 0, ") != std::string::npos);
  CHECK(sweep_json(sweep).find("\"step_time_s\": 1, \"tokens_per_s\": 0, ") != std::string::npos);
  sweep.rows[1].numbers->counts_images = true;
  CHECK(sweep_table(sweep).find("  images/s/GPU  ") != std::string::npos);
  CHECK(sweep_table(sweep).ends_with("* most images per second and GPU of those that fit\n"));
  CHECK(sweep_csv(sweep).starts_with("a.b,step_time_s,images_per_s,images_per_s_per_gpu,"));
  CHECK(sweep_csv(sweep).find("\n1,2,0,500,") != std::string::npos);
}

TEST_CASE("sweep JSON: a refused row has its values and the error only") {
  const std::string json = sweep_json(three_points());
  CHECK(json.find("{\"values\": {\"a.b\": \"3\"}, \"error\": \"no, \\\"3\\\"\"}\n]") != std::string::npos);
  CHECK(json.find("\"step_time_s\": 2, ") != std::string::npos);
  CHECK(json.find("\"fits\": true, \"engine\": \"fast\"}") != std::string::npos);
  CHECK(json.find("\"likely_from_s\": null, \"likely_to_s\": null, ") != std::string::npos);
  Sweep sweep = three_points();
  sweep.rows[0].numbers->likely_from_s = 1.5;
  sweep.rows[0].numbers->likely_to_s = 2.5;
  CHECK(sweep_json(sweep).find("\"likely_from_s\": 1.5, \"likely_to_s\": 2.5, ") != std::string::npos);
  CHECK(sweep_csv(sweep).find(",1.5,2.5,true,fast,") != std::string::npos);
}

}  // namespace
}  // namespace simrun
