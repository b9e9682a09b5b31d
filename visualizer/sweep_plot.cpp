#include "visualizer/sweep_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string_view>

#include "configs/numbers.h"
#include "visualizer/page_tables.h"
#include "visualizer/quantity.h"
#include "visualizer/text_table.h"

namespace simrun {

namespace {

constexpr std::size_t most_curves = 24;

// The drawing area of a panel, in units of its view box.
constexpr double left = 58, right = 408, top = 26, bottom = 190, height = 240, width = 420;

// Okabe-Ito without yellow, which is faint on white; then the text's own colour.
constexpr std::array<const char*, 7> colours{"#0072B2", "#E69F00", "#009E73",     "#CC79A7",
                                             "#D55E00", "#56B4E9", "currentColor"};
constexpr std::array<const char*, 4> dashes{"", "6 3", "2 3", "8 3 2 3"};

struct Panel {
  std::string_view title;
  double (*value)(const SweepNumbers&);
  std::string (*text)(double);
};
constexpr std::string_view throughput = "throughput";  // titled by what it counts
constexpr std::array<Panel, 3> panels{
    {{"step time", [](const SweepNumbers& n) { return n.step_time_s; }, seconds_text},
     {throughput, [](const SweepNumbers& n) { return n.tokens_per_s_per_gpu; }, count_text},
     {"MFU", [](const SweepNumbers& n) { return n.mfu; }, percent_text}}};

// ---- the values of the key along x ----

template <typename Read>
std::vector<double> all_read(const std::vector<std::string>& values, const Read& read) {
  std::vector<double> numbers;
  for (const std::string& value : values)
    if (const auto parsed = read(value); parsed) numbers.push_back(*parsed);
  return numbers.size() == values.size() ? numbers : std::vector<double>{};
}

// The values as numbers of one kind; empty if they are not.
std::vector<double> as_numbers(const std::vector<std::string>& values) {
  const RealRange any{0, 1e30};
  std::vector<double> numbers =
      all_read(values, [&](const std::string& v) { return parse_real(v, any).value; });
  for (const Unit unit : {Unit::bytes_per_second, Unit::seconds, Unit::bytes, Unit::flops_per_second}) {
    if (!numbers.empty()) break;
    numbers = all_read(values, [&](const std::string& v) -> std::optional<double> {
      const auto parsed = parse_quantity(v, unit, any);
      return parsed.value ? std::optional(parsed.value->value) : std::nullopt;
    });
  }
  return numbers;
}

bool has_constant_ratio(std::vector<double> numbers) {
  std::ranges::sort(numbers);
  if (numbers.size() < 3 || numbers.front() <= 0) return false;
  const double ratio = numbers[1] / numbers[0];
  for (std::size_t i = 2; i < numbers.size(); ++i)
    if (std::abs(numbers[i] / numbers[i - 1] / ratio - 1) > 1e-9) return false;
  return ratio > 1;
}

// ---- which rows are a line ----

struct Line {
  std::string label;              // "micro_batch_size 2, zero_stage 1", or "" for the only line
  std::vector<std::size_t> rows;  // by value of the key along x
};

// The first key with several values, else the first.
std::size_t plotted_key(const Sweep& sweep) {
  for (std::size_t k = 0; k < sweep.keys.size(); ++k)
    if (sweep.keys[k].values.size() > 1) return k;
  return 0;
}

std::vector<Line> lines_of(const Sweep& sweep, std::size_t plotted) {
  std::size_t stride = 1;  // rows from one value of the plotted key to the next
  for (std::size_t k = plotted + 1; k < sweep.keys.size(); ++k) stride *= sweep.keys[k].values.size();
  const std::size_t count = sweep.keys[plotted].values.size();
  const std::vector<std::string> names = short_keys(sweep.keys);
  std::vector<Line> lines;
  for (std::size_t first = 0; first < sweep.rows.size(); ++first) {
    if (first / stride % count != 0) continue;
    Line line;
    for (std::size_t k = 0; k < sweep.keys.size(); ++k)
      if (k != plotted && sweep.keys[k].values.size() > 1)
        line.label +=
            fmt::format("{}{} {}", line.label.empty() ? "" : ", ", names[k], sweep.rows[first].values[k]);
    for (std::size_t v = 0; v < count; ++v) line.rows.push_back(first + v * stride);
    lines.push_back(std::move(line));
  }
  return lines;
}

// ---- the y axis ----

struct Ticks {
  double low = 0, step = 1;
  int count = 1;  // low + count x step is the top
  double place(double value) const { return bottom - (value - low) / (step * count) * (bottom - top); }
};

// 1, 2 or 5 times a power of ten, so that about five steps cover the values; from 0 unless they are close
// together.
Ticks ticks_for(double least, double most) {
  if (!(most > 0)) return {};
  const double low = least > 0.6 * most && least < most ? least : 0;
  const double rough = (most - low) / 5;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double step = power * (rough > 5 * power ? 10 : rough > 2 * power ? 5 : rough > power ? 2 : 1);
  Ticks ticks;
  ticks.step = step;
  ticks.low = std::floor(low / step) * step;
  ticks.count = std::max(1, static_cast<int>(std::ceil((most - ticks.low) / step - 1e-9)));
  return ticks;
}

Ticks ticks_of(const Sweep& sweep, const Panel& panel) {
  double least = 0, most = 0;
  bool any = false;
  for (const SweepRow& row : sweep.rows) {
    if (!row.numbers) continue;
    const double value = panel.value(*row.numbers);
    least = any ? std::min(least, value) : value;
    most = std::max(most, value);
    any = true;
  }
  return ticks_for(least, most);
}

// ---- drawing ----

double x_of(const ValueAxis& axis, std::size_t value) { return left + axis.at[value] * (right - left); }

std::string marker(std::size_t line, double x, double y) {
  const char* colour = colours[line % colours.size()];
  switch (line % 4) {
    case 0: return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"", x, y, colour);
    case 1: return fmt::format("<path d=\"M{:.1f} {:.1f}h6v6h-6z\" fill=\"{}\"", x - 3, y - 3, colour);
    case 2: return fmt::format("<path d=\"M{:.1f} {:.1f}l4 7h-8z\" fill=\"{}\"", x, y - 4, colour);
    default: return fmt::format("<path d=\"M{:.1f} {:.1f}l4 4l-4 4l-4-4z\" fill=\"{}\"", x, y - 4, colour);
  }
}

std::string cross(double x, double y) {
  return fmt::format("<path class=\"cross\" d=\"M{:.1f} {:.1f}l8 8m0-8l-8 8\"", x - 4, y - 4);
}

std::string stroke(std::size_t line) {
  const char* dash = dashes[line / colours.size() % dashes.size()];
  return fmt::format("fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"{}", colours[line % colours.size()],
                     *dash == '\0' ? "" : fmt::format(" stroke-dasharray=\"{}\"", dash));
}

// "tensor_model_parallel_size 8, micro_batch_size 2: 13.99 s"; shown on hover.
std::string point_title(const Sweep& sweep, const SweepRow& row, const Panel& panel) {
  const std::vector<std::string> names = short_keys(sweep.keys);
  std::string text;
  for (std::size_t k = 0; k < names.size(); ++k)
    text += fmt::format("{}{} {}", k == 0 ? "" : ", ", names[k], row.values[k]);
  text += ": " + (row.numbers ? panel.text(panel.value(*row.numbers)) : "refused");
  if (row.numbers && !row.numbers->fits) text += ", does not fit";
  return fmt::format("<title>{}</title>", html_escaped(text));
}

struct Drawing {
  const Sweep& sweep;
  const SweepKey& key;
  const ValueAxis& axis;
  const std::vector<Line>& lines;
};

// The values in the order in which they lie along x.
std::vector<std::size_t> along_x(const ValueAxis& axis) {
  std::vector<std::size_t> order(axis.at.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t value) { return axis.at[value]; });
  return order;
}

