#include "visualizer/page_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "schedules/stage_sizes.h"
#include "visualizer/idle_bars.h"
#include "visualizer/mfu_waterfall.h"
#include "visualizer/peak_treemap.h"
#include "visualizer/quantity.h"
#include "visualizer/roofline.h"

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

// Kinds of traffic that any rank had to wait for or could hide: only those get a column.
std::vector<Traffic> traffic_in_use(const Summary& summary,
                                    const decltype(StageSummary::exposed_by_traffic_s) StageSummary::*part) {
  std::vector<Traffic> in_use;
  for (std::size_t t = 1; t < traffic_count; ++t)
    for (const StageSummary& stage : summary.stages)
      if ((stage.*part)[t] != 0) {
        in_use.push_back(static_cast<Traffic>(t));
        break;
      }
  return in_use;
}

// GPUs of a pipeline rank whose times differ, and which of them waits longest.
struct Spread {
  int classes = 0;
  std::int64_t slowest_device = 0;
  Picoseconds longest_wait = -1;
};

std::vector<Spread> spreads(const Timeline& timeline, std::size_t stages) {
  std::vector<Spread> spread(stages);
  for (const RankTimeline& rank : timeline.ranks) {
    Spread& of = spread.at(static_cast<std::size_t>(rank.pipeline_rank));
    ++of.classes;
    const Picoseconds wait = rank.totals.exposed_total() + rank.totals.bubble_total();
    if (wait <= of.longest_wait) continue;
    of.longest_wait = wait;
    of.slowest_device = rank.device;
  }
  return spread;
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
                                   {"GPUs", "of this pipeline rank; times are their means"},
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

std::vector<std::string> time_row(const StageSummary& stage, const Summary& summary, const TimeUnit& unit,
                                  const std::vector<Traffic>& exposed, const std::vector<Traffic>& hidden) {
  const auto cell = [&](double time) { return time == 0 ? std::string("0") : in_unit(time, unit); };
  std::vector<std::string> cells{fmt::format("{}", stage.pipeline_rank), fmt::format("{}", stage.gpus),
                                 percent_text(stage.compute_s / summary.step_time_s), cell(stage.compute_s)};
  for (const BubbleCause cause : causes)
    cells.push_back(cell(stage.bubble_by_cause_s[static_cast<std::size_t>(cause)]));
  for (const Traffic traffic : exposed)
    cells.push_back(cell(stage.exposed_by_traffic_s[static_cast<std::size_t>(traffic)]));
  for (const Traffic traffic : hidden)
    cells.push_back(cell(stage.hidden_by_traffic_s[static_cast<std::size_t>(traffic)]));
  return cells;
}

std::string time_table(const Timeline& timeline, const Summary& summary) {
  const TimeUnit unit = time_unit(summary.step_time_s);
  const std::vector<Traffic> exposed = traffic_in_use(summary, &StageSummary::exposed_by_traffic_s);
  const std::vector<Traffic> hidden = traffic_in_use(summary, &StageSummary::hidden_by_traffic_s);
  const std::vector<Spread> spread = spreads(timeline, summary.stages.size());
  const bool differ =
      std::any_of(spread.begin(), spread.end(), [](const Spread& s) { return s.classes > 1; });
  std::vector<TableColumn> columns = time_columns(unit, exposed, hidden);
  if (differ) columns.push_back({"longest wait", "bubble and exposed time of the GPU that waits longest"});
  std::string rows;
  for (std::size_t i = 0; i < summary.stages.size(); ++i) {
    std::vector<std::string> cells = time_row(summary.stages[i], summary, unit, exposed, hidden);
    if (differ)
      cells.push_back(fmt::format("{} (GPU {})", in_unit(to_seconds(spread[i].longest_wait), unit),
                                  spread[i].slowest_device));
    rows += row(cells, "");
  }
  return table(fmt::format("Where each pipeline rank's step of {} goes ({})",
                           seconds_text(summary.step_time_s), unit.name),
               columns, rows);
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
  std::vector<TableColumn> columns{
      {"pp", "pipeline rank"},
      {"layers", "transformer layers, with embedding, multi-token prediction and LM head"},
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
  for (const StageSummary& stage : summary.stages) {
    std::vector<std::string> cells{fmt::format("{}", stage.pipeline_rank), layers_text(stage),
                                   in_unit(stage.peak_memory_bytes, unit)};
    for (const Category category : order)
      cells.push_back(in_unit(stage.memory[static_cast<std::size_t>(category)], unit));
    cells.push_back(in_unit(stage.memory_limit_bytes - stage.peak_memory_bytes, MemoryUnit{}));
    cells.push_back(peak_moment(plan, fullest_gpu(timeline, stage.pipeline_rank)));
    rows += row(cells, stage.peak_memory_bytes > stage.memory_limit_bytes ? " class=\"over\"" : "");
  }
  return table(fmt::format("Memory of each pipeline rank at its peak ({}; {} are usable)", unit.name,
                           room_text(summary.memory_limit_bytes)),
               columns, rows);
}

// A page lists the most used links only: a job of 1,024 GPUs has thousands.
constexpr std::size_t listed_links = 200;

std::string link_table(const Summary& summary) {
  if (summary.links.empty()) return "";
  const std::size_t count = std::min(summary.links.size(), listed_links);
  std::int64_t most_bytes = 0;
  for (std::size_t i = 0; i < count; ++i) most_bytes = std::max(most_bytes, summary.links[i].bytes);
  const TrafficUnit traffic = traffic_unit(most_bytes);
  std::string rows;
  for (std::size_t i = 0; i < count; ++i) {
    const LinkSummary& link = summary.links[i];
    rows += row({link.name, fmt::format("{}", link.multiplicity), bandwidth_text(link.bandwidth),
                 in_unit(link.bytes, traffic), percent_text(link.busy_fraction),
                 percent_text(link.mean_utilisation), seconds_text(link.contended_s)},
                "");
  }
  const std::string rest =
      count < summary.links.size()
          ? fmt::format("; the {} most used of {}, --json has all", count, summary.links.size())
          : "";
  return table("Links, most used first (each direction is a link of its own" + rest + ")",
               {{"link", "tx leaves the GPU or NIC, rx enters it; up leads from a leaf switch to a spine"},
                {"links", "how many links with equal figures the row stands for"},
                {"bandwidth", "that transfers get, of one link"},
                {std::string(traffic.name) + " moved", "over one link in one step"},
                {"busy", "share of the step in which at least one transfer moves bytes"},
                {"mean use", "bytes moved / (bandwidth x step)"},
                {"contended", "time in which two or more transfers of different exchanges share the link"}},
               rows);
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
  html += figure(std::string(samples_word(summary.counts_images)) + "/s", count_text(summary.tokens_per_s),
                 "of the whole job");
  html += figure("MFU", percent_text(summary.mfu), "model FLOPs without recompute / dense datasheet peak");
  html +=
      figure("HFU", percent_text(summary.hfu), "executed FLOPs, recompute included / dense datasheet peak");
  html += figure("bubble", percent_text(summary.bubble_fraction),
                 "share of the step that ranks wait for the pipeline");
  html += figure("exposed comm", percent_text(summary.exposed_comm_s / summary.step_time_s),
                 "share of the step with communication in flight and no compute");
  html += figure("peak memory",
                 fmt::format("{} / {} (pp {})", memory_text(summary.peak_memory_bytes),
                             room_text(summary.memory_limit_bytes), summary.peak_pipeline_rank),
                 "of the fullest rank / what a GPU has less what is reserved");
  html += "</dl>\n";
  html += fmt::format("<p>{}</p>\n", html_escaped(engine_text(summary)));
  if (!summary.fits)
    html += fmt::format("<p class=\"over\" role=\"alert\">Does not fit: pipeline rank {} needs {}.</p>\n",
                        summary.peak_pipeline_rank, memory_text(summary.peak_memory_bytes));
  return html;
}

std::string page_sizes(const Plan& plan, const Summary& summary) {
  const JobFacts& job = plan.job;
  std::string html = "<dl>";
  html += figure("parameters", count_text(static_cast<double>(summary.parameters)), "of the whole model");
  html += figure("model FLOPs/step", significant(summary.model_flops_per_step / 1e15, 4) + " PFLOP",
                 "forward and backward, without recompute");
  html += figure("per GPU", significant(summary.model_tflops_per_gpu, 4) + " TFLOP/s",
                 "model FLOPs of the step / its time / GPUs");
  html += figure("GPUs", fmt::format("{}", summary.ranks), "nodes x GPUs per node");
  html += figure("data parallel", ranks_along_text(plan, "dp"), "what tp, cp and pp leave of the GPUs");
  html += figure("microbatches", fmt::format("{}", job.microbatches),
                 "global batch / (micro batch x data parallel)");
  return html + "</dl>\n";
}

// Of the fullest pipeline rank the GPU whose instructions were recorded; where none were, its fullest one.
static const RankTimeline& fullest_recorded(const Timeline& timeline, const Summary& summary) {
  for (const RankTimeline& rank : timeline.ranks)
    if (rank.pipeline_rank == summary.peak_pipeline_rank && !rank.lanes.empty()) return rank;
  return fullest_gpu(timeline, summary.peak_pipeline_rank);
}

std::string page_tables(const Plan& plan, const Timeline& timeline, const Summary& summary) {
  return idle_bars(summary) + waterfall_html(summary) + time_table(timeline, summary) +
         memory_table(plan, timeline, summary) +
         peak_treemap(alive_at_peak(plan, fullest_gpu(timeline, summary.peak_pipeline_rank)),
                      fmt::format("pp {}", summary.peak_pipeline_rank)) +
         roofline_html(plan, fullest_recorded(timeline, summary)) + link_table(summary);
}

}  // namespace simrun
