#include "schedule_vectors.h"

#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>

namespace simrun {
namespace {

template <class Number>
std::vector<Number> numbers(const std::string& list) {
  std::vector<Number> values;
  std::istringstream text(list);
  for (std::string value; std::getline(text, value, ',');)
    values.push_back(static_cast<Number>(std::stoll(value)));
  return values;
}

PassTimes search_times(const std::string& list) {
  const auto given = numbers<std::int64_t>(list);
  const std::int64_t f = given.at(0), i = given.at(1), w = given.at(2);
  return {f, i + w, i, w, f + i + w, 0};
}

PassTimes times_of_set(const std::string& name) {
  static const std::map<std::string, PassTimes> sets = {{"unit", {1, 2, 1, 1, 3, 0}},
                                                        {"alt", {2, 4, 3, 1, 6, 0}},
                                                        {"unit_comm1", {1, 2, 1, 1, 3, 1}},
                                                        {"fb_overlap", {2, 4, 2, 2, 5, 0}}};
  return sets.at(name);
}

Placement placement_of(const std::string& name) {
  static const std::map<std::string, Placement> placements = {
      {"loop", Placement::loop}, {"wave", Placement::wave}, {"bidirectional", Placement::bidirectional}};
  return placements.at(name);
}

ScheduleVector read_header(const std::string& line) {
  std::map<std::string, std::string> fields;
  std::istringstream text(line);
  for (std::string field; text >> field;)
    fields[field.substr(0, field.find('='))] = field.substr(field.find('=') + 1);
  const auto number = [&](const std::string& key, int otherwise) {
    return fields.contains(key) ? std::stoi(fields[key]) : otherwise;
  };
  ScheduleVector vector;
  vector.schedule = fields.at("schedule");
  vector.variant = fields["variant"];
  vector.shape.ranks = number("p", 0);
  vector.shape.microbatches = number("m", 0);
  vector.shape.virtual_stages = number("v", 0);
  vector.shape.group_size = number("group", 0);
  vector.shape.slices = number("slices", 1);
  vector.shape.memory_limit = number("limit", 0);
  if (fields.contains("times")) vector.shape.times = search_times(fields["times"]);
  if (fields.contains("memory")) vector.memory = fields["memory"];
  vector.placement = placement_of(fields.at("placement"));
  vector.exact = fields.at("match") == "exact";
  vector.canonical = fields.at("canonical") == "yes";
  vector.copies = number("copies", 0);
  return vector;
}

void read_figures(const std::string& line, ScheduleVector& vector) {
  std::istringstream text(line);
  std::string name, makespan, word, first, second;
  text >> name >> makespan;
  if (name == "peak") {
    text >> first >> word >> second;
    vector.peak_at_w = numbers<int>(first);
    vector.peak_at_i = numbers<int>(second);
    return;
  }
  text >> word >> first >> word >> second;
  vector.figures.push_back({times_of_set(name), std::stoll(makespan), numbers<std::int64_t>(first),
                            numbers<std::int64_t>(second)});
}

// "3B17", "3F2s1"
Op read_op(std::istream& text, const ScheduleVector& vector, int rank) {
  Op op;
  char letter = 0;
  text >> op.stage >> letter >> op.microbatch;
  op.kind = static_cast<OpKind>(std::string("FBIW").find(letter));
  if (text.peek() == 's') {
    text.get();
    text >> op.slice;
  }
  if (vector.placement == Placement::bidirectional && op.stage != rank) op.direction = Direction::up;
  return op;
}

RankOps read_ops(const std::string& line, const ScheduleVector& vector, int rank) {
  RankOps ops;
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    const bool pair = word.front() == '(';
    std::istringstream text(pair ? word.substr(1) : word);
    ops.push_back(read_op(text, vector, rank));
    if (!pair) continue;
    ops.back().overlaps_next = true;
    text.get();  // the semicolon
    ops.push_back(read_op(text, vector, rank));
  }
  return ops;
}

}  // namespace

std::vector<ScheduleVector> read_schedule_vectors() {
  std::ifstream file(SIMRUN_SOURCE_DIR "/tests/data/schedule-vectors.txt");
  std::vector<ScheduleVector> vectors;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    if (line.starts_with("schedule="))
      vectors.push_back(read_header(line));
    else if (line.starts_with(' '))
      read_figures(line, vectors.back());
    else
      vectors.back().ops.push_back(
          read_ops(line, vectors.back(), static_cast<int>(vectors.back().ops.size())));
  }
  return vectors;
}

}  // namespace simrun
