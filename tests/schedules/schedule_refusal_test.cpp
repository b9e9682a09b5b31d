#include <catch2/catch.hpp>
#include <regex>

#include "schedules/pipeline_schedule.h"

namespace simrun {
namespace {

std::string refusal(const std::string& name, const PipelineShape& shape) {
  return find_schedule(name)->refusal(shape);
}

// The shapes that a refusal offers: "...; 8 and 12 microbatches would do" or "...; 4 ranks, 2 virtual stages
// and 8 microbatches would do".
std::vector<PipelineShape> offered(const std::string& text, const PipelineShape& shape) {
  const std::size_t start = text.rfind("; ");
  if (start == std::string::npos || !text.ends_with(" would do")) return {};
  const std::string offer = text.substr(start + 2);
  const auto with = [](PipelineShape changed, int value, const std::string& size) {
    if (size == "microbatch") changed.microbatches = value;
    if (size == "virtual stage") changed.virtual_stages = value;
    if (size == "rank") changed.ranks = value;
    if (size == "group") changed.group_size = value;
    return changed;
  };
  static const std::regex two("(\\d+) and (\\d+) (microbatch|virtual stage|rank)(es|s) would do");
  static const std::regex size("(\\d+) (microbatch|virtual stage|rank)((?:es)? per group)?");
  std::smatch match;
  if (std::regex_match(offer, match, two))
    return {with(shape, std::stoi(match[1]), match[3]), with(shape, std::stoi(match[2]), match[3])};
  PipelineShape changed = shape;
  for (std::sregex_iterator i(offer.begin(), offer.end(), size); i != std::sregex_iterator(); ++i)
    changed = with(changed, std::stoi((*i)[1]), (*i)[3].matched ? "group" : (*i)[2].str());
  if (offer.find("the default group size") != std::string::npos) changed.group_size = 0;
  return {changed};
}

}  // namespace

TEST_CASE("a refusal names the rule, the numbers and the nearest sizes that work") {
  CHECK(refusal("1f1b", {.ranks = 4, .virtual_stages = 2, .microbatches = 8}) ==
        "this schedule runs 1 virtual stage per rank, not 2 (interleaved_1f1b runs several); 1 virtual stage "
        "would do");
  CHECK(refusal("interleaved_1f1b", {.ranks = 4, .virtual_stages = 1, .microbatches = 8}) ==
        "interleaved_1f1b needs at least 2 virtual stages per rank, not 1 (1f1b runs 1); 2 virtual stages "
        "would do");
  CHECK(refusal("interleaved_1f1b_overlap", {.ranks = 4, .virtual_stages = 1, .microbatches = 8}) ==
        "interleaved_1f1b_overlap needs at least 2 virtual stages per rank, not 1 (1f1b runs 1); 2 virtual "
        "stages would do");
  CHECK(refusal("zb_v", {.ranks = 4, .virtual_stages = 3, .microbatches = 8}) ==
        "a V has 2 virtual stages per rank, not 3; 2 virtual stages would do");
  CHECK(refusal("dualpipe", {.ranks = 4, .microbatches = 9}) ==
        "two pipelines share an even number of microbatches, not 9; 8 and 10 microbatches would do");
  CHECK(refusal("dualpipe", {.ranks = 4, .microbatches = 6}) ==
        "the fill takes 2 x 4 ranks = 8 microbatches, not 6; 8 microbatches would do");
  CHECK(refusal("dualpipe", {.ranks = 3, .microbatches = 8}) ==
        "two pipelines in opposite directions need an even number of ranks, not 3; 2 and 4 ranks would do");
  CHECK(refusal("dualpipe_v", {.ranks = 4, .virtual_stages = 1, .microbatches = 6}) ==
        "a V has 2 virtual stages per rank, not 1; 2 virtual stages and 8 microbatches would do");
  CHECK(refusal("chimera", {.ranks = 4, .microbatches = 10}) ==
        "rounds of one microbatch per rank need a multiple of 4 microbatches, not 10; 8 and 12 microbatches "
        "would do");
  CHECK(refusal("hanayo", {.ranks = 4, .virtual_stages = 3, .microbatches = 8}) ==
        "a wave there and back takes 2 virtual stages per rank, and 3 is not even; 2 and 4 virtual stages "
        "would do");
  CHECK(refusal("bpipe", {.ranks = 5, .microbatches = 8}) ==
        "bpipe pairs ranks, and 5 of them is an odd number; 4 and 6 ranks would do");
  CHECK(refusal("gpipe", {.ranks = 4, .microbatches = 0}) ==
        "a pipeline needs at least 1 rank, 1 virtual stage and 1 microbatch, not 4, 1 and 0 (group size 0)");
  CHECK(refusal("1f1b", {.ranks = 4, .microbatches = 8, .slices = 2}) ==
        "only seq1f1b runs slices of a sequence, and here are 2 per microbatch");
}

TEST_CASE("interleaved schedules take PyTorch's groups by default and Megatron's where a size is given") {
  PipelineShape shape = {.ranks = 4, .virtual_stages = 2, .microbatches = 9};
  CHECK(
      refusal("interleaved_1f1b", shape) ==
      "9 microbatches on 4 ranks do not split into 9 / 4 = 2 equal rounds (a group size of 5 takes them); 8 "
      "and 10 microbatches would do");
  shape.group_size = 5;
  CHECK(refusal("interleaved_1f1b", shape) == "");
  shape.group_size = 4;
  CHECK(refusal("interleaved_1f1b", shape) ==
        "9 microbatches in groups of 4 leave a last group of 1, which must be empty or at least the 4 "
        "pipeline ranks; 8 and 12 microbatches would do");
  shape.microbatches = 8;
  shape.group_size = 2;
  CHECK(refusal("interleaved_1f1b", shape) ==
        "a group must hold at least the 4 pipeline ranks, not 2; 4 microbatches per group would do");
  // Fewer microbatches than ranks are PyTorch's: one group of all.
  shape = {.ranks = 4, .virtual_stages = 2, .microbatches = 3};
  CHECK(refusal("interleaved_1f1b", shape) == "");
  CHECK(refusal("interleaved_zb", shape) == "");
  CHECK(refusal("interleaved_1f1b_overlap", shape) ==
        "groups of at least the 4 pipeline ranks need as many microbatches, not 3; 4 microbatches would do");
}

TEST_CASE("every size that a refusal offers is accepted") {
  int refused = 0;
  for (const ScheduleEntry& entry : pipeline_schedules())
    for (int p = 1; p <= 9; ++p)
      for (int m = 1; m <= 15; ++m)
        for (int v = 1; v <= 5; ++v)
          for (const int group : {0, 3}) {
            if (group > 0 && !entry.name.starts_with("interleaved")) continue;
            const PipelineShape shape = {
                .ranks = p, .virtual_stages = v, .microbatches = m, .group_size = group};
            const std::string text = entry.refusal(shape);
            if (text.empty()) continue;
            ++refused;
            const std::vector<PipelineShape> offers = offered(text, shape);
            INFO(entry.name << " p " << p << " m " << m << " v " << v << " group " << group << ": " << text);
            CHECK_FALSE(offers.empty());
            for (const PipelineShape& offer : offers) CHECK(entry.refusal(offer) == "");
          }
  CHECK(refused > 3000);
}

}  // namespace simrun
