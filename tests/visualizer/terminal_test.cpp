#include "visualizer/terminal.h"

#include <catch2/catch.hpp>
#include <cstddef>
#include <sstream>
#include <string>

#include "example_run.h"

namespace simrun {

namespace {

int lines_of(const std::string& text) {
  int lines = 0;
  for (const char c : text) lines += c == '\n' ? 1 : 0;
  return lines;
}

}  // namespace

TEST_CASE("the terminal summary of a small run reads so") {
  ExampleRun run = example_run();
  run.summary.first_step_s = 0.0481;
  run.summary.hidden_comm_s = 0.0012;
  CHECK(terminal_summary(run.plan, run.summary) ==
        R"(llama 4.00 B  32 x h100_sxm  tp 4  pp 4  dp 2  131 k tokens/step  1f1b, 8 microbatches
step 47.52 ms   2.76 M tokens/s   MFU 66.5 %   HFU 83.1 %   peak memory 53.5 GiB of 78.0 GiB on pp 0
first step 48.10 ms
engine example
  compute  ██████████████████▏░░░░░░░░░   30.72 ms   64.6 %
  bubble   ███████▋                       12.96 ms   27.3 %   warm-up 2.04  imbalance 10.92
  exposed  ██▎                             3.84 ms    8.1 %   tp 3.84  (hidden 1.20 ms)
 pp       layers  peak GiB  weights   optim   grads  activ.  comm+wsp   busy        wait
  0        2+emb      53.5      8.0    12.0    16.0    16.0       1.5   65 %    16.80 ms
  1            2      49.5      8.0    12.0    16.0    12.0       1.5   65 %    16.80 ms
  2            2      45.5      8.0    12.0    16.0     8.0       1.5   65 %    16.80 ms
  3       2+head      41.5      8.0    12.0    16.0     4.0       1.5   65 %    16.80 ms
)");
}

TEST_CASE("the parts of the step are drawn in proportion, and nothing above zero vanishes") {
  ExampleRun run = example_run();
  run.summary.step_time_s = 1;
  run.summary.compute_s = 0.75;
  run.summary.bubble_s = 0.25;
  run.summary.exposed_comm_s = 1e-6;
  const std::string text = terminal_summary(run.plan, run.summary, {.width = 92});  // bars of 20 columns
  CHECK(text.find("compute  ███████████████░░░░░ ") != std::string::npos);
  CHECK(text.find("bubble   █████                ") != std::string::npos);
  CHECK(text.find("exposed  ▏                    ") != std::string::npos);
}

TEST_CASE("what does not fit is said with the caller's words, or without") {
  ExampleRun run = example_run();
  CHECK(terminal_summary(run.plan, run.summary).find("fit") == std::string::npos);
  run.summary.fits = false;
  CHECK(terminal_summary(run.plan, run.summary)
            .find("\n\ndoes not fit: pp 0 needs 53.5 GiB, 78.0 GiB are there\n\n") != std::string::npos);
  const TerminalOptions options{.does_not_fit = "pp 0 does not fit.\nRecompute would."};
  CHECK(
      terminal_summary(run.plan, run.summary, options).find("\n\npp 0 does not fit.\nRecompute would.\n\n") !=
      std::string::npos);
}

TEST_CASE("colours are escape sequences only where they are asked for") {
  const ExampleRun run = example_run();
  CHECK(terminal_summary(run.plan, run.summary).find('\x1b') == std::string::npos);
  CHECK(terminal_summary(run.plan, run.summary, {.color = true}).find("\x1b[1m") == 0);
}

TEST_CASE("sixteen pipeline ranks have a row each; more are folded, and it says so") {
  ExampleRun sixteen = example_run({.ranks = 16, .microbatches = 16});
  sixteen.summary.fits = true;  // no paragraph
  CHECK(lines_of(terminal_summary(sixteen.plan, sixteen.summary)) == 3 + 3 + 1 + 16);
  ExampleRun many = example_run({.ranks = 40, .microbatches = 8});
  many.summary.stages[20].peak_memory_bytes *= 2;  // the fullest
  many.summary.stages[30].bubble_s *= 3;           // waits longest
  const std::string text = terminal_summary(many.plan, many.summary);
  for (const char* row : {"\n  0  ", "\n  1  ", "\n 20  ", "\n 30  ", "\n 38  ", "\n 39  "}) {
    CAPTURE(row);
    CHECK(text.find(row) != std::string::npos);
  }
  CHECK(text.find("\n 19  ") == std::string::npos);
  CHECK(text.find("  ...  18 more: peak ") != std::string::npos);
  CHECK(text.find("  40 pipeline ranks: ") != std::string::npos);
}

TEST_CASE("the summary says which engine ran and why, or at least how far off it may be") {
  ExampleRun run = example_run();
  const auto has = [&](const char* line) {
    return terminal_summary(run.plan, run.summary).find(line) != std::string::npos;
  };
  run.summary.engine = "fast";
  run.summary.contention_bound = 0.00054;
  CHECK(has("\nengine fast: at most 0.054 % of the step from shared links\n"));
  run.summary.engine_reason = "asked for; at most 0.054 %";
  CHECK(has("\nengine fast: asked for; at most 0.054 %\n"));
  run.summary.engine_reason = "transfers share links, so the fast one could be off; " + std::string(60, 'x');
  CHECK(has("\nengine fast: transfers share links, so the fast one could be off;\n  xxxx"));
}

TEST_CASE("the most used link of each kind has a row, with what it moved") {
  ExampleRun run = example_run({.links = true});
  run.summary.links[0].bytes = 12'340'000'000;
  run.summary.links[4].bytes = 38'400'000;
  run.summary.links[4].contended_s = 0.00024;
  const std::string text = terminal_summary(run.plan, run.summary);
  const std::string table = R"(
 most used links             GB moved    busy    contended
 node0.gpu0.nvlink_tx (x8)      12.34     8 %          0 s
 node0.nic0.tx                   0.04     2 %     240.0 us
)";
  CAPTURE(text);
  CHECK(text.substr(text.size() - table.size()) == table);
  for (const char* kind : {"a", "b", "c", "d"}) run.summary.links.push_back({kind, 1, 1, 1, 0, 0, 0});
  CHECK(lines_of(terminal_summary(run.plan, run.summary)) == lines_of(text) + 3);  // five at most
}

TEST_CASE("the table of links fits the terminal and is there for several GPUs only") {
  ExampleRun run = example_run({.links = true});
  run.summary.links[0].name = std::string(80, 'n') + ".tx";
  std::istringstream lines(terminal_summary(run.plan, run.summary, {.width = 70}));
  std::string line;
  bool found = false;
  for (bool in_links = false; std::getline(lines, line);) {
    in_links |= line.find(" most used links ") == 0;
    if (in_links) CHECK(line.size() <= 70);
    found |= line.find("nn.. (x8)") != std::string::npos;
  }
  CHECK(found);
  run.summary.ranks = 1;
  CHECK(terminal_summary(run.plan, run.summary).find("nvlink") == std::string::npos);
  CHECK(terminal_summary(example_run().plan, example_run().summary).find("busiest") == std::string::npos);
}

TEST_CASE("a step of no length divides by nothing") {
  ExampleRun run = example_run();
  run.summary = Summary{};
  run.summary.stages.resize(1);
  CHECK(terminal_summary(run.plan, run.summary).find("nan") == std::string::npos);
}

}  // namespace simrun
