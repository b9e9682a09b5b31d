#pragma once

#include <string>
#include <vector>

#include "schedules/plan.h"

// The checks behind lint(), one file each. All but check_structure() rely on the indices that it has checked.
namespace simrun {

// Sentences, up to a number that a reader would want to see.
class Findings {
 public:
  static constexpr std::size_t most = 20;
  void add(std::string sentence) {
    if (!full()) sentences_.push_back(std::move(sentence));
  }
  bool full() const { return sentences_.size() >= most; }
  bool empty() const { return sentences_.empty(); }
  std::vector<std::string> take() { return std::move(sentences_); }

 private:
  std::vector<std::string> sentences_;
};

// A plan has up to two orders of entries: those of the steady step and those of the first step.
enum class StepOf : std::uint8_t { steady, first };
inline bool runs_in(const Entry& entry, StepOf step) {
  return entry.steps == Steps::every ||
         entry.steps == (step == StepOf::steady ? Steps::not_first : Steps::first_only);
}

void check_structure(const Plan& plan, Findings& findings);
void check_tables(const Plan& plan, Findings& findings);
void check_cluster(const Plan& plan, Findings& findings);
void check_imperfections(const Cluster& cluster, Findings& findings);
void check_memory_spaces(const Plan& plan, Findings& findings);
void check_shapes(const Plan& plan, Findings& findings);
void check_rings(const Plan& plan, Findings& findings);
void check_servers(const Plan& plan, Findings& findings);
void check_lifetimes(const Plan& plan, StepOf step, Findings& findings);
void check_communication(const Plan& plan, StepOf step, Findings& findings);
void check_passes(const Plan& plan, StepOf step, Findings& findings);

// The segments that a program runs, ascending.
std::vector<Index> segments_of(const Program& program);

// "segment 'forward', instruction 3 (gemm qkv)"
std::string place(const Segment& segment, std::size_t instruction);
// "pipeline rank 1, entry 12 (forward of microbatch 4)"
std::string place(const Plan& plan, const Program& program, std::size_t entry);

}  // namespace simrun
