#include "visualizer/terminal.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <set>
#include <vector>

#include "visualizer/held_text.h"
#include "visualizer/quantity.h"
#include "visualizer/server_text.h"

namespace simrun {

namespace {

constexpr std::size_t unfolded_rows = 16;
constexpr std::size_t listed_links = 5;

// ANSI 256-colour codes near the page's colours.
constexpr const char* bold = "1";
constexpr const char* alarm = "1;31";
constexpr const char* compute_colour = "38;5;25";
constexpr const char* bubble_colour = "38;5;245";
constexpr const char* exposed_colour = "38;5;175";

std::string paint(const std::string& text, const char* code, const TerminalOptions& options) {
  return options.color ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
}

// A bar of `width` columns filled to an eighth of a column; anything above zero shows.
std::string bar(double fraction, int width, const char* rest) {
  static constexpr std::array<const char*, 8> eighths{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double clamped = std::isfinite(fraction) ? std::clamp(fraction, 0.0, 1.0) : 0.0;
  long filled = std::lround(clamped * width * 8);
  if (clamped > 0) filled = std::max(filled, 1L);
  std::string text;
  for (long i = 0; i < filled / 8; ++i) text += "█";
  text += eighths[static_cast<std::size_t>(filled % 8)];
  for (long i = (filled + 7) / 8; i < width; ++i) text += rest;
  return text;
}

std::string headline(const Summary& summary) {
  std::string text = fmt::format("step {}   {} {}/s   MFU {}", seconds_text(summary.step_time_s),
                                 count_text(summary.tokens_per_s), samples_word(summary.counts_images),
                                 percent_text(summary.mfu));
  if (percent_text(summary.hfu) != percent_text(summary.mfu))
    text += fmt::format("   HFU {}", percent_text(summary.hfu));
  text += fmt::format("   peak memory {} of {} on pp {}", memory_text(summary.peak_memory_bytes),
                      room_text(summary.memory_limit_bytes), summary.peak_pipeline_rank);
  if (has_gpu_kinds(summary)) text += fmt::format(", on {}", summary.peak_gpu);
  return text;
}

// Broken behind a clause if it is wider than the terminal.
std::string engine_line(const Summary& summary, const TerminalOptions& options) {
  const std::string text = engine_text(summary);
  const auto width = static_cast<std::size_t>(std::max(options.width, 1));
  const std::size_t end = text.size() <= width ? std::string::npos : text.rfind("; ", width - 1);
  return end == std::string::npos ? text : text.substr(0, end + 1) + "\n  " + text.substr(end + 2);
}

// How near a searched schedule comes to what no order can beat, in its own model.
std::string search_line(const FoundSchedule& found) {
  const std::string limit = found.memory_limit == 0
                                ? "any number of activations per rank"
                                : fmt::format("at most {} activations per rank", found.memory_limit);
  const std::string gap =
      found.makespan_s > found.lower_bound_s
          ? percent_text(found.makespan_s / found.lower_bound_s - 1) + " above a proven bound"
          : "no order can be shorter";
  return fmt::format("order of {} found from {}: {}, {}\n", seconds_text(found.makespan_s), found.origin, gap,
                     limit);
}

// What recompute was chosen, what it saves and what it costs.
std::string recompute_line(const FoundRecompute& found, const Summary& summary) {
  std::string text = "recompute: " + found.section + "\n";
  if (found.peak_bytes > found.memory_limit)
    return text + fmt::format("  the least memory that was found: {}, {} more than the {} allowed\n",
                              memory_text(found.peak_bytes),
                              memory_text(found.peak_bytes - found.memory_limit),
                              memory_text(found.memory_limit));
  const double without = summary.step_time_s - found.added_s;
  return text + fmt::format("  fits {} with {} instead of {}; adds {} ({}) to the step\n",
                            memory_text(found.memory_limit), memory_text(found.peak_bytes),
                            memory_text(found.peak_bytes_without), seconds_text(found.added_s),
                            percent_text(without > 0 ? found.added_s / without : 0));
}

// What packed documents leave of attention; MFU counts whole sequences, and here is what it is without.
std::string documents_line(const DocumentMask& documents, const Plan& plan, const Summary& summary) {
  std::string text = fmt::format(
      "documents ({}): {} of attention's scores, {} in the most expensive microbatch", documents.origin,
      percent_text(documents.mean_share), percent_text(documents.highest_share));
  const double mfu = summary.mfu * documents.model_flops_per_step / plan.job.model_flops_per_step;
  if (percent_text(mfu) != percent_text(summary.mfu))
    text += fmt::format("; MFU counts whole sequences, counting only these it is {}", percent_text(mfu));
  return text + "\n";
}

// "warm-up 0.14  drain 0.10": what is not zero, in the unit of its row.
std::string bubble_split(const Summary& summary, const TimeUnit& unit) {
  std::string text;
  for (const BubbleCause cause :
       {BubbleCause::warm_up, BubbleCause::drain, BubbleCause::imbalance, BubbleCause::p2p}) {
    const double seconds = summary.bubble_by_cause_s[static_cast<std::size_t>(cause)];
    if (seconds != 0) text += fmt::format("  {} {}", short_name(cause), in_unit(seconds, unit));
  }
  return text;
}

std::string exposed_split(const Summary& summary, const TimeUnit& unit) {
  std::string text;
  for (int t = static_cast<int>(Traffic::tensor); t < traffic_count; ++t) {
    const double seconds = summary.exposed_by_traffic_s[static_cast<std::size_t>(t)];
    if (seconds != 0)
      text += fmt::format("  {} {}", short_name(static_cast<Traffic>(t)), in_unit(seconds, unit));
  }
  if (summary.hidden_comm_s != 0)
    text += fmt::format("  (hidden {} {})", in_unit(summary.hidden_comm_s, unit), unit.name);
  return text;
}

std::string split_rows(const Summary& summary, const TerminalOptions& options) {
  const TimeUnit unit = time_unit(summary.step_time_s);
  const int width = std::clamp(options.width - 72, 10, 44);
  const auto row = [&](const char* name, double seconds, const char* rest, const char* colour,
                       const std::string& causes) {
    const double fraction = seconds / summary.step_time_s;
    return fmt::format("  {:<8} {} {:>7} {}  {:>7}{}{}\n", name,
                       paint(bar(fraction, width, rest), colour, options), in_unit(seconds, unit), unit.name,
                       percent_text(fraction), causes.empty() ? "" : " ", causes);
  };
  return row("compute", summary.compute_s, "░", compute_colour, "") +
         row("bubble", summary.bubble_s, " ", bubble_colour, bubble_split(summary, unit)) +
         row("exposed", summary.exposed_comm_s, " ", exposed_colour, exposed_split(summary, unit));
}

double wait_s(const StageSummary& stage) { return stage.bubble_s + stage.exposed_comm_s; }

std::string busy_text(const StageSummary& stage, const Summary& summary) {
  const double fraction = stage.compute_s / summary.step_time_s;
  return std::isfinite(fraction) ? fmt::format("{:.0f} %", fraction * 100) : "- %";
}

struct TableUnits {
  TimeUnit time;
  MemoryUnit memory;
};

std::string table_row(const StageSummary& stage, const Summary& summary, const TableUnits& units) {
  const auto bytes = [&](Category category) { return stage.memory[static_cast<std::size_t>(category)]; };
  return fmt::format(
      "{:>3}  {:>11}  {:>8}  {:>7}  {:>6}  {:>6}  {:>6}  {:>8}  {:>5}  {:>10}{}\n", stage.pipeline_rank,
      layers_text(stage), in_unit(stage.peak_memory_bytes, units.memory),
      in_unit(bytes(Category::weights), units.memory), in_unit(bytes(Category::optimizer), units.memory),
      in_unit(bytes(Category::gradients), units.memory), in_unit(bytes(Category::activations), units.memory),
      in_unit(bytes(Category::comm) + bytes(Category::workspace), units.memory), busy_text(stage, summary),
      in_unit(wait_s(stage), units.time) + " " + units.time.name,
      has_gpu_kinds(summary) ? "  " + stage.gpu : "");
}

// The pipeline ranks worth a row of their own when there are too many: the ends, the fullest, and the one
// that waits longest if it waits noticeably longer than those.
std::set<std::size_t> telling_rows(const std::vector<StageSummary>& stages) {
  const auto fullest = std::max_element(stages.begin(), stages.end(), [](const auto& a, const auto& b) {
    return a.peak_memory_bytes < b.peak_memory_bytes;
  });
  const auto idlest = std::max_element(stages.begin(), stages.end(),
                                       [](const auto& a, const auto& b) { return wait_s(a) < wait_s(b); });
  const std::size_t count = stages.size();
  std::set<std::size_t> rows{0, 1, static_cast<std::size_t>(fullest - stages.begin()), count - 2, count - 1};
  const bool stands_out = std::all_of(rows.begin(), rows.end(), [&](std::size_t row) {
    return wait_s(*idlest) > wait_s(stages[row]) * 1.005;
  });
  if (stands_out) rows.insert(static_cast<std::size_t>(idlest - stages.begin()));
  return rows;
}

// One line for the ranks [first, last) that got no row.
std::string folded_line(const Summary& summary, std::size_t first, std::size_t last,
                        const TableUnits& units) {
  const auto begin = summary.stages.begin() + static_cast<std::ptrdiff_t>(first);
  const auto end = summary.stages.begin() + static_cast<std::ptrdiff_t>(last);
  const auto [light, full] = std::minmax_element(
      begin, end, [](const auto& a, const auto& b) { return a.peak_memory_bytes < b.peak_memory_bytes; });
  const auto [brief, idle] =
      std::minmax_element(begin, end, [](const auto& a, const auto& b) { return wait_s(a) < wait_s(b); });
  return fmt::format("  ...  {} more: peak {} to {} {}, wait {} to {} {}\n", last - first,
                     in_unit(light->peak_memory_bytes, units.memory),
                     in_unit(full->peak_memory_bytes, units.memory), units.memory.name,
                     in_unit(wait_s(*brief), units.time), in_unit(wait_s(*idle), units.time),
                     units.time.name);
}

std::string table(const Summary& summary) {
  const TableUnits units{time_unit(summary.step_time_s), memory_unit(summary.peak_memory_bytes)};
  std::string text = fmt::format("{:>3}  {:>11}  {:>8}  {:>7}  {:>6}  {:>6}  {:>6}  {:>8}  {:>5}  {:>10}\n",
                                 "pp", "layers", std::string("peak ") + units.memory.name, "weights", "optim",
                                 "grads", "activ.", "comm+wsp", "busy", "wait");
  const std::size_t count = summary.stages.size();
  if (count <= unfolded_rows) {
    for (const StageSummary& stage : summary.stages) text += table_row(stage, summary, units);
    return text;
  }
  std::size_t next = 0;
  for (const std::size_t row : telling_rows(summary.stages)) {
    if (row > next) text += folded_line(summary, next, row, units);
    text += table_row(summary.stages[row], summary, units);
    next = row + 1;
  }
  return text +
         fmt::format(
             "  {} pipeline ranks: the first and last two, the fullest and who waits noticeably longest "
             "have rows\n",
             count);
}

// Offload: what the fullest node has outside its GPUs.
std::string host_lines(const Summary& summary, const TerminalOptions& options) {
  std::string text;
  const auto add = [&](const char* where, std::int64_t bytes, std::int64_t limit) {
    if (bytes == 0) return;
    const std::string line =
        fmt::format("{} {} of {} per node", where, memory_text(bytes), memory_text(limit));
    text += bytes <= limit ? line + "\n" : paint(line + ": does not fit", alarm, options) + "\n";
  };
  add("host memory", summary.host_memory_bytes, summary.host_memory_limit_bytes);
  add("NVMe", summary.nvme_bytes, summary.nvme_limit_bytes);
  return text;
}

// A plan that does not fit is said so whether or not the caller has advice.
std::string fit_paragraph(const Summary& summary, const TerminalOptions& options) {
  if (!options.does_not_fit.empty())
    return "\n" + paint(options.does_not_fit, alarm, options) +
           (options.does_not_fit.back() == '\n' ? "\n" : "\n\n");
  if (summary.fits) return "";
  const std::string text =
      fmt::format("does not fit: pp {} needs {}, {} are there", summary.peak_pipeline_rank,
                  memory_text(summary.peak_memory_bytes), room_text(summary.memory_limit_bytes));
  return "\n" + paint(text, alarm, options) + "\n\n";
}

// The name of a link in `width` columns: what does not fit is cut from the name (ASCII), never from "(x16)".
std::string link_cell(const LinkSummary& link, std::size_t width) {
  std::string full = link_text(link.name, link.multiplicity);
  if (full.size() <= width) return full;
  const std::size_t excess = full.size() - width + 2;
  return link_text(link.name.substr(0, link.name.size() - std::min(excess, link.name.size())) + "..",
                   link.multiplicity);
}

// "node.gpu.nvlink_tx": what kind of link it is, whichever it is.
std::string kind_of(const LinkSummary& link) {
  std::string kind;
  for (const char c : link.name)
    if (c < '0' || c > '9') kind += c;
  return kind;
}

// The most used link of each kind, up to five: a job has hundreds of NVLinks that are about equally busy, and
// they would hide its NICs.
std::vector<LinkSummary> telling_links(const Summary& summary) {
  std::set<std::string> kinds;
  std::vector<LinkSummary> links;
  for (const LinkSummary& link : summary.links)
    if (links.size() < listed_links && kinds.insert(kind_of(link)).second) links.push_back(link);
  return links;
}

// Where to look if communication is exposed.
std::string link_table(const Summary& summary, const TerminalOptions& options) {
  const std::vector<LinkSummary> links = telling_links(summary);
  if (summary.ranks < 2 || links.empty()) return "";
  constexpr int figures = 36;  // columns for all but the name
  std::size_t width = 15;
  std::int64_t most_bytes = 0;
  for (const LinkSummary& link : links) {
    width = std::max(width, link_text(link.name, link.multiplicity).size());
    most_bytes = std::max(most_bytes, link.bytes);
  }
  width = std::min(width, static_cast<std::size_t>(std::max(options.width - figures, 20)));
  const TrafficUnit traffic = traffic_unit(most_bytes);
  const auto row = [&](const std::string& name, const std::string& bytes, const std::string& busy,
                       const std::string& contended) {
    return fmt::format(" {:<{}}  {:>9}  {:>6}  {:>11}\n", name, width, bytes, busy, contended);
  };
  std::string text = row("most used links", std::string(traffic.name) + " moved", "busy", "contended");
  for (const LinkSummary& link : links)
    text += row(link_cell(link, width), in_unit(link.bytes, traffic),
                fmt::format("{:.0f} %", link.busy_fraction * 100), seconds_text(link.contended_s));
  return text;
}

// The pipeline rank whose GPUs differ most; nothing where all of each have equal work.
std::string load_line(const Summary& summary) {
  const auto spread = [](const StageSummary& stage) {
    return stage.busiest.compute_s - stage.idlest.compute_s;
  };
  const auto widest = std::max_element(summary.stages.begin(), summary.stages.end(),
                                       [&](const auto& a, const auto& b) { return spread(a) < spread(b); });
  if (widest == summary.stages.end() || !widest->has_imbalance()) return "";
  return fmt::format("load imbalance: of pp {}, GPU {} computes {}, GPU {} {} (mean {})\n",
                     widest->pipeline_rank, widest->busiest.gpu, seconds_text(widest->busiest.compute_s),
                     widest->idlest.gpu, seconds_text(widest->idlest.compute_s),
                     seconds_text(widest->compute_s));
}

}  // namespace

std::string terminal_summary(const Plan& plan, const Summary& summary, const TerminalOptions& options) {
  std::string text = paint(job_text(plan, summary.parameters, summary.ranks), bold, options) + "\n";
  text += headline(summary) + "\n";
  if (seconds_text(summary.first_step_s) != seconds_text(summary.step_time_s))
    text += fmt::format("first step {}\n", seconds_text(summary.first_step_s));
  if (plan.job.found_schedule) text += search_line(*plan.job.found_schedule);
  if (plan.job.documents) text += documents_line(*plan.job.documents, plan, summary);
  if (plan.job.parameter_servers)
    text += fmt::format("parameter servers: {}\n", servers_text(*plan.job.parameter_servers));
  if (plan.job.found_recompute) text += recompute_line(*plan.job.found_recompute, summary);
  text += engine_line(summary, options) + "\n";
  text += host_lines(summary, options);
  text += fit_paragraph(summary, options);
  text += split_rows(summary, options);
  text += table(summary);
  text += held_text(summary);
  text += load_line(summary);
  text += link_table(summary, options);
  return text;
}

}  // namespace simrun