std::string draw_line(const Drawing& drawing, std::size_t line, const Panel& panel, const Ticks& ticks) {
  std::string path, marks;
  bool is_connected = false;
  for (const std::size_t value : along_x(drawing.axis)) {
    const SweepRow& row = drawing.sweep.rows[drawing.lines[line].rows[value]];
    const double x = x_of(drawing.axis, value);
    const double y = row.numbers ? ticks.place(panel.value(*row.numbers)) : bottom;
    if (row.numbers) path += fmt::format("{}{:.1f} {:.1f}", is_connected ? "L" : "M", x, y);
    is_connected = row.numbers.has_value();
    const bool is_good = row.numbers && row.numbers->fits;
    marks += (is_good ? marker(line, x, y) : cross(x, y)) + ">" + point_title(drawing.sweep, row, panel) +
             "</" + (is_good && line % 4 == 0 ? "circle" : "path") + ">";
  }
  return (path.empty() ? "" : fmt::format("<path d=\"{}\" {}/>", path, stroke(line))) + marks + "\n";
}

std::string draw_y_axis(const Panel& panel, const Ticks& ticks) {
  std::string svg;
  for (int t = 0; t <= ticks.count; ++t) {
    const double value = ticks.low + t * ticks.step;
    const double y = ticks.place(value);
    svg += fmt::format(
        "<path class=\"grid\" d=\"M{0} {2:.1f}H{1}\"/><text class=\"faint\" x=\"{3}\" y=\"{4:.1f}\" "
        "text-anchor=\"end\">{5}</text>\n",
        left, right, y, left - 5, y + 4, html_escaped(panel.text(value)));
  }
  return svg;
}

