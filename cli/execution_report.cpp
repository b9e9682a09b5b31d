#include "cli/execution_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "visualizer/json.h"
#include "visualizer/measured_table.h"
#include "visualizer/quantity.h"

namespace simrun {
namespace {

std::string number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : "null"; }
std::string optional_number(const std::optional<double>& value) { return value ? number(*value) : "null"; }
std::string text_or_null(const std::string& text) { return text.empty() ? "null" : json_quoted(text); }

std::string numbers(const std::vector<double>& values) {
  std::vector<std::string> texts;
  texts.reserve(values.size());
  for (const double value : values) texts.push_back(number(value));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

constexpr std::size_t most_losses_on_a_line = 6;

// The first three and the last three where there are more.
std::string loss_line(const std::vector<double>& loss) {
  std::string line;
  for (std::size_t step = 0; step < loss.size(); ++step) {
    constexpr std::size_t ends = most_losses_on_a_line / 2;
    const bool is_left_out = loss.size() > 2 * ends && step >= ends && step + ends < loss.size();
    if (!is_left_out) line += fmt::format("  {:.6f}", loss[step]);
    if (is_left_out && step == ends) line += "  ...";
  }
  return line;
}

// At most so many rows, evenly spread, the first and the last among them.
std::string loss_curve(const ExecutionReport& report) {
  constexpr std::size_t rows = 16, width = 60;
  const std::size_t count = report.loss.size();
  const double highest = *std::ranges::max_element(report.loss);
  std::string text = "    step      loss\n";
  for (std::size_t row = 0; row < std::min(rows, count); ++row) {
    const std::size_t step = count <= rows ? row : row * (count - 1) / (rows - 1);
    const double share = std::clamp(report.loss[step] / highest, 0.0, 1.0);
    text += fmt::format("{:>8}  {:>8.4f}  ", report.steps_before + static_cast<std::int64_t>(step) + 1,
                        report.loss[step]);
    for (std::size_t bar = 0; bar < static_cast<std::size_t>(share * width); ++bar) text += "█";
    text += "\n";
  }
  return text;
}

std::string transport_text(const ExecutionReport& report) {
  return report.processes == 1 ? report.transport
                               : fmt::format("{}, {} processes", report.transport, report.processes);
}

std::string memory_line(const ExecutionReport& report) {
  const auto fullest = std::ranges::max_element(report.allocated_peak_bytes);
  const auto rank = static_cast<std::size_t>(fullest - report.allocated_peak_bytes.begin());
  const bool equal = report.allocated_peak_bytes == report.predicted_peak_bytes;
  const std::string sizes = report.stores_other_types ? fmt::format(" (in {})", report.dtype) : "";
  if (equal)
    return fmt::format("{} allocated on the fullest rank{}, on every rank the bytes predicted",
                       memory_text(*fullest), sizes);
  return fmt::format("{} allocated on the fullest rank{}, {} predicted for it", memory_text(*fullest), sizes,
                     memory_text(report.predicted_peak_bytes[rank]));
}

// Without its own clocks a run tells what all of it took, by step.
std::string where_text(const ExecutionReport& report) {
  if (!report.measured) return "with the initial values and all files";
  return fmt::format("on {} {}{}", report.cores, report.unit, report.cores == 1 ? "" : "s");
}

std::string replay_text(const ExecutionReport& report) {
  if (!report.replayed_step_s) return "";
  return fmt::format("; what its instructions took makes {} ({:+.1f} %)",
                     seconds_text(*report.replayed_step_s),
                     100 * (*report.replayed_step_s / *report.measured_step_s - 1));
}

}  // namespace

std::string execution_json(const ExecutionReport& report) {
  const ExecutionReport::Reference none;
  const ExecutionReport::Reference& reference = report.reference ? *report.reference : none;
  const auto compared = [&](const std::string& value) { return report.reference ? value : "null"; };
  std::string json = "{";
  const auto add = [&](const char* key, const std::string& value) {
    json += fmt::format("{}\n    \"{}\": {}", json.size() == 1 ? "" : ",", key, value);
  };
  add("device", json_quoted(report.device));
  add("dtype", text_or_null(report.dtype));
  add("transport", json_quoted(report.transport));
  add("ranks", fmt::format("{}", report.ranks));
  add("processes", fmt::format("{}", report.processes));
  add("steps", fmt::format("{}", report.steps));
  add("steps_before", fmt::format("{}", report.steps_before));
  add("data", text_or_null(report.data));
  add("saved", text_or_null(report.saved));
  add("loss", numbers(report.loss));
  add("reference_loss", compared(numbers(reference.loss)));
  add("max_loss_error", compared(number(reference.max_loss_error)));
  add("max_gradient_error", compared(number(reference.max_gradient_error)));
  add("max_parameter_error", compared(number(reference.max_parameter_error)));
  add("worst_tensor", text_or_null(reference.worst_tensor));
  add("first_tensor", text_or_null(reference.first_tensor));
  add("tolerance", compared(number(reference.tolerance)));
  add("parameter_tolerance", compared(number(reference.parameter_tolerance)));
  add("no_reference", text_or_null(report.no_reference));
  add("predicted_peak_bytes", fmt::format("[{}]", fmt::join(report.predicted_peak_bytes, ", ")));
  add("allocated_peak_bytes", fmt::format("[{}]", fmt::join(report.allocated_peak_bytes, ", ")));
  add("predicted_step_s", number(report.predicted_step_s));
  std::vector<std::string> unrounded;
  for (const std::string& dtype : report.unrounded) unrounded.push_back(json_quoted(dtype));
  add("unrounded", fmt::format("[{}]", fmt::join(unrounded, ", ")));
  add("measured_step_s", optional_number(report.measured_step_s));
  add("replayed_step_s", optional_number(report.replayed_step_s));
  add("cores", fmt::format("{}", report.cores));
  add("measured", report.by_instruction ? measured_json(*report.by_instruction) : "null");
  add("instructions", fmt::format("{}", report.instructions));
  add("fault", text_or_null(report.fault));
  return json + "\n  }";
}

std::string execution_text(const ExecutionReport& report) {
  std::string text = fmt::format("executed on {} {} {} ({}){}, {} {}, {} instructions\n", report.ranks,
                                 report.device, report.ranks == 1 ? "rank" : "ranks", transport_text(report),
                                 report.dtype.empty() ? "" : ", " + report.dtype, report.steps,
                                 report.steps == 1 ? "step" : "steps", report.instructions);
  if (!report.loss.empty()) text += fmt::format("  loss      {}\n", loss_line(report.loss));
  if (report.reference) {
    const ExecutionReport::Reference& reference = *report.reference;
    text += fmt::format("  one rank  {}   the same model and data without parallelism, {} microbatches\n",
                        loss_line(reference.loss), reference.microbatches);
    text += fmt::format(
        "  differ      loss {:.1e}  gradients {:.1e}{}, at most {:.0e} is allowed; parameters {:.1e}{}\n",
        reference.max_loss_error, reference.max_gradient_error,
        reference.worst_tensor.empty() ? "" : fmt::format(" ({})", reference.worst_tensor),
        reference.tolerance, reference.max_parameter_error,
        reference.parameter_tolerance > 0 ? fmt::format(", at most {:.0e}", reference.parameter_tolerance)
                                          : "");
  } else {
    text += fmt::format("  not compared with one rank: {}\n", report.no_reference);
  }
  if (!report.allocated_peak_bytes.empty()) text += fmt::format("  memory      {}\n", memory_line(report));
  if (!report.unrounded.empty())
    text += fmt::format("  numbers     what the plan has in {} is run in {}, not rounded to it\n",
                        fmt::join(report.unrounded, " and "), report.dtype);
  if (report.measured_step_s)
    text += fmt::format("  step        {} measured here {}, {} predicted for the job's cluster{}\n",
                        seconds_text(*report.measured_step_s), where_text(report),
                        seconds_text(report.predicted_step_s), replay_text(report));
  if (report.loss.size() > most_losses_on_a_line) text += loss_curve(report);
  if (report.by_instruction) text += "\n" + measured_table(*report.by_instruction);
  if (!report.fault.empty()) text += fmt::format("  NOT AS PLANNED: {}\n", report.fault);
  return text;
}

}  // namespace simrun
