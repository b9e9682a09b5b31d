#pragma once

#include <compare>
#include <cstdint>
#include <map>

#include "schedules/plan.h"

namespace simrun {

// How many rows an experts' buffer had in a microbatch of one step, on the GPU of this number in its stage.
struct RowsKey {
  Index buffer = 0;  // that owns its memory
  std::int32_t microbatch = 0;
  std::int64_t local_gpu = 0;
  auto operator<=>(const RowsKey&) const = default;  // NOLINT(modernize-use-nullptr)
};
using RecordedRows = std::map<RowsKey, std::int64_t>;

// Of a run: the rows of its first step, and of each GPU's fullest step behind it. with_recorded_rows() of
// them gives the plans whose memory, walked for the first and for a steady step, is the run's. Empty where
// nothing is routed, or nothing computed.
struct RoutedRows {
  RecordedRows of_first_step, of_further_steps;
};

// The plan as routing would have had it: the buffers [experts, capacity, ...] of a record have their rows
// from tables (ExtentSource::recorded_histogram), counted over all experts of a GPU, so that memory walked is
// memory used. Buffers that the record lacks stay as planned. Rows are no longer divisible by expert: the
// plan is for memory, not for running.
Plan with_recorded_rows(Plan plan, const RecordedRows& rows);

}  // namespace simrun
