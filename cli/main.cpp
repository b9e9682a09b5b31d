#include <cstdlib>  // says whether the C library is glibc

#if defined(__GLIBC__) && !defined(SIMRUN_HAS_JEMALLOC)
#include <malloc.h>
#endif

#include "cli/run.h"

namespace {

// Searches and large plans take and free the same memory again and again: what was freed is kept, and taken
// from the system in large parts. A tenth of a search's time.
void keep_freed_memory() {
#if defined(__GLIBC__) && !defined(SIMRUN_HAS_JEMALLOC)
  constexpr int mebibyte = 1 << 20;
  mallopt(M_MMAP_THRESHOLD, 32 * mebibyte);  // the most that is allowed
  mallopt(M_TRIM_THRESHOLD, 1024 * mebibyte);
  mallopt(M_TOP_PAD, 64 * mebibyte);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  keep_freed_memory();
  return simrun::run_program(argc, argv);
}
