#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "configs/job.h"
#include "schedules/plan.h"

namespace simrun {

// A collective, or a local slice (copy), that the layouts of two operators make necessary.
struct LayoutTransfer {
  // forward, recompute, backward; step: once, of the sums of all microbatches
  std::string when;
  std::string operation;   // "all_gather", "slice"
  std::string axes;        // "cp x tp"
  std::int64_t ranks = 1;  // that take part
  // Of one rank's larger buffer (nccl-tests' size): what is reduced, scattered or exchanged, or what a gather
  // writes.
  std::int64_t bytes = 0;
  std::string change;  // what of the layout differs: "input_norm: sequence tp -> whole"
  std::string cause;   // the whole sentence
  bool operator==(const LayoutTransfer&) const = default;
};

struct OperatorLayout {
  std::string name;
  std::string module;
  std::string layout;   // of its iteration space: "batch dp, ffn tp", or "whole"
  std::string partial;  // what its output still lacks: "sum over tp", or ""
  std::vector<LayoutTransfer> transfers;
  bool operator==(const OperatorLayout&) const = default;
};

// Operators before, in or behind the layers; layers that are alike are one part.
struct LayoutPart {
  std::string name;  // embedding, layers, head
  std::vector<std::int32_t> layers;
  std::vector<OperatorLayout> operators;
};

struct LayoutReport {
  std::vector<Axis> mesh;  // of a pipeline stage, the first fastest
  std::int64_t pipeline_stages = 1;
  std::vector<LayoutPart> parts;
};

// How a job's model is split. Forward transfers are listed with the operator that reads what they make (what
// the next stage needs with the last operator of its stage), transfers of gradients with the operator whose
// output's gradient they complete, sums of parameter gradients with the first reader of the parameter. Throws
// what lower_model() throws.
LayoutReport layout_report(const Job& job);

}  // namespace simrun
