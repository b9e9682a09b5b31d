#include "schedules/pipeline_schedule.h"

#include <algorithm>

#include "schedules/accepted_sizes.h"
#include "schedules/bpipe.h"
#include "schedules/chimera.h"
#include "schedules/dualpipe.h"
#include "schedules/gpipe.h"
#include "schedules/hanayo.h"
#include "schedules/interleaved_1f1b.h"
#include "schedules/interleaved_zb.h"
#include "schedules/looped_bfs.h"
#include "schedules/one_f_one_b.h"
#include "schedules/pipedream.h"
#include "schedules/searched_schedules.h"
#include "schedules/seq1f1b.h"
#include "schedules/virtual_microbatches.h"
#include "schedules/zb_h1.h"
#include "schedules/zb_v.h"

namespace simrun {
namespace {

int all_passes(const PipelineShape& shape) { return shape.microbatches * shape.virtual_stages; }

int one_f_one_b_peak(const PipelineShape& shape, int rank) {
  return std::min(shape.microbatches, shape.ranks - rank);
}

// Forwards of an interleaved schedule before its first backward, the first chunk of the last group left out.
int earlier_chunks(const PipelineShape& shape) { return (shape.virtual_stages - 1) * group_size_of(shape); }

// By rule alone; those that search an order are in searched_schedules.h.
std::vector<ScheduleEntry> one_stage_schedules() {
  return {
      {.name = "gpipe",
       .aliases = {"afab"},
       .description = "all forward, then all backward; every microbatch is alive at once",
       .refusal = one_stage_refusal,
       .build = [](const PipelineShape& shape) { return gpipe(shape.ranks, shape.microbatches); },
       .peak_in_flight = [](const PipelineShape& shape, int) { return shape.microbatches; }},
      {.name = "1f1b",
       .aliases = {},
       .description = "one forward, one backward; at most as many microbatches alive as pipeline ranks",
       .refusal = one_stage_refusal,
       .build = [](const PipelineShape& shape) { return one_f_one_b(shape.ranks, shape.microbatches); },
       .peak_in_flight = one_f_one_b_peak},
      {.name = "bpipe",
       .aliases = {},
       .description = "1f1b whose ranks lend each other memory for activations; the passes are 1f1b's",
       .refusal = bpipe_refusal,
       .build = [](const PipelineShape& shape) { return bpipe(shape.ranks, shape.microbatches); },
       .peak_in_flight = one_f_one_b_peak},
      {.name = "pipedream",
       .aliases = {},
       .description = "asynchronous 1f1b without flush; a rank keeps a weight version per microbatch alive",
       .refusal = one_stage_refusal,
       .build = [](const PipelineShape& shape) { return pipedream(shape.ranks, shape.microbatches); },
       .peak_in_flight = one_f_one_b_peak},
      {.name = "seq1f1b",
       .aliases = {},
       .description = "1f1b over slices of every sequence; the bubble shrinks by their number",
       .refusal = seq1f1b_refusal,
       .build = seq1f1b,
       .peak_in_flight =
           [](const PipelineShape& shape, int rank) {
             return std::min(shape.microbatches * shape.slices, shape.ranks - rank - 1 + shape.slices);
           }},
      {.name = "zb_h1",
       .aliases = {"zb1p"},
       .description = "1f1b with the backward split; W fills the drain at 1f1b's memory on rank 0",
       .refusal = one_stage_refusal,
       .build = [](const PipelineShape& shape) { return zb_h1(shape.ranks, shape.microbatches); },
       .peak_in_flight = [](const PipelineShape& shape,
                            int) { return std::min(shape.microbatches, shape.ranks); }},
  };
}

std::vector<ScheduleEntry> interleaved_schedules() {
  return {
      {.name = "interleaved_1f1b",
       .aliases = {"interleaved"},
       .description = "1f1b over several virtual stages per rank; the bubble shrinks by their number",
       .refusal = interleaved_refusal,
       .build = interleaved_1f1b,
       .peak_in_flight =
           [](const PipelineShape& shape, int rank) {
             const int warmup = earlier_chunks(shape) + 2 * (shape.ranks - 1 - rank);
             return std::min(all_passes(shape), warmup + 1);
           },
       .default_virtual_stages = 2,
       .takes_groups = true},
      {.name = "interleaved_1f1b_overlap",
       .aliases = {},
       .description = "interleaved_1f1b whose steady forwards and backwards overlap (experts' all-to-all)",
       .refusal = interleaved_overlap_refusal,
       .build = interleaved_1f1b_overlap,
       .peak_in_flight =
           [](const PipelineShape& shape, int rank) {
             const int warmup = earlier_chunks(shape) + 2 * (shape.ranks - 1 - rank) + 1;
             return std::min(all_passes(shape), warmup + 1);
           },
       .default_virtual_stages = 2,
       .takes_groups = true},
      {.name = "looped_bfs",
       .aliases = {},
       .description = "gpipe over several virtual stages per rank, chunk after chunk",
       .refusal = whole_sequences_refusal,
       .build = looped_bfs,
       .peak_in_flight = [](const PipelineShape& shape, int) { return all_passes(shape); },
       .default_virtual_stages = 2},
      {.name = "interleaved_zb",
       .aliases = {},
       .description = "interleaved_1f1b with the backward split; W fills the drain",
       .refusal = interleaved_zb_refusal,
       .build = interleaved_zb,
       .peak_in_flight = [](const PipelineShape& shape,
                            int) { return std::min(all_passes(shape), earlier_chunks(shape) + shape.ranks); },
       .default_virtual_stages = 2,
       .takes_groups = true},
      {.name = "grouped_interleaved_1f1b",
       .aliases = {},
       .description = "interleaved_zb with W right behind I, also in groups smaller than the ranks",
       .refusal = grouped_interleaved_refusal,
       .build = grouped_interleaved_1f1b,
       .peak_in_flight =
           [](const PipelineShape& shape, int rank) {
             return std::min(all_passes(shape), earlier_chunks(shape) + shape.ranks - rank);
           },
       .default_virtual_stages = 2,
       .takes_groups = true},
  };
}

std::vector<ScheduleEntry> folded_schedules() {
  return {
      {.name = "zb_v",
       .aliases = {"zbv"},
       .description = "two stages per rank in a V, backward split; no bubble inside a rank if F = I = W",
       .refusal = two_stages_refusal,
       .build = [](const PipelineShape& shape) { return zb_v(shape.ranks, shape.microbatches); },
       .placement = Placement::wave,
       .peak_in_flight = [](const PipelineShape& shape,
                            int) { return 2 * std::min(shape.ranks, shape.microbatches); },
       .default_virtual_stages = 2},
      {.name = "hanayo",
       .aliases = {},
       .description = "virtual_stages / 2 waves there and back; alive activations grow with microbatches",
       .refusal = hanayo_refusal,
       .build = hanayo,
       .placement = Placement::wave,
       .peak_in_flight = [](const PipelineShape& shape,
                            int rank) { return all_passes(shape) - shape.ranks + 1 + rank; },
       .default_virtual_stages = 2},
      {.name = "dualpipe_v",
       .aliases = {"dualpipev"},
       .description = "dualpipe folded into a V: half the ranks, every stage once",
       .refusal = dualpipe_v_refusal,
       .build = [](const PipelineShape& shape) { return dualpipe_v(shape.ranks, shape.microbatches); },
       .placement = Placement::wave,
       .peak_in_flight = [](const PipelineShape& shape, int) { return 2 * shape.ranks + 1; },
       .default_virtual_stages = 2},
      {.name = "dualpipe",
       .aliases = {},
       .description = "two pipelines in opposite directions, forward of one over backward of the other",
       .refusal = dualpipe_refusal,
       .build = [](const PipelineShape& shape) { return dualpipe(shape.ranks, shape.microbatches); },
       .placement = Placement::bidirectional,
       .peak_in_flight = [](const PipelineShape& shape, int) { return shape.ranks + 1; }},
      {.name = "chimera",
       .aliases = {},
       .description = "two pipelines in opposite directions, in rounds of one microbatch per rank",
       .refusal = chimera_refusal,
       .build = [](const PipelineShape& shape) { return chimera(shape.ranks, shape.microbatches); },
       .placement = Placement::bidirectional,
       .peak_in_flight =
           [](const PipelineShape& shape, int rank) {
             return std::min(shape.microbatches,
                             std::min(rank, shape.ranks - 1 - rank) + shape.ranks / 2 + 1);
           }},
  };
}

}  // namespace

const std::vector<ScheduleEntry>& pipeline_schedules() {
  static const std::vector<ScheduleEntry> table = [] {
    std::vector<ScheduleEntry> rows = one_stage_schedules();
    for (const auto& more : {interleaved_schedules(), folded_schedules(), searched_schedules()})
      rows.insert(rows.end(), more.begin(), more.end());
    return rows;
  }();
  return table;
}

const ScheduleEntry* find_schedule(const std::string& name) {
  for (const ScheduleEntry& entry : pipeline_schedules())
    if (entry.name == name ||
        std::find(entry.aliases.begin(), entry.aliases.end(), name) != entry.aliases.end())
      return &entry;
  return nullptr;
}

}  // namespace simrun
