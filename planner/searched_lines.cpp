#include "planner/searched_lines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <vector>

#include "configs/rank_order.h"

namespace simrun {
namespace {

// Of a balance: its parts, in the order of DeviceBalance, each behind a semicolon; "" of an empty one.
std::string balance_field(const DeviceBalance& of) {
  if (of.empty()) return "";
  std::string placement = of.placement;
  std::ranges::replace(placement, ' ', '_');
  return fmt::format(";{};{};{};{};{};{}", of.layout, fmt::join(of.rank_map, ","), placement, of.micro_batch,
                     fmt::join(of.replicas, ","), fmt::join(of.stage_data, ","));
}

std::vector<std::int64_t> read_numbers(const std::string& text) {
  std::vector<std::int64_t> numbers;
  std::istringstream in(text);
  for (std::string number; std::getline(in, number, ',');) {
    std::int64_t value = 0;
    std::istringstream(number) >> value;
    numbers.push_back(value);
  }
  return numbers;
}

// What balance_field() writes, behind what is not of it.
DeviceBalance read_balance(const std::string& field) {
  std::vector<std::string> parts;
  std::istringstream in(field);
  for (std::string part; std::getline(in, part, ';');) parts.push_back(part);
  constexpr std::size_t first = 1, all = 7;
  if (parts.size() <= first) return {};
  parts.resize(all);
  std::ranges::replace(parts[3], '_', ' ');
  DeviceBalance balance;
  balance.layout = parts[1];
  balance.rank_map = read_numbers(parts[2]);
  balance.placement = parts[3];
  std::istringstream(parts[4]) >> balance.micro_batch;
  balance.replicas = read_numbers(parts[5]);
  balance.stage_data = read_numbers(parts[6]);
  return balance;
}

// Fields are separated by tabs; a refusal, which may hold spaces, is the last. A balance follows the schedule
// in its field.
std::string candidate_fields(const Candidate& of) {
  const SplitTuning& tuning = of.tuning;
  return fmt::format("{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}{}", of.tensor,
                     of.context, of.pipeline, of.virtual_stages, of.expert, of.expert_tensor, of.data,
                     of.micro_batch, of.zero_stage, int{of.overlaps}, static_cast<int>(of.recompute),
                     int{of.whole_sequences}, of.exchange.kind ? static_cast<int>(*of.exchange.kind) : -1,
                     of.exchange.a2a_size, tuning.rank_order.empty() ? "-" : tuning.rank_order,
                     tuning.bucket_size, tuning.gathered_stay, of.schedule.empty() ? "-" : of.schedule,
                     balance_field(of.balance));
}

bool read_candidate_fields(std::istream& in, Candidate& of) {
  int recompute = 0, overlaps = 0, whole_sequences = 0, exchange = 0;
  in >> of.tensor >> of.context >> of.pipeline >> of.virtual_stages >> of.expert >> of.expert_tensor >>
      of.data >> of.micro_batch >> of.zero_stage >> overlaps >> recompute >> whole_sequences >> exchange >>
      of.exchange.a2a_size >> of.tuning.rank_order >> of.tuning.bucket_size >> of.tuning.gathered_stay >>
      of.schedule;
  if (exchange > static_cast<int>(ContextExchange::a2a_p2p)) return false;
  if (!in || recompute < 0 || recompute > static_cast<int>(RecomputeGranularity::full)) return false;
  of.overlaps = overlaps != 0;
  of.whole_sequences = whole_sequences != 0;
  if (exchange >= 0) of.exchange.kind = static_cast<ContextExchange>(exchange);
  of.recompute = static_cast<RecomputeGranularity>(recompute);
  SplitTuning& tuning = of.tuning;
  if (tuning.rank_order == "-") tuning.rank_order.clear();
  if (!tuning.rank_order.empty() && !parse_rank_order(tuning.rank_order)) return false;
  if (tuning.bucket_size < 0 || tuning.gathered_stay < 0 || tuning.gathered_stay > 2) return false;
  of.balance = read_balance(of.schedule);
  of.schedule = of.schedule.substr(0, of.schedule.find(';'));
  if (of.schedule == "-") of.schedule.clear();
  return true;
}

}  // namespace

std::string evaluated_line(const Candidate& candidate, const Evaluation& found) {
  std::string refusal = found.refusal;
  for (char& c : refusal)
    if (c == '\n' || c == '\t' || c == '\r') c = ' ';
  return candidate_fields(candidate) +
         fmt::format("\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t", found.step_s, found.tokens_per_s,
                     found.mfu, found.bubble_fraction, found.exposed_s, found.peak_bytes, found.limit_bytes,
                     int{found.fits}, found.host_excess_bytes, found.engine.empty() ? "-" : found.engine) +
         refusal;
}

std::string estimated_line(const Candidate& candidate, const Estimate& estimate) {
  return candidate_fields(candidate) +
         fmt::format("\t{}\t{}\t{}", estimate.step_s, estimate.peak_bytes, estimate.room_bytes);
}

std::optional<std::pair<Candidate, Evaluation>> read_evaluated_line(const std::string& line) {
  std::istringstream in(line);
  Candidate candidate;
  Evaluation found;
  int fits = 0;
  if (!read_candidate_fields(in, candidate)) return std::nullopt;
  in >> found.step_s >> found.tokens_per_s >> found.mfu >> found.bubble_fraction >> found.exposed_s >>
      found.peak_bytes >> found.limit_bytes >> fits >> found.host_excess_bytes >> found.engine;
  if (!in) return std::nullopt;
  found.fits = fits != 0;
  if (found.engine == "-") found.engine.clear();
  if (found.step_s <= 0) found.refusal = line.substr(line.rfind('\t') + 1);
  return std::pair{candidate, found};
}

std::optional<std::pair<Candidate, Estimate>> read_estimated_line(const std::string& line) {
  std::istringstream in(line);
  Candidate candidate;
  Estimate estimate;
  if (!read_candidate_fields(in, candidate)) return std::nullopt;
  in >> estimate.step_s >> estimate.peak_bytes >> estimate.room_bytes;
  if (!in) return std::nullopt;
  return std::pair{candidate, estimate};
}

}  // namespace simrun
