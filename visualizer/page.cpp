#include "visualizer/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <stdexcept>
#include <string_view>

#include "visualizer/bound_chunks.h"
#include "visualizer/columns.h"
#include "visualizer/json.h"
#include "visualizer/measured_table.h"
#include "visualizer/page_tables.h"
#include "visualizer/payload.h"
#include "visualizer/quantity.h"
#include "visualizer/viewer_html.h"

namespace simrun {

namespace {

template <typename Items, typename Item>
std::string json_list(const Items& items, const Item& item) {
  std::string text;
  for (const auto& i : items) {
    if (!text.empty()) text += ',';
    text += item(i);
  }
  return "[" + text + "]";
}

// The JSON of what gets a lane.
template <typename Items, typename Item>
std::string drawn_list(const Items& items, const Item& item) {
  std::string text;
  for (const auto& i : items)
    if (is_drawn(i)) {
      if (!text.empty()) text += ',';
      text += item(i);
    }
  return "[" + text + "]";
}

// The GPUs that a lane stands for, so that the reader can unfold it; "" where it stands for some of its
// pipeline rank's only: nobody recorded which.
std::string members_facts(const Plan& plan, const RankTimeline& rank) {
  const StageDevices& stage = plan.stages.at(static_cast<std::size_t>(rank.pipeline_rank));
  std::int64_t devices = 0;
  for (const DeviceRange& range : stage.devices) devices += range.count;
  if (devices != rank.multiplicity) return "";
  const auto range = [](const DeviceRange& of) { return fmt::format("[{},{}]", of.first, of.count); };
  const auto axis = [](const Axis& of) { return fmt::format("[{},{}]", json_quoted(of.name), of.size); };
  const auto mesh = [&](const Mesh& of) { return json_list(of.axes, axis); };
  return fmt::format(",\"members\":{{\"devices\":{},\"meshes\":{}}}", json_list(stage.devices, range),
                     json_list(stage.meshes, mesh));
}

std::string rank_facts(const Plan& plan, const RankTimeline& rank, const Summary& summary, bool is_measured) {
  return fmt::format("{{\"pp\":{},\"multiplicity\":{},\"gpus\":{},\"device\":{}{}}}", rank.pipeline_rank,
                     rank.multiplicity, summary.stages.at(static_cast<std::size_t>(rank.pipeline_rank)).gpus,
                     rank.device, is_measured ? ",\"measured\":true" : members_facts(plan, rank));
}

// What is drawn: a Timeline whose ranks may be those of two, and which of them were measured. The path and
// the use of links are of what was predicted, whose step may be shorter than what is drawn.
struct Drawn {
  Timeline timeline;
  Picoseconds predicted_step;
  std::vector<bool> is_measured;  // by rank; empty: none
  CriticalPath path;
};

// Each measured rank behind the predicted one of its pipeline rank.
Drawn side_by_side(const Plan& plan, const Timeline& timeline, const Timeline& measured) {
  Drawn drawn{timeline, timeline.step, {}, critical_path(plan, timeline)};
  drawn.timeline.step = std::max(timeline.step, measured.step);
  drawn.timeline.ranks.clear();
  const auto add = [&](const RankTimeline& rank, bool is_measured) {
    drawn.timeline.ranks.push_back(rank);
    drawn.is_measured.push_back(is_measured);
  };
  std::set<std::int32_t> shown;
  std::vector<Index> place(timeline.ranks.size(), 0);  // among what is drawn
  for (const RankTimeline& rank : timeline.ranks) {
    if (!is_drawn(rank)) continue;
    place[static_cast<std::size_t>(&rank - timeline.ranks.data())] =
        static_cast<Index>(drawn.timeline.ranks.size());
    add(rank, false);
    if (!shown.insert(rank.pipeline_rank).second) continue;
    for (const RankTimeline& other : measured.ranks)
      if (other.pipeline_rank == rank.pipeline_rank && is_drawn(other)) add(other, true);
  }
  for (CriticalStep& step : drawn.path.steps) step.rank = place[step.rank];
  return drawn;
}

std::string link_facts(const LinkTimeline& link) {
  return fmt::format(
      "{{\"name\":{},\"multiplicity\":{},\"bandwidth\":{},\"bytes\":{},\"busy\":{},\"contended\":{}}}",
      json_quoted(link.name), link.multiplicity, link.bandwidth, link.bytes, link.busy, link.contended);
}

// What the page must know besides the columns. visualizer/src/model.ts declares the same as `Facts`.
std::string page_facts(const Plan& plan, const Drawn& drawn, const Summary& summary,
                       const std::vector<std::string>& strings) {
  const Timeline& timeline = drawn.timeline;
  const auto is_measured = [&](const RankTimeline& rank) {
    return !drawn.is_measured.empty() &&
           drawn.is_measured[static_cast<std::size_t>(&rank - timeline.ranks.data())];
  };
  const auto peak_flops = plan.cluster.gpu.peak_flops.find(plan.job.precision);
  std::string categories;
  for (int c = 0; c < category_count; ++c) {
    if (c > 0) categories += ',';
    categories += json_quoted(to_string(static_cast<Category>(c)));
  }
  return fmt::format(
      "{{\"version\":6,\"step\":{},\"predictedStep\":{},\"memoryLimit\":{},\"peakFlops\":{},"
      "\"bidirectional\":{},\"streams\":{},"
      "\"categories\":[{}],\"ranks\":{},\"gpusPerNode\":{},\"useSteps\":{},\"links\":{},\"strings\":{}}}",
      timeline.step, drawn.predicted_step, summary.memory_limit_bytes,
      peak_flops == plan.cluster.gpu.peak_flops.end() ? 0.0 : peak_flops->second, is_bidirectional(plan),
      json_list(plan.streams,
                [](const Stream& stream) {
                  return fmt::format("{{\"name\":{},\"traffic\":\"{}\"}}", json_quoted(stream.name),
                                     short_name(stream.traffic));
                }),
      categories,
      drawn_list(
          timeline.ranks,
          [&](const RankTimeline& rank) { return rank_facts(plan, rank, summary, is_measured(rank)); }),
      plan.cluster.gpus_per_node, use_steps, drawn_list(timeline.links, link_facts),
      json_list(strings, json_quoted));
}

// Puts `parts` where the template says <!--simrun:NAME-->, in one pass: what is put in is not looked at
// again.
std::string filled(std::string_view html, const std::map<std::string, std::string, std::less<>>& parts) {
  constexpr std::string_view open = "<!--simrun:", close = "-->";
  std::string page;
  for (std::size_t at = 0; at < html.size();) {
    const std::size_t mark = html.find(open, at);
    page += html.substr(at, mark - at);
    if (mark == std::string_view::npos) break;
    const std::size_t name = mark + open.size();
    const std::size_t end = html.find(close, name);
    const auto part = parts.find(html.substr(name, end - name));
    if (part == parts.end())
      throw std::logic_error("the page's template names a part that page.cpp does not make");
    page += part->second;
    at = end + close.size();
  }
  return page;
}

// What the page's script reads of one run.
struct RunData {
  std::string facts, columns;
};

RunData run_data(const Plan& plan, const Drawn& drawn, const Summary& summary) {
  const PagePayload payload = page_payload(plan, drawn.timeline, drawn.path);
  return {page_facts(plan, drawn, summary, payload.strings), base64(raw_deflate(payload.columns))};
}

RunData run_data(const PageRun& run) {
  return run_data(run.plan, {run.timeline, run.timeline.step, {}, critical_path(run.plan, run.timeline)},
                  run.summary);
}

std::string filled_page(const PageText& text, const RunData& a, const RunData& b = {}) {
  return filled(viewer_html(), {{"title", html_escaped(text.title)},
                                {"numbers", text.numbers},
                                {"tables", text.tables},
                                {"facts", a.facts},
                                {"columns", a.columns},
                                {"facts-b", b.facts},
                                {"columns-b", b.columns}});
}

std::string drawn_page(const Plan& plan, const Drawn& drawn, const Summary& summary, const PageText& text) {
  return filled_page(text, run_data(plan, drawn, summary));
}

PageText text_of(const Plan& plan, const Timeline& timeline, const Summary& summary,
                 const std::string& note = "") {
  const std::string name = plan.job.name.empty() ? plan.job.model_type : plan.job.name;
  const std::string below = note.empty() ? "" : "<p>" + html_escaped(note) + "</p>\n";
  return {name, page_numbers(plan, summary) + below, page_tables(plan, timeline, summary)};
}

// One item of the page's row of tables: the heading stays above its own.
std::string measured_section(const std::string& tables) {
  return "<div class=\"measured\"><h2>Measured</h2>\n<pre>" + html_escaped(tables) + "</pre></div>\n";
}

}  // namespace

std::string html_page(const Plan& plan, const Timeline& timeline, const Summary& summary,
                      const std::string& note) {
  return html_page(plan, timeline, summary, text_of(plan, timeline, summary, note));
}

std::string html_page(const Plan& plan, const Timeline& timeline, const Timeline& measured,
                      const Summary& summary, const std::string& note) {
  PageText text = text_of(plan, timeline, summary, note);
  text.tables += measured_section(measured_table(compare_measured(plan, timeline, measured)));
  return drawn_page(plan, side_by_side(plan, timeline, measured), summary, text);
}

std::string html_page(const Plan& plan, const Timeline& timeline, const MeasuredElsewhere& measured,
                      const Summary& summary) {
  PageText text = text_of(plan, timeline, summary, measured.note);
  text.tables += measured_section(measured.tables);
  return drawn_page(measured.plan, side_by_side(measured.plan, timeline, measured.timeline), summary, text);
}

std::string timeline_json(const PageRun& run) {
  const RunData data = run_data(run);
  return fmt::format(R"({{"facts":{},"columns":"{}"}})", data.facts, data.columns);
}

std::string html_page(const Plan& plan, const Timeline& timeline, const Summary& summary,
                      const PageText& text) {
  return filled_page(text, run_data({plan, timeline, summary}));
}

std::string html_page(const PageRun& a, const PageRun& b, const PageText& text) {
  return filled_page(text, run_data(a), run_data(b));
}

}  // namespace simrun
