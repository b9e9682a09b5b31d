#include <cstdio>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "cli/options.h"
#include "cli/processes.h"
#include "cli/run.h"

namespace {

// Searches and large plans take and free the same memory again and again: what was freed is kept, and taken
// from the system in large parts. A tenth of a search's time.
void keep_freed_memory() {
#if defined(__GLIBC__)
  constexpr int mebibyte = 1 << 20;
  mallopt(M_MMAP_THRESHOLD, 32 * mebibyte);  // the most that is allowed
  mallopt(M_TRIM_THRESHOLD, 1024 * mebibyte);
  mallopt(M_TOP_PAD, 64 * mebibyte);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  keep_freed_memory();
  const simrun::ParsedOptions parsed = simrun::parse_options(argc, argv);
  if (parsed.exit_code) {
    if (parsed.error.empty() || simrun::tells_of_mistakes()) {
      std::fputs(parsed.out.c_str(), stdout);
      std::fputs(parsed.error.c_str(), stderr);
    }
    return *parsed.exit_code;
  }
  return simrun::run(parsed.options);
}
