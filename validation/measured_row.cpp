#include "validation/measured_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "validation/csv_table.h"
#include "validation/link_text.h"
#include "validation/measured_value.h"

namespace simrun {
namespace {

std::string trimmed(const std::string& text) {
  constexpr const char* spaces = " \t\r\n";
  const std::size_t first = text.find_first_not_of(spaces);
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(spaces) - first + 1);
}

template <typename Number>
std::optional<Number> whole_text_as(const std::string& text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// By place in a record: the column, or nothing.
using Header = std::vector<std::optional<Column>>;

Header read_header(const CsvRecord& record, const std::string& file, MeasuredFile& read) {
  std::vector<Diagnostic> faults;
  const std::vector<std::string> known(column_names().begin(), column_names().end());
  const auto refuse = [&](std::string message, std::string hint) {
    faults.push_back({{file, record.line, 1}, std::move(message), std::move(hint)});
  };
  if (!record.fault.empty()) refuse(record.fault, "");
  Header header;
  std::vector<std::string> others;
  for (const std::string& field : record.fields) {
    const std::optional<Column> column = column_named(trimmed(field));
    if (column && std::ranges::find(header, column) != header.end())
      refuse(fmt::format("column '{}' is there twice", trimmed(field)), "leave one of the two out.");
    if (!column) others.push_back(trimmed(field));
    header.push_back(column);
  }
  for (const std::string& name : known) {
    if (std::ranges::find(header, column_named(name)) != header.end()) continue;
    const std::string meant = closest(name, others);
    refuse(fmt::format("the header has no column '{}'", name),
           meant.empty() ? "every column is there, empty where nothing is known."
                         : fmt::format("is '{}' meant?", meant));
  }
  if (!faults.empty()) throw ConfigError(std::move(faults));
  read.unused_columns = std::move(others);
  return header;
}

// The usual ways to write a metric.
std::string metric_named(const std::string& written) {
  static const std::map<std::string, std::string> spellings{{"tokens/s/gpu", "tokens_per_s_per_gpu"},
                                                            {"tok/s/gpu", "tokens_per_s_per_gpu"},
                                                            {"tokens/sec/gpu", "tokens_per_s_per_gpu"},
                                                            {"tokens_per_gpu_per_s", "tokens_per_s_per_gpu"},
                                                            {"tps/gpu", "tokens_per_s_per_gpu"},
                                                            {"tgs", "tokens_per_s_per_gpu"},
                                                            {"tokens/s", "tokens_per_s"},
                                                            {"tok/s", "tokens_per_s"},
                                                            {"tokens/sec", "tokens_per_s"},
                                                            {"samples/s", "samples_per_s"},
                                                            {"samples/sec", "samples_per_s"},
                                                            {"sequences_per_s", "samples_per_s"},
                                                            {"tflops/gpu", "tflops_per_gpu"},
                                                            {"tflop/s/gpu", "tflops_per_gpu"},
                                                            {"tflops/s/gpu", "tflops_per_gpu"},
                                                            {"iteration_time_s", "iter_time_s"},
                                                            {"step_time_s", "iter_time_s"},
                                                            {"iter_time", "iter_time_s"},
                                                            {"step_time", "iter_time_s"},
                                                            {"iteration_time", "iter_time_s"},
                                                            {"mfu (%)", "mfu"},
                                                            {"mfu_percent", "mfu"},
                                                            {"mfu %", "mfu"},
                                                            {"hfu (%)", "hfu"},
                                                            {"hfu_percent", "hfu"},
                                                            {"hfu %", "hfu"}};
  const auto found = spellings.find(written);
  return found == spellings.end() ? written : found->second;
}

MeasuredRow row_of(const CsvRecord& record, const Header& header) {
  MeasuredRow row;
  row.line = record.line;
  row.fault = record.fault;
  for (std::size_t place = 0; place < std::min(header.size(), record.fields.size()); ++place)
    if (header[place]) row[*header[place]] = trimmed(record.fields[place]);
  if (row.fault.empty() && record.fields.size() != header.size())
    row.fault = fmt::format("{} fields, the header has {}", record.fields.size(), header.size());
  std::string& metric = row[Column::measured_metric];
  metric = metric_named(lower_case(metric));
  if (metric == "hfu") {  // an MFU that counts what is computed again
    metric = "mfu";
    row[Column::flops_definition] += row[Column::flops_definition].empty() ? "HFU" : ", HFU";
  }
  const bool has_unit = row[Column::measured_value].find_first_of("%p") != std::string::npos;  // or "percent"
  row[Column::measured_value] = plain_measured_value(row[Column::measured_value], metric);
  row[Column::seq_len] = plain_sequence(row[Column::seq_len]);
  if (row.fault.empty() && !row.number(Column::measured_value))
    row.fault = fmt::format("measured_value '{}' is no number", row[Column::measured_value]);
  // A share: nobody publishes an MFU of 1 % or less.
  if (const std::optional<double> value = row.number(Column::measured_value);
      metric == "mfu" && !has_unit && value && *value > 0 && *value <= 1)
    row[Column::measured_value] = fmt::format("{:.10g}", 100 * *value);
  return row;
}

}  // namespace

const std::array<const char*, column_count>& column_names() {
  static constexpr std::array<const char*, column_count> names{"id",
                                                               "source",
                                                               "hardware",
                                                               "gpus_per_node",
                                                               "intra_link",
                                                               "inter_link",
                                                               "n_gpus",
                                                               "model",
                                                               "layers",
                                                               "hidden",
                                                               "heads",
                                                               "kv_heads",
                                                               "ffn_hidden",
                                                               "vocab",
                                                               "seq_len",
                                                               "n_experts",
                                                               "topk",
                                                               "precision",
                                                               "tp",
                                                               "pp",
                                                               "vpp",
                                                               "dp",
                                                               "cp",
                                                               "ep",
                                                               "sp",
                                                               "zero_stage",
                                                               "micro_batch",
                                                               "global_batch",
                                                               "recompute",
                                                               "schedule",
                                                               "flash_attention",
                                                               "measured_metric",
                                                               "measured_value",
                                                               "flops_definition",
                                                               "notes"};
  return names;
}

std::optional<Column> column_named(const std::string& name) {
  const auto found = std::ranges::find(column_names(), name);
  if (found == column_names().end()) return std::nullopt;
  return static_cast<Column>(found - column_names().begin());
}

std::optional<std::int64_t> MeasuredRow::integer(Column column) const {
  return whole_text_as<std::int64_t>((*this)[column]);
}

std::optional<double> MeasuredRow::number(Column column) const {
  const std::optional<double> number = whole_text_as<double>((*this)[column]);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

MeasuredFile read_measured_rows(const std::string& text, const std::string& file) {
  const std::vector<CsvRecord> records = read_csv_records(text);
  if (records.empty())
    throw ConfigError(
        {{{file, 0, 0}, "no header: the file is empty", "start it with id,source,hardware,..."}});
  MeasuredFile read;
  const Header header = read_header(records.front(), file, read);
  for (std::size_t r = 1; r < records.size(); ++r) read.rows.push_back(row_of(records[r], header));
  return read;
}

}  // namespace simrun
