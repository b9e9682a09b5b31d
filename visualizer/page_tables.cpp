#include "visualizer/page_tables.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <vector>

#include "visualizer/quantity.h"

namespace simrun {

namespace {

struct TableColumn {
  std::string name;
  std::string meaning;  // shown on hover
};

std::string header_row(const std::vector<TableColumn>& columns) {
  std::string html = "<thead><tr>";
  for (const TableColumn& column : columns)
    html += fmt::format("<th scope=\"col\" title=\"{}\">{}</th>", html_escaped(column.meaning),
                        html_escaped(column.name));
  return html + "</tr></thead>";
}

std::string row(const std::vector<std::string>& cells, const char* row_class) {
  std::string html = fmt::format("<tr{}><th scope=\"row\">{}</th>", row_class, html_escaped(cells.front()));
  for (std::size_t i = 1; i < cells.size(); ++i) html += fmt::format("<td>{}</td>", html_escaped(cells[i]));
  return html + "</tr>\n";
}

std::string table(const std::string& caption, const std::vector<TableColumn>& columns,
                  const std::string& rows) {
  return fmt::format("<table><caption>{}</caption>{}<tbody>\n{}</tbody></table>\n", html_escaped(caption),
                     header_row(columns), rows);
}

double seconds(Picoseconds time) { return static_cast<double>(time) * 1e-12; }

// Kinds of traffic that any rank had to wait for or could hide: only those get a column.
std::vector<Traffic> traffic_in_use(const Timeline& timeline,
                                    const decltype(RankTotals::exposed) RankTotals::*part) {
  std::vector<Traffic> in_use;
  for (std::size_t t = 1; t < traffic_count; ++t)
    for (const RankTimeline& rank : timeline.ranks)
      if ((rank.totals.*part)[t] != 0) {
        in_use.push_back(static_cast<Traffic>(t));
        break;
      }
  return in_use;
}

constexpr std::array<BubbleCause, bubble_cause_count> causes{BubbleCause::warm_up, BubbleCause::drain,
                                                             BubbleCause::imbalance, BubbleCause::p2p};

const char* meaning(BubbleCause cause) {
  switch (cause) {
    case BubbleCause::warm_up: return "idle before the rank's first backward pass";
    case BubbleCause::drain: return "idle after the rank's last forward pass, until the step ends";
    case BubbleCause::imbalance: return "idle in between: the rank waits for a neighbour's pass";
    case BubbleCause::p2p: return "idle while a pipeline transfer that the next pass needs is in flight";
  }
  return "";
}

std::vector<TableColumn> time_columns(const TimeUnit& unit, const std::vector<Traffic>& exposed,
                                      const std::vector<Traffic>& hidden) {
  std::vector<TableColumn> columns{{"pp", "pipeline rank"},
                                   {"GPUs", "how many equal GPUs the row stands for"},
                                   {"busy", "share of the step in which compute runs"},
                                   {"compute", std::string("time in which compute runs, ") + unit.name}};
  for (const BubbleCause cause : causes) columns.push_back({short_name(cause), meaning(cause)});
  for (const Traffic traffic : exposed)
    columns.push_back({std::string(short_name(traffic)) + " exposed",
                       std::string(short_name(traffic)) + " traffic in flight while no compute runs"});
  for (const Traffic traffic : hidden)
    columns.push_back({std::string(short_name(traffic)) + " hidden",
                       std::string(short_name(traffic)) + " traffic in flight while compute runs"});
  return columns;
}

std::string time_table(const Timeline& timeline) {
  const TimeUnit unit = time_unit(seconds(timeline.step));
  const std::vector<Traffic> exposed = traffic_in_use(timeline, &RankTotals::exposed);
  const std::vector<Traffic> hidden = traffic_in_use(timeline, &RankTotals::hidden);
  const auto cell = [&](Picoseconds time) {
    return time == 0 ? std::string("0") : in_unit(seconds(time), unit);
  };
  std::string rows;
  for (const RankTimeline& rank : timeline.ranks) {
    const RankTotals& totals = rank.totals;
    std::vector<std::string> cells{
        fmt::format("{}", rank.pipeline_rank), fmt::format("{}", rank.multiplicity),
        percent_text(seconds(totals.compute) / seconds(timeline.step)), cell(totals.compute)};
    for (const BubbleCause cause : causes)
      cells.push_back(cell(totals.bubble[static_cast<std::size_t>(cause)]));
    for (const Traffic traffic : exposed)
      cells.push_back(cell(totals.exposed[static_cast<std::size_t>(traffic)]));
    for (const Traffic traffic : hidden)
      cells.push_back(cell(totals.hidden[static_cast<std::size_t>(traffic)]));
    rows += row(cells, "");
  }
  return table(fmt::format("Where each pipeline rank's step of {} goes ({})",
                           seconds_text(seconds(timeline.step)), unit.name),
               time_columns(unit, exposed, hidden), rows);
}

// "forward chunk 2, microbatch 17": the entry during which the peak is reached.
std::string peak_moment(const Plan& plan, const RankTimeline& rank) {
  const auto place = static_cast<std::size_t>(rank.pipeline_rank);
  if (place >= plan.programs.size() || rank.peak.entry >= plan.programs[place].entries.size()) return "";
  const Program& program = plan.programs[place];
  const Entry& entry = program.entries[rank.peak.entry];
  std::string name = entry.segment < plan.segments.size() ? plan.segments[entry.segment].name : "";
  if (entry.binding_count == 0 || entry.first_binding >= program.bindings.size()) return name;
  const std::int32_t microbatch = program.bindings[entry.first_binding].microbatch;
  return microbatch < 0 ? name : fmt::format("{}, microbatch {}", name, microbatch);
}

std::string memory_table(const Plan& plan, const Timeline& timeline, const Summary& summary) {
  std::vector<TableColumn> columns{{"pp", "pipeline rank"},
                                   {"layers", "transformer layers, with embedding and LM head"},
                                   {"peak", "highest sum of live bytes at one instant"}};
  constexpr std::array<Category, category_count> order{Category::weights,   Category::optimizer,
                                                       Category::gradients, Category::activations,
                                                       Category::comm,      Category::workspace};
  for (const Category category : order)
    columns.push_back({to_string(category), std::string(to_string(category)) + " live at the peak"});
  columns.push_back({"free GiB", "memory limit less the peak; negative: does not fit"});
  columns.push_back({"reached in", "what the rank was running at the peak"});
  const MemoryUnit unit = memory_unit(summary.peak_memory_bytes);
  std::string rows;
  for (const RankTimeline& rank : timeline.ranks) {
    const auto place = static_cast<std::size_t>(rank.pipeline_rank);
    std::string layers;
    if (place < summary.stages.size())
      layers = layers_text(summary.stages[place].layers, summary.stages[place].embedding,
                           summary.stages[place].loss);
    std::vector<std::string> cells{fmt::format("{}", rank.pipeline_rank), layers,
                                   in_unit(rank.peak.bytes, unit)};
    for (const Category category : order)
      cells.push_back(in_unit(rank.peak.live[static_cast<std::size_t>(category)], unit));
    cells.push_back(in_unit(summary.memory_limit_bytes - rank.peak.bytes, MemoryUnit{}));
    cells.push_back(peak_moment(plan, rank));
    rows += row(cells, rank.peak.bytes > summary.memory_limit_bytes ? " class=\"over\"" : "");
  }
  return table(fmt::format("Memory of each pipeline rank at its peak ({}; {} are usable)", unit.name,
                           memory_text(summary.memory_limit_bytes)),
               columns, rows);
}

std::string figure(const std::string& name, const std::string& value, const std::string& meaning_text) {
  return fmt::format("<div title=\"{}\"><dt>{}</dt><dd>{}</dd></div>", html_escaped(meaning_text),
                     html_escaped(name), html_escaped(value));
}

}  // namespace

std::string html_escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) switch (c) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '"': escaped += "&quot;"; break;
      case '\'': escaped += "&#39;"; break;
      default: escaped += c;
    }
  return escaped;
}

