#include "planner/searched_lines.h"

#include <fmt/format.h>

#include <sstream>

namespace simrun {
namespace {

// Fields are separated by tabs; a refusal, which may hold spaces, is the last.
std::string candidate_fields(const Candidate& of) {
  return fmt::format("{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}", of.tensor, of.context, of.pipeline,
                     of.virtual_stages, of.expert, of.expert_tensor, of.data, of.micro_batch, of.zero_stage,
                     int{of.overlaps}, static_cast<int>(of.recompute),
                     of.schedule.empty() ? "-" : of.schedule);
}

bool read_candidate_fields(std::istream& in, Candidate& of) {
  int recompute = 0, overlaps = 0;
  in >> of.tensor >> of.context >> of.pipeline >> of.virtual_stages >> of.expert >> of.expert_tensor >>
      of.data >> of.micro_batch >> of.zero_stage >> overlaps >> recompute >> of.schedule;
  if (!in || recompute < 0 || recompute > static_cast<int>(RecomputeGranularity::full)) return false;
  of.overlaps = overlaps != 0;
  of.recompute = static_cast<RecomputeGranularity>(recompute);
  if (of.schedule == "-") of.schedule.clear();
  return true;
}

}  // namespace

std::string evaluated_line(const Candidate& candidate, const Evaluation& found) {
  std::string refusal = found.refusal;
  for (char& c : refusal)
    if (c == '\n' || c == '\t' || c == '\r') c = ' ';
  return candidate_fields(candidate) +
         fmt::format("\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t", found.step_s, found.tokens_per_s, found.mfu,
                     found.bubble_fraction, found.exposed_s, found.peak_bytes, found.limit_bytes,
                     int{found.fits}, found.engine.empty() ? "-" : found.engine) +
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
      found.peak_bytes >> found.limit_bytes >> fits >> found.engine;
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
