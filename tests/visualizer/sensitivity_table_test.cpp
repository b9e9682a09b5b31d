#include "visualizer/sensitivity_table.h"

#include <catch2/catch.hpp>

namespace simrun {
namespace {

using Unit = Sensitivity::Unit;

TEST_CASE("sensitivity table: values and slopes are in the field's units, savings as times and shares") {
  const std::vector<Sensitivity> rows{
      // A step of 2 s of which half is bandwidth: 1 s x 50 GB/s = 50e9 B; slope -1 s / 50 GB/s.
      {"inter_node.bandwidth", Unit::bytes_per_second, 50e9, -0.5, -1 / 50e9, 0.0909},
      {"gpu.kernel_launch", Unit::seconds, 2e-6, 0.25, 0.5 / 2e-6, 0.05}};
  CHECK(sensitivity_table(rows, 2) ==
        "sensitivity                  now  elasticity              d step  10 % better saves\n"
        "inter_node.bandwidth  50.00 GB/s      -0.500  -20.00 ms per GB/s           90.90 ms  4.5 %\n"
        "gpu.kernel_launch       2.000 us      +0.250    +250.0 ms per us           50.00 ms  2.5 %\n"
        "elasticity: % that the step changes by for +1 % (central difference); saving: another run\n");
}

TEST_CASE("sensitivity JSON: SI units; a member is added at the end of an object") {
  CHECK(sensitivity_json({{"x", Unit::seconds, 2, 0.5, 0.25, 0.125}}) ==
        "[\n    {\"name\": \"x\", \"unit\": \"s\", \"value\": 2, \"elasticity\": 0.5, \"derivative\": 0.25, "
        "\"saved_by_10_percent_better_s\": 0.125}\n  ]");
  CHECK(with_member("{\n  \"a\": {}\n}\n", "b", "[]") == "{\n  \"a\": {},\n  \"b\": []\n}\n");
}

}  // namespace
}  // namespace simrun