// Where the character of that number begins.
std::size_t byte_of(const std::string& text, std::size_t character) {
  std::size_t at = 0;
  for (std::size_t characters = 0; at < text.size(); ++at)
    if ((static_cast<unsigned char>(text[at]) & 0xc0U) != 0x80U && characters++ == character) break;
  return at;
}

std::string shortened(const std::string& text, std::size_t most) {
  return text_width(text) <= most ? text : text.substr(0, byte_of(text, most - 1)) + "…";
}

// Its beginning and its end: of values that begin alike the latter tells them apart.
std::string elided(const std::string& text, std::size_t most) {
  const std::size_t all = text_width(text), end = (most - 1) / 2;
  if (all <= most) return text;
  return text.substr(0, byte_of(text, most - 1 - end)) + "…" + text.substr(byte_of(text, all - end));
}

// Of maps what they do not all begin with: "none" and "full, method: uniform" of {granularity: none} and
// {granularity: full, method: uniform}. Other values as they are.
std::vector<std::string> tick_texts(std::vector<std::string> values) {
  const auto is_map = [](const std::string& of) { return of.starts_with('{') && of.ends_with('}'); };
  if (values.size() < 2 || !std::ranges::all_of(values, is_map)) return values;
  std::string_view alike = values.front();
  for (const std::string& value : values)
    alike = alike.substr(0, static_cast<std::size_t>(
                                std::ranges::mismatch(alike, std::string_view(value)).in1 - alike.begin()));
  const std::size_t space = alike.rfind(' ');  // whole words only
  const std::size_t begin = space == std::string_view::npos ? 1 : space + 1;
  for (std::string& value : values)
    if (value.size() > begin + 1) value = value.substr(begin, value.size() - begin - 1);
  return values;
}

constexpr double label_character = 6.2;  // its width

// In how many characters labels of so many values stand beside each other, the last one inside of the edge.
std::size_t most_characters(std::size_t values) {
  const double between = (right - left) * 0.9 / static_cast<double>(std::max<std::size_t>(values, 2) - 1);
  return static_cast<std::size_t>(
      std::clamp(2.0 / 3 * (between + width - right) / label_character - 1, 12.0, 24.0));
}

