#include "visualizer/quantity.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>

namespace simrun {

TEST_CASE("significant figures carry into the next power of ten") {
  CHECK(significant(14.934, 3) == "14.9");
  CHECK(significant(0.0123, 2) == "0.012");
  CHECK(significant(9.996, 3) == "10.0");
  CHECK(significant(1234.5, 3) == "1234");
  CHECK(significant(0, 3) == "0");
  CHECK(significant(-2.5, 2) == "-2.5");
  CHECK(significant(std::nan(""), 3) == "-");
}

TEST_CASE("counts have a scale with three figures") {
  CHECK(count_text(70.6e9) == "70.6 B");
  CHECK(count_text(1048576) == "1.05 M");
  CHECK(count_text(70400) == "70.4 k");
  CHECK(count_text(999'900) == "1.00 M");
  CHECK(count_text(512) == "512");
  CHECK(count_text(0.25) == "0.250");
}

TEST_CASE("traffic is decimal, a column in the unit of its largest") {
  CHECK(std::string(traffic_unit(12'340'000'000).name) == "GB");
  CHECK(in_unit(12'340'000'000, traffic_unit(12'340'000'000)) == "12.34");
  CHECK(in_unit(38'400'000, traffic_unit(12'340'000'000)) == "0.04");
  CHECK(std::string(traffic_unit(999'960'000).name) == "GB");
  CHECK(in_unit(38'400'000, traffic_unit(38'400'000)) == "38.40");
  CHECK(std::string(traffic_unit(38'400'000).name) == "MB");
  CHECK(in_unit(12, traffic_unit(12)) == "12");
  CHECK(bandwidth_text(50e9) == "50.0 GB/s");
  CHECK(link_text("node0.nic0.tx", 16) == "node0.nic0.tx (x16)");
  CHECK(link_text("node0.nic0.tx", 1) == "node0.nic0.tx");
}

TEST_CASE("times have the unit that fits and four figures") {
  CHECK(seconds_text(14.934) == "14.93 s");
  CHECK(seconds_text(0.8123) == "812.3 ms");
  CHECK(seconds_text(45.2e-6) == "45.20 us");
  CHECK(seconds_text(380e-9) == "380.0 ns");
  CHECK(seconds_text(0) == "0 s");
  CHECK(seconds_text(0.99999) == "1.000 s");
}

TEST_CASE("a column of times shares the unit of its longest") {
  const TimeUnit unit = time_unit(14.9);
  CHECK(in_unit(0.144, unit) == "0.14");
  CHECK(in_unit(12.51, unit) == "12.51");
}

TEST_CASE("sizes have the unit of the largest in their column") {
  CHECK(memory_text(std::int64_t{80} << 30) == "80.0 GiB");
  CHECK(memory_text(3 << 20) == "3.0 MiB");
  CHECK(memory_text(1536) == "1.5 KiB");
  CHECK(in_unit(std::int64_t{1} << 29, memory_unit(std::int64_t{80} << 30)) == "0.5");
}

TEST_CASE("layers say what else the rank holds") {
  StageSummary stage;
  stage.layers = 20;
  stage.embedding = true;
  CHECK(layers_text(stage) == "20+emb");
  stage.loss = true;
  CHECK(layers_text(stage) == "20+emb+head");
  stage.embedding = false;
  stage.mtp_layers = 1;
  CHECK(layers_text(stage) == "20+mtp+head");
  stage.mtp_layers = 2;
  CHECK(layers_text(stage) == "20+2mtp+head");
}

}  // namespace simrun
