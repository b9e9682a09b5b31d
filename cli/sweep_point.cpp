#include "cli/sweep_point.h"

#include <fmt/format.h>

#include <cstring>
#include <new>
#include <stdexcept>
#include <type_traits>

#include "cli/likely_time.h"
#include "cli/read_input.h"
#include "configs/diagnostics.h"
#include "schedules/summary.h"
#include "sim/worker.h"
#include "visualizer/quantity.h"

namespace simrun {
namespace {

SweepRow simulated(const std::string& input, const LoadOptions& load, EngineChoice engine,
                   const std::vector<ErrorBand>& bands) {
  const LoadedJob job = load_job(input, load);
  const Plan plan = compile_checked(job);
  const Summary summary = summarize(plan, simulate(plan, {Detail::totals, engine}));
  SweepRow row;
  row.numbers = sweep_numbers(summary);
  if (const std::optional<LikelyTime> likely = likely_time(plan, bands, summary.step_time_s)) {
    row.numbers->likely_from_s = likely->from_s;
    row.numbers->likely_to_s = likely->to_s;
  }
  row.engine = summary.engine;
  if (!summary.fits)
    row.error = fmt::format("does not fit: pp {} needs {}, {} are there", summary.peak_pipeline_rank,
                            memory_text(summary.peak_memory_bytes), room_text(summary.memory_limit_bytes));
  else if (!summary.host_fits)
    row.error = fmt::format("does not fit the hosts: {} of memory, {} of NVMe per node",
                            memory_text(summary.host_memory_bytes), memory_text(summary.nvme_bytes));
  return row;
}

}  // namespace

SweepRow simulate_point(const std::string& input, const LoadOptions& load, EngineChoice engine,
                        const std::vector<ErrorBand>& bands) {
  SweepRow refused;
  try {
    return simulated(input, load, engine, bands);
  } catch (const ConfigError& error) {
    refused.error = error.diagnostics().empty() ? error.what() : error.diagnostics().front().message;
  } catch (const std::range_error& error) {
    refused.error = error.what();
  } catch (const WorkerError& error) {
    refused.error = error.what();
  } catch (const std::bad_alloc&) {
    refused.error = "out of memory";
  }
  return refused;
}

std::string to_bytes(const SweepRow& row) {
  static_assert(std::is_trivially_copyable_v<SweepNumbers>);
  std::string bytes(1 + sizeof(SweepNumbers), '\0');
  if (row.numbers) {
    bytes[0] = 1;
    std::memcpy(&bytes[1], &*row.numbers, sizeof(SweepNumbers));
  }
  return bytes + row.engine + '\0' + row.error;
}

SweepRow row_from_bytes(const std::string& bytes) {
  constexpr std::size_t words = 1 + sizeof(SweepNumbers);
  const std::size_t end = bytes.size() < words ? std::string::npos : bytes.find('\0', words);
  if (end == std::string::npos) throw std::runtime_error("a sweep's worker returned half a row");
  SweepRow row;
  if (bytes[0] != 0) {
    row.numbers.emplace();
    std::memcpy(&*row.numbers, &bytes[1], sizeof(SweepNumbers));
  }
  row.engine = bytes.substr(words, end - words);
  row.error = bytes.substr(end + 1);
  return row;
}

}  // namespace simrun
