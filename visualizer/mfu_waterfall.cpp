#include "visualizer/mfu_waterfall.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "visualizer/page_tables.h"
#include "visualizer/quantity.h"

namespace simrun {

namespace {

struct Loss {
  const char* name;
  const char* meaning;
  double share;
};

// Tenths of a percent, of which the shown figures are differences.
long tenths(double share) { return std::lround(share * 1000); }
std::string shown(long tenths_of_percent) {
  return fmt::format("{:.1f} %", static_cast<double>(tenths_of_percent) / 10);
}

constexpr double chart_width = 420;  // CSS pixels
constexpr double bar_height = 18, bar_pitch = 22;

double x_of(double share) { return std::clamp(share, 0.0, 1.0) * chart_width; }

std::string bar(std::size_t place, double from, double to, const char* bar_class, const std::string& title) {
  return fmt::format(
      "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.0f}\" width=\"{:.1f}\" height=\"{:.0f}\"><title>{}</title>"
      "</rect>\n",
      bar_class, x_of(std::min(from, to)), bar_pitch * static_cast<double>(place),
      std::max(std::abs(x_of(from) - x_of(to)), 0.5), bar_height, html_escaped(title));
}

std::string row(const std::string& name, const std::string& meaning, long share, double seconds) {
  return fmt::format("<tr><th scope=\"row\" title=\"{}\">{}</th><td>{}</td><td>{}</td></tr>\n",
                     html_escaped(meaning), html_escaped(name), shown(share), seconds_text(seconds));
}

}  // namespace

std::vector<WaterfallStep> mfu_waterfall(const Summary& summary) {
  const double step = summary.step_time_s;
  if (!(summary.mfu > 0) || !(step > 0)) return {};
  const double imbalance = summary.bubble_by_cause_s[static_cast<std::size_t>(BubbleCause::imbalance)];
  const Loss losses[] = {
      {"kernels below the peak", "time in which compute runs, less what its FLOPs would take at the peak",
       summary.compute_s / step - summary.hfu},
      {"recompute", "FLOPs that the plan executes and the model does not count", summary.hfu - summary.mfu},
      {"exposed communication", "communication in flight and no compute", summary.exposed_comm_s / step},
      {"bubble", "warm-up, drain and waiting for pipeline transfers", (summary.bubble_s - imbalance) / step},
      {"imbalance", "waiting for passes of neighbours, or for GPUs with more to do", imbalance / step}};
  std::vector<WaterfallStep> steps;
  double level = 1;
  for (const Loss& loss : losses) {
    steps.push_back({loss.name, loss.meaning, level, level - loss.share});
    level -= loss.share;
  }
  // To the last bit, whatever the sums before it lost; what is shorter than a picosecond, a time's unit, is
  // none.
  steps.back().after = summary.mfu;
  for (std::size_t i = steps.size(); i-- > 1 && std::abs(losses[i].share) * step < 1e-12;)
    steps[i - 1].after = steps[i].before = summary.mfu;
  return steps;
}

std::string waterfall_html(const Summary& summary) {
  const std::vector<WaterfallStep> steps = mfu_waterfall(summary);
  if (steps.empty()) return "";
  const double step_s = summary.step_time_s;
  const std::string peak =
      fmt::format("peak, {} TFLOP/s", significant(summary.model_tflops_per_gpu / summary.mfu, 4));
  std::string bars = bar(0, 0, 1, "whole", peak + ": 100 %");
  std::string rows = row(peak, "dense datasheet peak of one GPU, all through the step", 1000, step_s);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const WaterfallStep& step = steps[i];
    const long lost = tenths(step.after) - tenths(step.before);
    bars += bar(i + 1, step.before, step.after, "loss", step.name + ": " + shown(lost));
    rows += row(step.name, step.meaning, lost, (step.after - step.before) * step_s);
  }
  bars += bar(steps.size() + 1, 0, summary.mfu, "whole", "MFU: " + shown(tenths(summary.mfu)));
  rows += row("MFU", "what is left: model FLOPs / (step x peak)", tenths(summary.mfu), summary.mfu * step_s);
  const double height = bar_pitch * static_cast<double>(steps.size() + 2);
  return fmt::format(
      "<div class=\"figure\"><table class=\"pitched\"><caption>From the peak to the MFU</caption><thead><tr>"
      "<th scope=\"col\"></th><th scope=\"col\" title=\"share of the peak\">of peak</th>"
      "<th scope=\"col\" title=\"that share of the step\">of "
      "step</th></tr></thead><tbody>\n{0}</tbody></table>"
      "<svg class=\"waterfall\" aria-hidden=\"true\" width=\"{1:.0f}\" height=\"{2:.0f}\" "
      "viewBox=\"0 0 {1:.0f} {2:.0f}\" preserveAspectRatio=\"none\">\n{3}</svg></div>\n",
      rows, chart_width, height, bars);
}

}  // namespace simrun
