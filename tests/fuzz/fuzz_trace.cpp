#include <cstdint>
#include <string_view>

#include "configs/diagnostics.h"
#include "traces/compare_imported.h"
#include "traces/imported_timeline.h"
#include "traces/read_chakra.h"
#include "traces/read_chrome.h"

// Readers may refuse any input with a ConfigError; what they take must give a step whose parts sum to it.
template <typename Reader>
static void import(std::string_view input, const Reader& read) {
  try {
    simrun::ByteSource bytes(input, "fuzz");
    const simrun::ImportedRun run = simrun::imported_run({read(bytes)});
    if (simrun::tally_imported(run).by_time.size() != 3) __builtin_trap();
    const simrun::Timeline timeline = simrun::imported_timeline(simrun::plan_of_ranks(run), run).timeline;
    for (const simrun::RankTimeline& rank : timeline.ranks) {
      const simrun::RankTotals& totals = rank.totals;
      if (totals.compute + totals.exposed_total() + totals.bubble_total() != timeline.step) __builtin_trap();
    }
  } catch (const simrun::ConfigError&) {
  }
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  import(input, simrun::read_chrome_trace);
  import(input, simrun::read_chakra_trace);
  return 0;
}
