#include "planner/estimate_all.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <string>
#include <vector>

#include "tests/planner/searches.h"

namespace simrun {
namespace {

std::vector<EstimatedCandidate> taken(const std::vector<EstimatedCandidate>& all, std::size_t most) {
  Shortlist shortlist(most, PlanObjective::step_time);
  for (const EstimatedCandidate& of : all) shortlist.offer(of);
  return shortlist.take();
}

// By what it costs, without a bound.
std::vector<EstimatedCandidate> estimates_of_all(const PlanBase& base) {
  SharedStepPrices steps;
  Estimator estimator(
      base.job.job, [&](const Candidate& of) -> std::optional<Job> { return load_candidate(base, of); },
      steps);
  std::vector<EstimatedCandidate> all;
  for_each_candidate(base.job.job, base.job.plan, [&](Candidate candidate) {
    auto estimate = estimator.estimate(candidate, std::numeric_limits<double>::infinity());
    if (const auto other = with_other_overlap(base.job.job, base.job.plan, candidate); other && estimate) {
      const auto overlapped = estimator.estimate(*other, std::numeric_limits<double>::infinity());
      if (overlapped->step_s < estimate->step_s) candidate = *other, estimate = overlapped;
    }
    // Estimates of memory err: a little more than there is may fit.
    if (estimate && estimate->may_fit(estimate->room_bytes)) all.push_back({candidate, *estimate});
  });
  return all;
}

}  // namespace

// Lists that are short beside the number of candidates, so that bounds have something to cut.
TEST_CASE("bounds cut nothing that would be on the list of the most promising", "[long]") {
  const std::vector<Override> limits = {{"plan.fix.virtual_pipeline_model_parallel_size", "[1, 2]"},
                                        {"plan.fix.zero_stage", "[0, 1, 3]"}};
  for (const char* job : {"tiny-moe-8ranks", "llama3-8b-8xh100"}) {
    const PlanBase base = base_of(job, limits);
    const std::vector<EstimatedCandidate> all = estimates_of_all(base);
    CHECK(std::ranges::any_of(all, [](const EstimatedCandidate& of) { return of.candidate.overlaps; }) ==
          base.job.plan.overlap_is_open);
    for (const std::size_t most : {4U, 8U, 24U}) {
      CAPTURE(job, most);
      PlanSearchOptions options;
      options.threads = 2;
      const EstimatedShare bounded = estimate_all(base, most, options);
      CHECK(bounded.pruned > 0);
      CHECK(bounded.candidates >= bounded.pruned + bounded.feasible);
      const auto expected = taken(all, most), found = taken(bounded.shortlist, most);
      REQUIRE(found.size() == expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        CAPTURE(describe(expected[i].candidate), describe(found[i].candidate));
        CHECK(found[i].candidate == expected[i].candidate);
        CHECK(found[i].estimate.step_s == expected[i].estimate.step_s);
      }
    }
  }
}

}  // namespace simrun
