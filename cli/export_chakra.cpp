#include "cli/export_chakra.h"

#include <fmt/format.h>

#include <filesystem>
#include <stdexcept>

#include "cli/chakra_nodes.h"
#include "cli/console.h"
#include "cli/output_file.h"
#include "cli/outputs.h"
#include "configs/diagnostics.h"
#include "sim/exchange_groups.h"
#include "sim/simulate.h"

namespace simrun {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t most_nodes = 4'000'000;  // of all ranks: about 600 MB

[[noreturn]] void refuse_export(const std::string& file, std::string message, std::string hint = "") {
  throw ConfigError({{{file, 0, 0}, std::move(message), std::move(hint)}});
}

std::int64_t instructions_of(const Plan& plan, std::int32_t pipeline_rank) {
  std::int64_t count = 0;
  for (const Entry& entry : plan.programs[static_cast<std::size_t>(pipeline_rank)].entries)
    for (const Instruction& of : plan.segments[entry.segment].instructions)
      count += of.opcode != Opcode::free && of.opcode != Opcode::init ? 1 : 0;
  return count;
}

void check_size(const std::string& file, const Plan& plan) {
  std::int64_t nodes = 0;
  for (std::int32_t rank = 0; rank < static_cast<std::int32_t>(plan.programs.size()); ++rank)
    nodes += instructions_of(plan, rank) * device_count(plan, rank);
  if (nodes > most_nodes)
    refuse_export(
        file,
        fmt::format("traces of {} GPUs would have {} nodes, more than {}", plan.ranks(), nodes, most_nodes),
        "a smaller training.global_batch_size has fewer microbatches.");
}

void check_folder(const fs::path& folder) {
  std::error_code ignored;
  if (fs::exists(folder, ignored) && !(fs::is_directory(folder, ignored) && fs::is_empty(folder, ignored)))
    refuse_export(folder.string(), "traces go into a folder of their own, and this is there already",
                  "choose another path.");
}

// A folder beside the one that is asked for, which goes away unless it is kept.
class Draft {
 public:
  explicit Draft(const fs::path& folder) : folder_(folder), draft_(folder.string() + ".part") {
    std::error_code error;
    if (!fs::create_directory(draft_, error))
      throw OutputError(fmt::format("cannot write {}: {}", draft_.string(),
                                    error ? error.message() : "it is there already"));
  }
  ~Draft() {
    std::error_code ignored;
    fs::remove_all(draft_, ignored);
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;
  std::string file(const std::string& name) const { return (draft_ / name).string(); }
  void keep() const {
    std::error_code error;
    fs::rename(draft_, folder_, error);
    if (error) throw OutputError(fmt::format("cannot write {}: {}", folder_.string(), error.message()));
  }

 private:
  fs::path folder_, draft_;
};

}  // namespace

int export_chakra(const Options& options, const Input& input) {
  if (!options.output)
    refuse_export(options.input, "--export chakra writes a folder of files", "-o FOLDER names it.");
  const fs::path folder = fs::path(*options.output).lexically_normal();
  check_folder(folder);
  check_size(options.input, input.plan);
  const Timeline timeline = simulate(input.plan, {.detail = Detail::instructions, .engine = options.engine});
  ChakraTraces traces;
  try {
    traces = chakra_traces(input.plan, timeline);
  } catch (const std::invalid_argument& error) {
    refuse_export(options.input, error.what());
  }
  const std::string name = fs::path(options.input).stem().string();
  const Draft draft(folder.has_filename() ? folder : folder.parent_path());
  std::uintmax_t bytes = 0;
  std::int64_t files = 0;
  for (std::int32_t rank = 0; rank < static_cast<std::int32_t>(input.plan.programs.size()); ++rank)
    for (std::int64_t local = 0; local < device_count(input.plan, rank); ++local, ++files) {
      const std::int64_t device = device_at(input.plan, rank, local);
      const std::string trace =
          chakra_trace(device, timeline.step / 1000, nodes_of(input.plan, traces, rank, local));
      write_output(draft.file(fmt::format("{}.{}.et", name, device)), trace);
      bytes += trace.size();
    }
  write_output(draft.file(name + ".communicators"), chakra_groups_json(traces));
  draft.keep();
  if (!options.quiet)
    complain(fmt::format("wrote {} traces and {} communicators to {} ({})\n", files, traces.groups.size(),
                         folder.string(), file_size_text(bytes)));
  return 0;
}

}  // namespace simrun
