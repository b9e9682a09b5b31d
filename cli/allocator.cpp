// What jemalloc reads before main(): linked into programs (simrun, tests, benchmarks), part of no room.
// Memory in huge pages where Linux gives them to who asks (`madvise`): most of a search's time in the system
// is for its pages. What is freed goes back to the system within ten seconds, but at once where the last
// thread of an arena ends: few arenas, as ranks are threads (jemalloc(3), opt.thp, opt.dirty_decay_ms,
// opt.narenas).
extern "C" {
extern const char* malloc_conf;
const char* malloc_conf = "thp:always,narenas:2";  // jemalloc's name for it
}
