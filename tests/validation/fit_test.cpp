#include "validation/fit.h"

#include <catch2/catch.hpp>

#include "tests/validation/rows.h"

namespace simrun {
namespace {

TEST_CASE("fit: the step of a weighted sum of squares is what a pencil finds") {
  // (1 - s)^2 + 3 (5 - s)^2 is least at s = 4.
  const BoundedSquares free{{1, 5}, {1, 3}, {{-1}, {-1}}, {-10}, {10}};
  CHECK(least_step(free)[0] == Approx(4));
  const BoundedSquares bound{{1, 5}, {1, 3}, {{-1}, {-1}}, {-10}, {2}};
  CHECK(least_step(bound)[0] == 2);
  // (3 - a - b)^2 + (1 - a + b)^2 vanishes at a = 2, b = 1; with b held to 0, at a = 2 as well.
  const BoundedSquares two{{3, 1}, {1, 1}, {{-1, -1}, {-1, 1}}, {-9, -9}, {9, 9}};
  CHECK(least_step(two)[0] == Approx(2));
  CHECK(least_step(two)[1] == Approx(1));
  const BoundedSquares without{{3, 1}, {0, 0}, {{-1, -1}, {-1, 1}}, {-9, -9}, {9, 9}};
  CHECK(least_step(without) == std::vector<double>{0, 0});
}

std::vector<MeasuredRow> planted_rows(double sustained) {
  std::vector<MeasuredRow> rows;
  for (int i = 0; i < 4; ++i)
    rows.push_back(measured_row({{Column::id, "planted-" + std::to_string(i)},
                                 {Column::source, i < 2 ? "Korthikanti et al." : "InternEvo"},
                                 {Column::hidden, i % 2 == 0 ? "1024" : "4096"},
                                 {Column::micro_batch, i < 2 ? "1" : "4"}}));
  LoadOptions load = source_presets();
  load.overrides = {{"cluster.gpu.kernels.sustained", std::to_string(sustained)}};
  const std::vector<ValidatedRow> predicted = validate_rows(rows, {load, EngineChoice::fast, 0});
  for (std::size_t r = 0; r < rows.size(); ++r)
    rows[r][Column::measured_value] = std::to_string(*predicted[r].predicted);
  return rows;
}

const FitCoefficient sustained = {"sustained", "cluster.gpu.kernels.sustained", 0.9, 0.5, 1, "a test"};

// Coefficients beyond the datasheet hold where a framework is named: the two sources have rules that do.
TEST_CASE("fit: finds the coefficient that the measurements were made with") {
  const ValidateOptions options{source_presets(), EngineChoice::fast, 0};
  const DeviceFit fit = fit_device(planted_rows(0.7), "a100_sxm_80gb", {sustained}, options);
  REQUIRE(fit.rows == 4);
  CHECK(fit.coefficients[0].value == Approx(0.7).epsilon(2e-3));
  CHECK_FALSE(fit.coefficients[0].at_bound);
  CHECK(fit.coefficients[0].sources == 2);
  CHECK(fit.after < 1e-3);
  CHECK(fit.left_out < 5e-3);
  CHECK(fit.before > 0.05);
  const std::string yaml = fit_yaml(fit, "rows.csv");
  CHECK(yaml.find("on 4 rows of 2 sources") != std::string::npos);
  CHECK(yaml.find("kernels:\n  sustained: 0.7") != std::string::npos);
}

TEST_CASE("fit: stops at a bound and says so; another device's rows are not its own") {
  const ValidateOptions options{source_presets(), EngineChoice::fast, 0};
  FitCoefficient narrow = sustained;
  narrow.from = 0.8;
  const DeviceFit fit = fit_device(planted_rows(0.7), "a100_sxm_80gb", {narrow}, options);
  CHECK(fit.coefficients[0].value == Approx(0.8));
  CHECK(fit.coefficients[0].at_bound);
  const DeviceFit elsewhere = fit_device(planted_rows(0.7), "h100_sxm", {narrow}, options);
  CHECK(elsewhere.rows == 0);
  CHECK(elsewhere.others == std::set<std::string>{"a100_sxm_80gb"});
}

TEST_CASE("fit: the shipped coefficients are a device's own, each within its bounds") {
  const std::vector<FitCoefficient> shipped = load_coefficients(source_presets());
  REQUIRE_FALSE(shipped.empty());
  for (const FitCoefficient& coefficient : shipped) {
    CAPTURE(coefficient.name);
    CHECK(coefficient.key.starts_with("cluster.gpu."));
    CHECK((coefficient.from <= coefficient.start && coefficient.start <= coefficient.to));
    CHECK_FALSE(coefficient.reason.empty());
  }
}

}  // namespace
}  // namespace simrun