std::string page_numbers(const Plan& plan, const Summary& summary) {
  std::string html =
      fmt::format("<p>{}</p>\n<dl>", html_escaped(job_text(plan, summary.parameters, summary.ranks)));
  html += figure("step", seconds_text(summary.step_time_s),
                 "the steady step, from the first instruction to the last");
  html += figure("tokens/s", count_text(summary.tokens_per_s), "of the whole job");
  html += figure("MFU", percent_text(summary.mfu), "model FLOPs without recompute / dense datasheet peak");
  html +=
      figure("HFU", percent_text(summary.hfu), "executed FLOPs, recompute included / dense datasheet peak");
  html += figure("bubble", percent_text(summary.bubble_fraction),
                 "share of the step that ranks wait for the pipeline");
  html += figure("exposed comm", percent_text(summary.exposed_comm_s / summary.step_time_s),
                 "share of the step with communication in flight and no compute");
  html += figure("peak memory",
                 fmt::format("{} / {} (pp {})", memory_text(summary.peak_memory_bytes),
                             memory_text(summary.memory_limit_bytes), summary.peak_pipeline_rank),
                 "of the fullest rank / what a GPU has less what is reserved");
  html += "</dl>\n";
  if (!summary.fits)
    html += fmt::format("<p class=\"over\" role=\"alert\">Does not fit: pipeline rank {} needs {}.</p>\n",
                        summary.peak_pipeline_rank, memory_text(summary.peak_memory_bytes));
  return html;
}

std::string page_tables(const Plan& plan, const Timeline& timeline, const Summary& summary) {
  return time_table(timeline) + memory_table(plan, timeline, summary);
}

}  // namespace simrun