// A label at every value that is not too close to the one before.
std::string draw_x_axis(const Drawing& drawing) {
  const std::vector<std::string> texts = tick_texts(drawing.key.values);
  std::string svg;
  double free_from = 0;
  for (const std::size_t v : along_x(drawing.axis)) {
    const std::string label = elided(texts[v], most_characters(texts.size()));
    const double half = label_character * static_cast<double>(text_width(label)) / 2;
    const double x = std::clamp(x_of(drawing.axis, v), half, width - half);
    if (x - half < free_from) continue;
    free_from = x + half + label_character;
    svg += fmt::format("<text class=\"faint\" x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>", x,
                       bottom + 16, html_escaped(label));
  }
  const char* scale = drawing.axis.scale == ValueAxis::Scale::log ? " (log scale)" : "";
  return svg + fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}{}</text>\n", (left + right) / 2,
                           height - 12, html_escaped(shortened(drawing.key.key, 60)), scale);
}

std::string draw_panel(const Drawing& drawing, const Panel& panel, std::size_t number) {
  const Ticks ticks = ticks_of(drawing.sweep, panel);
  const std::string title = panel.title == throughput ? sweep_units(drawing.sweep).samples + "/s per GPU"
                                                      : std::string(panel.title);
  std::string svg = fmt::format(
      "<svg viewBox=\"0 0 {0} {1}\" role=\"img\" aria-labelledby=\"plot{2} about{2}\"><title "
      "id=\"plot{2}\">{3} over "
      "{4}</title><desc id=\"about{2}\">One line for each combination of the other swept values; a cross "
      "marks a point "
      "that does not fit in memory or, on the axis, was refused. The table below has every number.</desc>\n"
      "<text x=\"{5}\" y=\"14\">{3}</text>\n",
      width, height, number, title, html_escaped(drawing.key.key), left);
  svg += draw_y_axis(panel, ticks) + draw_x_axis(drawing);
  for (std::size_t l = 0; l < std::min(drawing.lines.size(), most_curves); ++l)
    svg += draw_line(drawing, l, panel, ticks);
  return svg + "</svg>\n";
}

std::string draw_legend(const std::vector<Line>& lines) {
  if (lines.size() < 2) return "";
  std::string html = "<ul class=\"legend\">";
  for (std::size_t l = 0; l < std::min(lines.size(), most_curves); ++l)
    html += fmt::format(
        "<li><svg viewBox=\"0 0 34 12\" aria-hidden=\"true\"><path d=\"M0 6H34\" {}/>{}/></svg> {}</li>\n",
        stroke(l), marker(l, 17, 6), html_escaped(lines[l].label));
  html += "</ul>\n";
  if (lines.size() > most_curves)
    html += fmt::format("<p>The first {} of {} lines are drawn; the table has all.</p>\n", most_curves,
                        lines.size());
  return html;
}

}  // namespace

ValueAxis value_axis(const std::vector<std::string>& values) {
  constexpr double margin = 0.05;  // so that no marker lies on the frame
  std::vector<double> numbers = as_numbers(values);
  ValueAxis axis;
  if (has_constant_ratio(numbers)) {
    axis.scale = ValueAxis::Scale::log;
    for (double& number : numbers) number = std::log(number);
  } else if (!numbers.empty()) {
    axis.scale = ValueAxis::Scale::linear;
  } else {
    for (std::size_t v = 0; v < values.size(); ++v) numbers.push_back(static_cast<double>(v));
  }
  if (numbers.empty()) return axis;
  const auto [least, most] = std::ranges::minmax(numbers);
  for (const double number : numbers)
    axis.at.push_back(most > least ? margin + (1 - 2 * margin) * (number - least) / (most - least) : 0.5);
  return axis;
}

std::string sweep_plot(const Sweep& sweep) {
  const bool has_numbers =
      std::ranges::any_of(sweep.rows, [](const SweepRow& row) { return row.numbers.has_value(); });
  if (!has_numbers || sweep.keys.empty()) return "";
  const std::size_t plotted = plotted_key(sweep);
  const ValueAxis axis = value_axis(sweep.keys[plotted].values);
  const std::vector<Line> lines = lines_of(sweep, plotted);
  const Drawing drawing{sweep, sweep.keys[plotted], axis, lines};
  std::string html = "<div class=\"plots\">\n";
  for (std::size_t p = 0; p < panels.size(); ++p) html += draw_panel(drawing, panels[p], p);
  return html + "</div>\n" + draw_legend(lines);
}

}  // namespace simrun
