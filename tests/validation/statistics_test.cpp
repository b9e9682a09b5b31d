#include "validation/statistics.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace simrun {
namespace {

TEST_CASE("errors: mean, median, bias and 90th percentile by pencil") {
  // |e| sorted: 0.1 0.1 0.2 0.4; mean 0.8 / 4, median (0.1 + 0.2) / 2, bias (0.1 - 0.1 + 0.2 - 0.4) / 4; 90 %
  // is at place 2.7: 0.2 + 0.7 x 0.2
  const ErrorStatistics errors = error_statistics({0.1, -0.1, 0.2, -0.4}, 0);
  CHECK(errors.mape == Approx(0.2));
  CHECK(errors.median == Approx(0.15));
  CHECK(errors.bias == Approx(-0.05));
  CHECK(errors.p90 == Approx(0.34));
  CHECK(errors.honest_mape == Approx(0.2));
}

TEST_CASE("errors: an unscored row is 100 % in the honest mean, and in no other figure") {
  const ErrorStatistics errors = error_statistics({0.1, -0.3}, 2);
  CHECK((errors.rows == 4 && errors.scored() == 2));
  CHECK(errors.mape == Approx(0.2));
  CHECK(errors.honest_mape == Approx((0.1 + 0.3 + 1 + 1) / 4));
  CHECK(error_statistics({}, 3).honest_mape == 1);
  CHECK(error_statistics({}, 0).honest_mape == 0);
}

TEST_CASE("Spearman: ranks, not values; ties share the mean of their ranks") {
  CHECK(spearman({1, 2, 3}, {10, 1000, 1001}).value() == Approx(1));
  CHECK(spearman({1, 2, 3}, {3, 2, 1}).value() == Approx(-1));
  // Ranks 0, 1.5, 1.5, 3 and 0, 1, 2, 3: covariance 2.25 + 0 + 0 + 2.25 = 4.5 = 4.5; squares 4.5 and 5
  CHECK(spearman({1, 5, 5, 9}, {1, 2, 3, 4}).value() == Approx(4.5 / std::sqrt(4.5 * 5.0)));
  CHECK_FALSE(spearman({1}, {1}));
  CHECK_FALSE(spearman({1, 1}, {1, 2}));
}

TEST_CASE("a percentile of equal weights is the plain one; a heavy value takes more of the way") {
  CHECK(weighted_percentile({{1, 1}, {2, 1}, {3, 1}}, 0.25) == Approx(percentile({1, 2, 3}, 0.25)));
  CHECK(weighted_percentile({{1, 1}, {2, 3}, {3, 1}}, 0.5) == Approx(2));
  CHECK(weighted_percentile({{1, 1}, {2, 1}, {3, 3}}, 0.5) ==
        Approx(2.25));  // 1.5 of 3: 1 to the second, 0.5 of 2 on
  CHECK(weighted_percentile({{7, 2}}, 0.9) == 7);
  CHECK(weighted_percentile({}, 0.5) == 0);
}

}  // namespace
}  // namespace simrun
