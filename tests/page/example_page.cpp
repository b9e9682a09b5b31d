#include <cstdio>
#include <fstream>

#include "tests/visualizer/example_run.h"
#include "visualizer/page.h"

// Writes the page of the run of tests/visualizer with all that a page can hold, whatever an engine records
// today: links, ranks whose GPUs differ. For tests/page/chromium.mjs.
int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: example_page FILE.html\n", stderr);
    return 2;
  }
  const simrun::ExampleRun run = simrun::example_run({.jitter = true, .links = true, .unlike = true});
  std::ofstream file(argv[1], std::ios::binary);
  file << simrun::html_page(run.plan, run.timeline, run.summary);
  return file.flush() ? 0 : 1;
}
