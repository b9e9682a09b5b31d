#include "visualizer/roofline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>

#include "configs/node_groups.h"
#include "schedules/instruction_flops.h"
#include "schedules/timeline.h"
#include "visualizer/page_tables.h"
#include "visualizer/quantity.h"

namespace simrun {

namespace {

double work_flops(const Plan& plan, const Instruction& instruction) {
  if (instruction.inputs.empty() || instruction.outputs.empty()) return 0;  // of a plan made by hand
  const double flops = instruction_flops(plan, instruction);
  const bool is_halved = instruction.causal.on &&
                         (instruction.causal.window == 0 || instruction.causal.chunked) &&
                         instruction.function != Function::unfused && instruction.part.axes.empty();
  return is_halved ? flops / 2 : flops;
}

double operand_bytes(const Plan& plan, const Instruction& instruction) {
  double bytes = 0;
  for (const auto* list : {&instruction.inputs, &instruction.outputs})
    for (const Index buffer : *list) bytes += static_cast<double>(plan.buffers[buffer].stored_bytes());
  return bytes;
}

std::string name_of(const Instruction& instruction) {
  std::string name = instruction.label.empty() ? "" : instruction.label + " ";
  name += to_string(instruction.opcode);
  return instruction.function == Function::none ? name : name + " " + to_string(instruction.function);
}

// The device's roof.
struct Roof {
  double peak = 0;       // FLOP/s
  double bandwidth = 0;  // bytes/s
  double at(double intensity) const { return std::min(peak, bandwidth * intensity); }
  double ridge() const { return peak / bandwidth; }  // FLOPs per byte
};

Roof roof_of(const Plan& plan, const Gpu& gpu) {
  const auto peak = gpu.peak_flops.find(plan.job.precision);
  return {peak == gpu.peak_flops.end() ? 0 : peak->second, gpu.memory_bandwidth};
}

// CSS pixels.
constexpr double plot_width = 460, plot_height = 280, plot_left = 52, plot_bottom = 34;
constexpr double largest_radius = 26, smallest_radius = 3;

// Two log axes with a little air around what they show.
struct RooflineAxes {
  double x_low = 0, x_high = 1, y_low = 0, y_high = 1;  // powers of ten
  double x(double value) const {
    return plot_left + (std::log10(value) - x_low) / (x_high - x_low) * plot_width;
  }
  double y(double value) const { return plot_height * (1 - (std::log10(value) - y_low) / (y_high - y_low)); }
};

double rate(const OperatorWork& work) { return work.flops / work.seconds; }
double intensity(const OperatorWork& work) { return work.flops / work.bytes; }
bool is_plotted(const OperatorWork& work) { return work.flops > 0 && work.bytes > 0 && work.seconds > 0; }

RooflineAxes roofline_axes(const std::vector<OperatorWork>& operators, const Roof& roof) {
  double least_x = roof.ridge(), most_x = least_x, least_y = roof.peak;
  for (const OperatorWork& work : operators) {
    if (!is_plotted(work)) continue;
    least_x = std::min(least_x, intensity(work));
    most_x = std::max(most_x, intensity(work));
    least_y = std::min(least_y, rate(work));
  }
  constexpr double air = 1.7;
  return {std::log10(least_x / air), std::log10(most_x * air), std::log10(least_y / air),
          std::log10(roof.peak * air)};
}

// 1, 2 and 5 times powers of ten between two powers, or the powers alone where those are many.
std::vector<double> marks_between(double low, double high) {
  const bool is_wide = high - low > 3;
  std::vector<double> marks;
  for (double decade = std::floor(low); decade <= high; ++decade)
    for (const double times : {1., 2., 5.}) {
      const double mark = times * std::pow(10, decade);
      if (std::log10(mark) >= low && std::log10(mark) <= high && !(is_wide && times > 1))
        marks.push_back(mark);
    }
  return marks;
}

std::string drawn_axes(const RooflineAxes& axes, const Roof& roof) {
  std::string svg;
  for (const double mark : marks_between(axes.x_low, axes.x_high))
    svg += fmt::format(
        "<path class=\"grid\" d=\"M{0:.1f} 0V{1:.1f}\"/><text x=\"{0:.1f}\" y=\"{2:.1f}\" "
        "text-anchor=\"middle\">{3:g}</text>\n",
        axes.x(mark), plot_height, plot_height + 11, mark);
  for (const double mark : marks_between(axes.y_low, axes.y_high))
    svg += fmt::format(
        "<path class=\"grid\" d=\"M{1:.1f} {0:.1f}h{2:.1f}\"/><text x=\"{3:.1f}\" y=\"{0:.1f}\" "
        "text-anchor=\"end\">{4:g}</text>\n",
        axes.y(mark), plot_left, plot_width, plot_left - 5, mark * 1e-12);
  svg += fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">FLOPs per byte (upwards: TFLOP/s)</text>\n",
      plot_left + plot_width / 2, plot_height + 25);
  const double low = std::pow(10, axes.x_low), high = std::pow(10, axes.x_high);
  const double from = std::max(low, std::pow(10, axes.y_low) / roof.bandwidth);
  return svg + fmt::format("<path class=\"roof\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}H{:.1f}\"/>\n", axes.x(from),
                           axes.y(roof.at(from)), axes.x(roof.ridge()), axes.y(roof.peak), axes.x(high));
}

std::string drawn_operators(const std::vector<OperatorWork>& operators, const RooflineAxes& axes,
                            const Roof& roof) {
  std::string svg;
  const double longest = operators.front().seconds;
  for (const OperatorWork& work : operators)
    if (is_plotted(work))
      svg += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\"><title>{}: {} in {} kernels, {} of the "
          "roof</title>"
          "</circle>\n",
          axes.x(intensity(work)), axes.y(rate(work)),
          std::max(largest_radius * std::sqrt(work.seconds / longest), smallest_radius),
          html_escaped(work.name), seconds_text(work.seconds), work.count,
          percent_text(rate(work) / roof.at(intensity(work))));
  return svg;
}

