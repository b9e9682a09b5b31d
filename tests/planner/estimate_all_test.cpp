#include "planner/estimate_all.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <string>
#include <vector>

#include "planner/candidate_variants.h"
#include "tests/planner/searches.h"

namespace simrun {
namespace {

std::vector<EstimatedCandidate> taken(const std::vector<EstimatedCandidate>& all, std::size_t most) {
  Shortlist shortlist(most, PlanObjective::step_time);
  for (const EstimatedCandidate& of : all) shortlist.offer(of);
  return shortlist.take();
}

// By what it costs, without a bound.
std::vector<EstimatedCandidate> estimates_of(const PlanBase& base, const std::vector<Candidate>& candidates) {
  SharedStepPrices steps;
  Estimator estimator(
      base.job.job, [&](const Candidate& of) { return accepted_job(base, of); }, steps);
  std::vector<EstimatedCandidate> all;
  for (Candidate candidate : candidates) {
    auto estimate = estimator.estimate(candidate, std::numeric_limits<double>::infinity());
    if (const auto other = with_other_overlap(base.job.job, base.job.plan, candidate); other && estimate) {
      const auto overlapped = estimator.estimate(*other, std::numeric_limits<double>::infinity());
      if (overlapped->step_s < estimate->step_s) candidate = *other, estimate = overlapped;
    }
    // Estimates of memory err: a little more than there is may fit.
    if (estimate && estimate->may_fit(estimate->room_bytes)) all.push_back({candidate, *estimate});
  }
  return all;
}

std::vector<EstimatedCandidate> estimates_of_all(const PlanBase& base) {
  std::vector<Candidate> candidates;
  for_each_candidate(base.job.job, base.job.plan, [&](const Candidate& of) { candidates.push_back(of); });
  return estimates_of(base, candidates);
}

// The most promising of each ZeRO stage once more, with their sequences divided otherwise.
std::vector<EstimatedCandidate> variants_of_best(const PlanBase& base,
                                                 const std::vector<EstimatedCandidate>& all,
                                                 std::size_t most) {
  Shortlist shortlist(most, PlanObjective::step_time);
  for (const EstimatedCandidate& of : all) shortlist.offer(of);
  std::vector<Candidate> variants;
  for (EstimatedCandidate& of : shortlist.all_stages()) {
    of.candidate.overlaps = false;
    for (Candidate& other : variants_of(base.job.job, base.job.plan, of.candidate))
      variants.push_back(std::move(other));
  }
  return estimates_of(base, variants);
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
      std::vector<EstimatedCandidate> known = all;
      for (EstimatedCandidate& of : variants_of_best(base, all, most)) known.push_back(std::move(of));
      const auto expected = taken(known, most), found = taken(bounded.shortlist, most);
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
