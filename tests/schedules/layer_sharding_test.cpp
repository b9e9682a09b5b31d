#include <catch2/catch.hpp>
#include <map>

#include "schedules/compile.h"
#include "schedules/lint.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

// Eight data-parallel ranks, two layers.
Plan sharded(const std::string& layers, const std::string& zero_stage = "1") {
  return compile(job_from(small_gpt(2, 1, 1, 1), {{"optimizer.zero_stage", zero_stage},
                                                  {"optimizer.zero_3_layers", "\"" + layers + "\""}}));
}

int gathers_in(const Plan& plan, PassKind kind) {
  int gathers = 0;
  for (const Segment& segment : plan.segments)
    if (segment.kind == kind) {
      gathers = 0;  // of the last such segment
      for (const Instruction& of : segment.instructions)
        gathers +=
            of.opcode == Opcode::all_gather && plan.streams[of.stream].traffic == Traffic::data ? 1 : 0;
    }
  return gathers;
}

}  // namespace

TEST_CASE("ZeRO-3 of one layer: an eighth of its weights and gradients is kept, and the rest as it was") {
  const Plan plan = sharded("1");
  CHECK(lint(plan).empty());
  std::map<Category, std::int64_t> bytes;
  for (const Buffer& buffer : plan.buffers)
    if (buffer.scope == Scope::run) bytes[buffer.category] += buffer.bytes();
  // A layer has 12 h^2 + 13 h = 12,596,224 parameters, the model 78,147,584: 65,551,360 are not in it.
  CHECK(plan.job.parameters == 78'147'584);
  CHECK(bytes[Category::weights] == 2 * (65'551'360 + 12'596'224 / 8));
  CHECK(bytes[Category::gradients] == 4 * (65'551'360 + 12'596'224 / 8));
  CHECK(bytes[Category::optimizer] == 12 * 78'147'584 / 8);
}

TEST_CASE("ZeRO-3 of some layers: each pass gathers those, layer by layer") {
  for (const auto& [layers, gathers] : {std::pair("0", 1), std::pair("1", 1), std::pair("0-1", 2)})
    for (const char* zero_stage : {"0", "1", "2"}) {
      CAPTURE(layers, zero_stage);
      const Plan plan = sharded(layers, zero_stage);
      CHECK(lint(plan).empty());
      CHECK(gathers_in(plan, PassKind::forward) == gathers);
      CHECK(gathers_in(plan, PassKind::backward) == gathers);
    }
}

TEST_CASE("recompute of layers by number repeats just their forward instructions") {
  const auto repeated_in = [](const std::string& recompute) {
    std::map<std::int32_t, int> repeated;  // by layer
    for (const Segment& segment :
         compile(job_from(small_gpt(4, 1, 1, 1), {{"recompute", recompute}})).segments)
      if (segment.kind == PassKind::backward)
        for (const Instruction& of : segment.instructions)
          if (of.phase == Phase::recompute && of.opcode != Opcode::free) ++repeated[of.layer];
    return repeated;
  };
  const auto some = repeated_in("{granularity: full, layers: \"0,2-3\"}");
  const auto all = repeated_in("{granularity: full}");
  CHECK(all.size() == 4);
  CHECK(some.size() == 3);
  CHECK(some.count(1) == 0);
  for (const auto& [layer, count] : some) CHECK(count == all.at(layer));
}

}  // namespace simrun