constexpr std::size_t listed_operators = 15;

std::string operator_row(const OperatorWork& work, double compute_s, const Roof& roof) {
  const bool computes = is_plotted(work);
  const double share =
      computes ? rate(work) / roof.at(intensity(work)) : work.bytes / work.seconds / roof.bandwidth;
  return fmt::format(
      "<tr><th "
      "scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>"
      "</tr>\n",
      html_escaped(work.name), work.count, seconds_text(work.seconds), percent_text(work.seconds / compute_s),
      computes ? significant(intensity(work), 3) : "", computes ? significant(rate(work) * 1e-12, 3) : "",
      work.seconds > 0 ? bandwidth_text(work.bytes / work.seconds) : "",
      work.seconds > 0 && work.bytes > 0 ? percent_text(share) : "");
}

std::string operator_table(const std::vector<OperatorWork>& operators, const Roof& roof,
                           std::int32_t pipeline_rank) {
  double compute_s = 0;
  for (const OperatorWork& work : operators) compute_s += work.seconds;
  const std::size_t count = std::min(operators.size(), listed_operators);
  std::string rows;
  for (std::size_t i = 0; i < count; ++i) rows += operator_row(operators[i], compute_s, roof);
  return fmt::format(
      "<table><caption>Operators of pp {}, the {} of {} that take longest</caption><thead><tr><th "
      "scope=\"col\">operator</th><th scope=\"col\">kernels</th><th scope=\"col\">time</th><th scope=\"col\" "
      "title=\"of the time in which compute runs\">of compute</th><th scope=\"col\" title=\"matrix FLOPs per "
      "byte of the operands\">FLOP/B</th><th scope=\"col\">TFLOP/s</th><th scope=\"col\" title=\"operands, "
      "each "
      "once, per second\">bytes/s</th><th scope=\"col\" title=\"of the peak or of the memory's bandwidth, "
      "whichever is lower there; without matrix FLOPs of the bandwidth\">of roof</th></tr></thead><tbody>\n{}"
      "</tbody></table>\n",
      pipeline_rank, count, operators.size(), rows);
}

}  // namespace

std::vector<OperatorWork> operator_work(const Plan& plan, const RankTimeline& rank) {
  std::map<std::string, OperatorWork> named;
  const Program& program = plan.programs[static_cast<std::size_t>(rank.pipeline_rank)];
  for (const Lane& lane : rank.lanes) {
    if (lane.stream != compute_stream) continue;
    for (const Interval& interval : lane.intervals) {
      const Segment& segment = plan.segments[program.entries[interval.entry].segment];
      const Instruction& instruction = segment.instructions[interval.instruction];
      OperatorWork& work = named[name_of(instruction)];
      ++work.count;
      work.seconds += to_seconds(interval.duration);
      work.flops += work_flops(plan, instruction);
      work.bytes += operand_bytes(plan, instruction);
    }
  }
  std::vector<OperatorWork> operators;
  for (auto& [name, work] : named) {
    work.name = name;
    if (work.seconds > 0) operators.push_back(work);
  }
  std::stable_sort(operators.begin(), operators.end(),
                   [](const OperatorWork& a, const OperatorWork& b) { return a.seconds > b.seconds; });
  return operators;
}

std::string roofline_html(const Plan& plan, const RankTimeline& rank) {
  const std::vector<OperatorWork> operators = operator_work(plan, rank);
  const Gpu& gpu = gpu_at(plan.cluster, rank.device);
  const Roof roof = roof_of(plan, gpu);
  if (operators.empty() || !(roof.peak > 0) || !(roof.bandwidth > 0)) return "";
  const RooflineAxes axes = roofline_axes(operators, roof);
  return fmt::format(
             "<figure><figcaption>Operators under the roof of {0} ({1} TFLOP/s, {2})</figcaption><svg "
             "class=\"roofline\" role=\"img\" aria-label=\"FLOP/s of each operator over its FLOPs per byte, "
             "under the device's peak and memory bandwidth. The table beside it holds the numbers.\" "
             "width=\"{3:.0f}\" height=\"{4:.0f}\" viewBox=\"0 0 {3:.0f} {4:.0f}\">\n{5}{6}</svg></figure>\n",
             html_escaped(gpu.name), significant(roof.peak * 1e-12, 4), bandwidth_text(roof.bandwidth),
             plot_left + plot_width + largest_radius, plot_height + plot_bottom, drawn_axes(axes, roof),
             drawn_operators(operators, axes, roof)) +
         operator_table(operators, roof, rank.pipeline_rank);
}

}  // namespace simrun
