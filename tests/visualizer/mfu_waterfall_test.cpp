#include "visualizer/mfu_waterfall.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <regex>

#include "visualizer/idle_bars.h"

namespace simrun {
namespace {

// 10 s: 7 of compute, 1 of exposed communication, 2 of bubble, of which 0.5 imbalance. At the peak the
// model's FLOPs would take 4 s, the executed ones 5.
Summary ten_seconds() {
  Summary summary;
  summary.step_time_s = 10;
  summary.compute_s = 7;
  summary.exposed_comm_s = 1;
  summary.bubble_s = 2;
  summary.bubble_by_cause_s[static_cast<std::size_t>(BubbleCause::imbalance)] = 0.5;
  summary.mfu = 0.4;
  summary.hfu = 0.5;
  summary.model_tflops_per_gpu = 200;
  return summary;
}

}  // namespace

TEST_CASE("the waterfall goes from the peak to the MFU, each step from where the one before ends") {
  const std::vector<WaterfallStep> steps = mfu_waterfall(ten_seconds());
  // 0.7 - 0.5 kernels, 0.5 - 0.4 recompute, 1 s, 1.5 s and 0.5 s of 10
  const double after[] = {0.8, 0.7, 0.6, 0.45, 0.4};
  REQUIRE(steps.size() == 5);
  double before = 1;
  for (std::size_t i = 0; i < 5; ++i) {
    CAPTURE(steps[i].name);
    CHECK(steps[i].before == before);
    CHECK(steps[i].after == Approx(after[i]));
    before = steps[i].after;
  }
  CHECK(before == ten_seconds().mfu);
}

TEST_CASE("a loss that there is none of is none to the last bit") {
  Summary summary = ten_seconds();
  summary.bubble_by_cause_s[static_cast<std::size_t>(BubbleCause::imbalance)] = 0;
  for (int i = 1; i <= 20; ++i) {
    summary.mfu = 0.4 - 0.01 * i / 7;  // sums of shares end beside it by a rounding
    const std::vector<WaterfallStep> steps = mfu_waterfall(summary);
    CHECK(steps[4].before == summary.mfu);
    CHECK(steps[4].after == summary.mfu);
    CHECK(steps[3].after == summary.mfu);
  }
}

TEST_CASE(
    "without bubble and imbalance what is left behind communication is the MFU, and no row says 0.0000") {
  Summary summary = ten_seconds();
  summary.compute_s = 9;  // with one second of communication the whole step
  summary.bubble_s = 0;
  summary.bubble_by_cause_s = {};
  for (int i = 1; i <= 20; ++i) {
    summary.mfu = 0.4 - 0.01 * i / 7;  // sums of shares end beside it by a rounding
    CAPTURE(i);
    const std::vector<WaterfallStep> steps = mfu_waterfall(summary);
    CHECK(steps[2].before - steps[2].after == Approx(0.1));
    CHECK(steps[2].after == summary.mfu);
    CHECK(steps[3].before == summary.mfu);
    CHECK(steps[3].after == summary.mfu);
    CHECK(waterfall_html(summary).find("0.0000") == std::string::npos);  // of a nanosecond
  }
}

TEST_CASE("figures shown in a waterfall add up, whatever rounding does to each alone") {
  Summary summary = ten_seconds();
  for (int i = 0; i < 50; ++i) {
    summary.compute_s = 7 + 0.0137 * i;  // shares of 0.00137 are rounded each time another way
    summary.bubble_s = 2 - 0.0137 * i;
    const std::string html = waterfall_html(summary);
    const std::regex cell("<td>(-?[0-9.]+) %</td>");
    std::vector<long> tenths;
    for (std::sregex_iterator at(html.begin(), html.end(), cell), end; at != end; ++at)
      tenths.push_back(std::lround(std::stod((*at)[1]) * 10));
    REQUIRE(tenths.size() == 7);  // the peak, five losses, the MFU
    CHECK(tenths[0] + tenths[1] + tenths[2] + tenths[3] + tenths[4] + tenths[5] == tenths[6]);
    CHECK(tenths[6] == 400);
  }
}

TEST_CASE("without a known peak there is no waterfall") {
  Summary summary = ten_seconds();
  summary.mfu = summary.hfu = 0;
  CHECK(mfu_waterfall(summary).empty());
  CHECK(waterfall_html(summary).empty());
}

TEST_CASE("idle bars: each part as wide as its share, and no word of what does not occur") {
  Summary summary = ten_seconds();
  StageSummary stage;
  stage.compute_s = 7.5;
  stage.bubble_by_cause_s[static_cast<std::size_t>(BubbleCause::drain)] = 1.5;
  stage.exposed_by_traffic_s[static_cast<std::size_t>(Traffic::tensor)] = 1;
  summary.stages = {stage};
  const std::string html = idle_bars(summary);
  // 640 pixels behind 52: compute 75 %, drain 15 %, tp 10 %
  CHECK(html.find("x=\"52.00\" y=\"0\" width=\"480.00\"") != std::string::npos);
  CHECK(html.find("x=\"532.00\" y=\"0\" width=\"96.00\"") != std::string::npos);
  CHECK(html.find("x=\"628.00\" y=\"0\" width=\"64.00\"") != std::string::npos);
  CHECK(html.find("exposed tp: 10.0 % (1.000 s)") != std::string::npos);
  CHECK(html.find("warm-up") == std::string::npos);
}

}  // namespace simrun
