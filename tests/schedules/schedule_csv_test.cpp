#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "configs/diagnostics.h"
#include "schedules/one_f_one_b.h"
#include "schedules/schedule_grid.h"

namespace simrun {
namespace {

std::vector<Diagnostic> diagnostics(const std::string& text) {
  try {
    read_schedule_csv(text, "s.csv");
  } catch (const ConfigError& error) {
    return error.diagnostics();
  }
  return {};
}

// "line:column message | hint" of each diagnostic.
std::vector<std::string> refusals(const std::string& text) {
  std::vector<std::string> texts;
  for (const Diagnostic& diagnostic : diagnostics(text)) {
    const SourcePosition& at = diagnostic.position;
    texts.push_back(fmt::format("{}:{} {}{}{}", at.line, at.column, diagnostic.message,
                                diagnostic.hint.empty() ? "" : " | ", diagnostic.hint));
  }
  return texts;
}

TEST_CASE("schedule CSV: every named schedule comes back as it went out, with its placement and sizes") {
  for (const ScheduleEntry& entry : pipeline_schedules())
    for (const int slices : {1, 2}) {
      const PipelineShape shape = {
          .ranks = 4, .virtual_stages = entry.default_virtual_stages, .microbatches = 8, .slices = slices};
      if (!entry.refusal(shape).empty()) continue;
      CAPTURE(entry.name, slices);
      const Schedule schedule = entry.build(shape);
      const ScheduleFile file = read_schedule_csv(to_csv(schedule), "s.csv");
      CHECK(file.schedule == schedule);
      CHECK(file.placement == entry.placement);
      CHECK(file.shape.ranks == 4);
      CHECK(file.shape.virtual_stages == shape.virtual_stages);
      CHECK(file.shape.microbatches == 8);
      CHECK(file.communication_actions == 0);
    }
}

TEST_CASE("schedule CSV: spaces, quotes, empty cells, CR LF, a byte order mark and blank lines at the end") {
  const ScheduleFile file =
      read_schedule_csv("\xEF\xBB\xBF 0F0 ,,\"0F1\",0B0,,0B1,\r\n,1F0,1B0,1F1,1B1\r\n\r\n\n", "s.csv");
  CHECK(file.schedule == one_f_one_b(2, 2));
  CHECK(read_schedule_csv("0F0,0B0", "s.csv").shape.microbatches == 1);
}

TEST_CASE("schedule CSV: an overlapped pair, with PyTorch's name for it or without") {
  for (const std::string pair : {"(0F1;0B0)OVERLAP_F_B", "(0F1;0B0)", "( 0F1 ; 0B0 ) OVERLAP_F_B"}) {
    const ScheduleFile file = read_schedule_csv("0F0," + pair + ",0B1\n", "s.csv");
    CHECK(to_text(file.schedule) == "0F0 (0F1;0B0) 0B1\n");
    CHECK(to_csv(file.schedule) == "0F0,(0F1;0B0)OVERLAP_F_B,0B1\n");
  }
}

TEST_CASE("schedule CSV: communication actions of a lowered schedule are counted and read over") {
  const ScheduleFile file = read_schedule_csv(
      "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD,0RESHARD\n1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0\n",
      "s.csv");
  CHECK(to_text(file.schedule) == "0F0 0B0\n1F0 1B0\n");
  CHECK(file.communication_actions == 8);
}

TEST_CASE("schedule CSV: cells that are no op, all of them, each at its column") {
  const std::string rule =
      " | an op is stage, kind (F, B, I or W) and microbatch, 2F0 or 1B3, or a pair (0F8;7B3)OVERLAP_F_B; "
      "commas separate cells.";
  CHECK(refusals("0F0, 0X1,0B0\n1F0,1f1,F1\n") ==
        std::vector<std::string>{"1:6 '0X1' is no op" + rule, "2:5 '1f1' is no op | did you mean 1F1?",
                                 "2:9 'F1' is no op" + rule});
  for (const std::string cell : {"0F", "0", "0F0 0F1", "0F-1", "0F1x", "0F0s", "(0F0)", "(0F0;0B0",
                                 "(0F0;0B0;0B1)", "(0F0;0B0)OVERLAP", "(0F0;)", "(0SEND_F0;0B0)", "0SEND_FX",
                                 "99999999999F0", "0F1000000", "0FULL_BACKWARD0"}) {
    CAPTURE(cell);
    std::string expected = "1:5 '";
    expected.append(cell).append("' is no op").append(rule);
    const std::string row = fmt::format("0F0,{},0B0\n", cell);
    CHECK(refusals(row) == std::vector<std::string>{expected});
  }
}

TEST_CASE("schedule CSV: a list that does not validate is refused at the place, with the marked grid") {
  CHECK(refusals("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n") ==
        std::vector<std::string>{"1:5 0B0 waits for 1B0, which rank 1 does not reach",
                                 "2:5 1F1 waits for 0F1, which rank 0 does not reach | the lists:\n"
                                 "rank 0: 0F0 0B0 <-- ERROR HERE 0F1 0B1\n"
                                 "rank 1: 1F0 1F1 <-- ERROR HERE 1B0 1B1"});
  CHECK(refusals("0F0,0B0\n1F0\n") ==
        std::vector<std::string>{
            "2:4 rank 1 never runs 1B0 | the lists:\nrank 0: 0F0 0B0\nrank 1: 1F0 <-- ERROR HERE"});
}

TEST_CASE("schedule CSV: an empty file, and far too many errors") {
  CHECK(refusals("\n \n").front().find("no pipeline rank has an op") != std::string::npos);
  std::string rubbish;
  for (int i = 0; i < 1000; ++i) rubbish += "x,";
  CHECK(refusals(rubbish).size() == 20);
}

}  // namespace
}  // namespace simrun
