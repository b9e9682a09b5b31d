#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>

#include "configs/diagnostics.h"
#include "schedules/evaluate_schedule.h"
#include "schedules/schedule_grid.h"

namespace simrun {

namespace {

constexpr std::size_t most_errors = 20;
constexpr std::int64_t largest_number = 999'999;  // of a stage, microbatch or slice

constexpr std::array communication_kinds{"SEND_F",  "RECV_F",  "SEND_B",     "RECV_B",
                                         "UNSHARD", "RESHARD", "REDUCE_GRAD"};

std::string_view trimmed(std::string_view text) {
  const auto is_blank = [](char letter) { return letter == ' ' || letter == '\t'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// Takes a number off the front; nothing if there is none or it is too large.
std::optional<std::int32_t> take_number(std::string_view& text) {
  std::int64_t number = 0;
  std::size_t digits = 0;
  for (; digits < text.size() && text[digits] >= '0' && text[digits] <= '9'; ++digits)
    if (number <= largest_number) number = 10 * number + (text[digits] - '0');
  if (digits == 0 || number > largest_number) return std::nullopt;
  text.remove_prefix(digits);
  return static_cast<std::int32_t>(number);
}

// One action of the grammar STAGE KIND [MICROBATCH]; no op: communication.
struct Action {
  std::optional<Op> op;
};

std::optional<Action> parse_action(std::string_view text) {
  const std::optional<std::int32_t> stage = take_number(text);
  if (!stage) return std::nullopt;
  const std::size_t word_length = std::min(text.find_first_of("0123456789"), text.size());
  const std::string_view word = text.substr(0, word_length);
  text.remove_prefix(word_length);
  if (std::ranges::find(communication_kinds, word) != communication_kinds.end()) {
    if (!text.empty() && (!take_number(text) || !text.empty())) return std::nullopt;
    return Action{};
  }
  const std::size_t kind = std::string_view("FBIW").find(word);
  if (word.size() != 1 || kind == std::string_view::npos) return std::nullopt;
  const std::optional<std::int32_t> microbatch = take_number(text);
  if (!microbatch) return std::nullopt;
  Op op = {static_cast<OpKind>(kind), *stage, *microbatch};
  if (!text.empty()) {
    if (text.front() != 's') return std::nullopt;
    text.remove_prefix(1);
    const std::optional<std::int32_t> slice = take_number(text);
    if (!slice || !text.empty()) return std::nullopt;
    op.slice = *slice;
  }
  return Action{op};
}

// The one or two ops of a cell, none of a communication action; nothing: the cell is wrong.
std::optional<RankOps> parse_cell(std::string_view cell) {
  if (cell.front() != '(') {
    const std::optional<Action> action = parse_action(cell);
    if (!action) return std::nullopt;
    return action->op ? RankOps{*action->op} : RankOps{};
  }
  const std::size_t semicolon = cell.find(';');
  const std::size_t close = cell.find(')');
  if (close == std::string_view::npos || semicolon > close) return std::nullopt;
  const std::string_view suffix = trimmed(cell.substr(close + 1));
  if (!suffix.empty() && suffix != "OVERLAP_F_B") return std::nullopt;
  const std::optional<Action> first = parse_action(trimmed(cell.substr(1, semicolon - 1)));
  const std::optional<Action> second =
      parse_action(trimmed(cell.substr(semicolon + 1, close - semicolon - 1)));
  if (!first || !second || !first->op || !second->op) return std::nullopt;
  RankOps pair = {*first->op, *second->op};
  pair[0].overlaps_next = true;
  return pair;
}

std::string hint_for(std::string_view cell) {
  std::string upper(cell);
  for (char& letter : upper)
    if (letter != 's') letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  if (parse_cell(upper)) return fmt::format("did you mean {}?", upper);
  return "an op is stage, kind (F, B, I or W) and microbatch, 2F0 or 1B3, or a pair (0F8;7B3)OVERLAP_F_B; "
         "commas separate cells.";
}

// Where the ops of one rank stand in the file.
struct Row {
  int line = 0;
  std::vector<int> columns;  // by op
  int end_column = 1;
};

class CsvReader {
 public:
  explicit CsvReader(const std::string& file) : file_(file) {}

  void read_line(std::string_view line, int number) {
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    RankOps ops;
    Row row = {number, {}, static_cast<int>(line.size()) + 1};
    for (std::size_t start = 0; start <= line.size();) {
      const std::size_t end = std::min(line.find(',', start), line.size());
      read_cell(line, start, end, row, ops);
      start = end + 1;
    }
    result_.schedule.push_back(std::move(ops));
    rows_.push_back(std::move(row));
  }

  ScheduleFile finish() {
    while (!result_.schedule.empty() && result_.schedule.back().empty()) {
      result_.schedule.pop_back();
      rows_.pop_back();
    }
    if (errors_.empty() && result_.schedule.empty())
      errors_.push_back({{file_, 0, 0}, "no pipeline rank has an op", "one row per rank, one op per cell."});
    refuse_errors();
    name_directions();
    read_shape();
    refuse_faults();
    return std::move(result_);
  }

 private:
  void read_cell(std::string_view line, std::size_t start, std::size_t end, Row& row, RankOps& ops) {
    std::string_view cell = trimmed(line.substr(start, end - start));
    if (cell.size() >= 2 && cell.front() == '"' && cell.back() == '"')
      cell = trimmed(cell.substr(1, cell.size() - 2));
    if (cell.empty()) return;
    const int column = static_cast<int>(cell.data() - line.data()) + 1;
    const std::optional<RankOps> read = parse_cell(cell);
    if (!read) {
      constexpr std::size_t shown = 40;
      const std::string text(cell.substr(0, shown));
      errors_.push_back({{file_, row.line, column},
                         fmt::format("'{}{}' is no op", text, cell.size() > shown ? "..." : ""),
                         hint_for(cell)});
      return;
    }
    if (read->empty()) ++result_.communication_actions;
    ops.insert(ops.end(), read->begin(), read->end());
    row.columns.insert(row.columns.end(), read->size(), column);
  }

  void refuse_errors() {
    if (errors_.empty()) return;
    if (errors_.size() > most_errors) errors_.resize(most_errors);
    throw ConfigError(std::move(errors_));
  }

  void name_directions() {
    result_.placement = likeliest_placement(result_.schedule);
    if (result_.placement != Placement::bidirectional) return;
    const int ranks = static_cast<int>(result_.schedule.size());
    for (int rank = 0; rank < ranks; ++rank)
      for (Op& op : result_.schedule[static_cast<std::size_t>(rank)])
        if (op.stage != rank && op.stage == ranks - 1 - rank) op.direction = Direction::up;
  }

  void read_shape() {
    PipelineShape& shape = result_.shape;
    shape.ranks = static_cast<int>(result_.schedule.size());
    int stages = 1;
    for (const RankOps& ops : result_.schedule)
      for (const Op& op : ops) {
        stages = std::max(stages, op.stage + 1);
        shape.microbatches = std::max(shape.microbatches, op.microbatch + 1);
        shape.slices = std::max(shape.slices, op.slice + 1);
      }
    if (result_.placement == Placement::bidirectional)
      shape.microbatches *= 2;
    else
      shape.virtual_stages = (stages + shape.ranks - 1) / shape.ranks;
  }

  void refuse_faults() {
    const std::vector<ScheduleFault> faults = check_schedule(result_.schedule, result_.shape);
    for (const ScheduleFault& fault : faults) {
      const Row& row = rows_[static_cast<std::size_t>(fault.rank)];
      const int column = fault.op < row.columns.size() ? row.columns[fault.op] : row.end_column;
      errors_.push_back({{file_, row.line, column}, fault.message, ""});
    }
    if (!faults.empty()) errors_.back().hint = "the lists:\n" + marked_grid(result_.schedule, faults);
    while (!errors_.empty() && errors_.back().hint.ends_with('\n')) errors_.back().hint.pop_back();
    refuse_errors();
  }

  std::string file_;
  ScheduleFile result_;
  std::vector<Row> rows_;
  std::vector<Diagnostic> errors_;
};

}  // namespace

ScheduleFile read_schedule_csv(const std::string& text, const std::string& file) {
  CsvReader reader(file);
  std::string_view rest = text;
  if (rest.starts_with("\xEF\xBB\xBF")) rest.remove_prefix(3);
  for (int number = 1; !rest.empty(); ++number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    reader.read_line(rest.substr(0, end), number);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return reader.finish();
}

}  // namespace simrun
