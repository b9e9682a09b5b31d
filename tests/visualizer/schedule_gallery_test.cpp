#include "visualizer/schedule_gallery.h"

#include <catch2/catch.hpp>

#include "schedules/dualpipe.h"
#include "schedules/zb_v.h"
#include "tests/visualizer/schedule_run.h"
#include "visualizer/schedule_diagram.h"
#include "visualizer/schedule_transfers.h"

namespace simrun {
namespace {

std::size_t count_parts(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST_CASE("transfers: 2 (stages - 1) per microbatch, less at the turns of a V") {
  // 1F1B on 4 ranks: 3 hops forward, 3 back. The outer ranks send one result per microbatch, the others two.
  const EvaluatedSchedule one = evaluated_1f1b(4, 8);
  CHECK(transfers_per_microbatch(one) == 6);
  CHECK(results_sent(one) == std::vector<std::int64_t>{8, 16, 16, 8});

  // ZB-V: 8 stages are 7 hops each way, of which stage 3 to 4 stays on rank 3.
  const EvaluatedSchedule folded = evaluated_schedule(
      "zb_v", Placement::wave, {.ranks = 4, .virtual_stages = 2, .microbatches = 8}, zb_v(4, 8));
  CHECK(transfers_per_microbatch(folded) == 12);

  // DualPipe: each microbatch takes one of the two directions.
  const EvaluatedSchedule both = evaluated_schedule("dualpipe", Placement::bidirectional,
                                                    {.ranks = 4, .microbatches = 8}, dualpipe(4, 8));
  CHECK(transfers_per_microbatch(both) == 6);
  CHECK(results_sent(evaluated_1f1b(1, 3)) == std::vector<std::int64_t>{0});
}

TEST_CASE("diagram: a box per pass, at its place, in the colours of the page of a simulation") {
  // 2 ranks, 1 microbatch, F 1 and B 2: the makespan is 6, a rank works 3. So 300 units of work are 100 each.
  const std::string svg = schedule_diagram(evaluated_1f1b(2, 1), {.work = 300, .width = 700});
  CAPTURE(svg);
  CHECK(svg.find("<path fill=\"#0072b2\" d=\"M24.0 0.0h99.3v22.0h-99.3zM124.0 25.0h99.3v22.0h-99.3z\"/>") !=
        std::string::npos);
  CHECK(svg.find(
            "<path fill=\"#e69f00\" d=\"M424.0 0.0h199.3v22.0h-199.3zM224.0 25.0h199.3v22.0h-199.3z\"/>") !=
        std::string::npos);
  CHECK(svg.find("class=\"ideal\" d=\"M324.0 0V47\"") != std::string::npos);
  CHECK(count_parts(svg, "<text") == 4 + 2);  // microbatches, ranks
}

TEST_CASE("diagram: microbatches are written only where they fit") {
  const EvaluatedSchedule schedule = evaluated_1f1b(2, 100);
  CHECK(count_parts(schedule_diagram(schedule, {.work = 600, .width = 700}), "<text") == 2);
  CHECK(count_parts(schedule_diagram(schedule, {.work = 9000, .width = 9100}), "<text") == 2 * 100 * 2 + 2);
}

TEST_CASE("diagram: an overlapped pair is two half boxes, the second direction is lighter") {
  const EvaluatedSchedule schedule = evaluated_schedule("dualpipe", Placement::bidirectional,
                                                        {.ranks = 2, .microbatches = 4}, dualpipe(2, 4));
  const std::string svg = schedule_diagram(schedule, {});
  CHECK(svg.find("v11.0") != std::string::npos);
  CHECK(svg.find("fill=\"#80b9d9\"") != std::string::npos);  // half of 0x0072b2, half white
}

TEST_CASE(
    "gallery: one section and one row per schedule, refused ones with the rule; equal input, equal bytes") {
  const EvaluatedSchedule schedule = evaluated_1f1b(2, 2);
  const std::vector<EvaluatedSchedule> both = {schedule, schedule};
  const std::string page = schedule_gallery(both, {{"dualpipe", "4 < 8"}}, schedule.shape);
  CHECK(page == schedule_gallery(both, {{"dualpipe", "4 < 8"}}, schedule.shape));
  CHECK(count_parts(page, "<section") == 2);
  CHECK(count_parts(page, "<div><dt>bubble</dt><dd>33.3 %</dd></div>") == 2);
  CHECK(count_parts(
            page,
            "<td>33.3 "
            "%</td><td>0..3</td><td>9</td><td>1</td><td>1..2</td><td>2</td><td>1</td><td>2</td><td>2</td>") ==
        2);
  CHECK(page.find("<p>one forward, one backward; ") != std::string::npos);
  CHECK(page.find("<th scope=\"row\">dualpipe</th><td>4 &lt; 8</td>") != std::string::npos);
  CHECK(page.find("<script") == std::string::npos);
  CHECK(page.find("http") == std::string::npos);
}

TEST_CASE("gallery: more passes than a browser opens at once are refused") {
  CHECK(gallery_refusal({evaluated_1f1b(64, 3000)}).empty());
  CHECK(gallery_refusal({evaluated_1f1b(64, 2000), evaluated_1f1b(64, 2000)}) ==
        "512000 passes are more than the 400000 that a page can show");
}

}  // namespace
}  // namespace simrun
