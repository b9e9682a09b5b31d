#pragma once

#include <string>

#include "schedules/pipeline_schedule.h"

namespace simrun {

// The first rule of a schedule that a shape breaks, as a sentence without full stop, or "".
using ShapeRule = std::string (*)(const PipelineShape& shape);

// "" if the shape obeys the rule, else the rule's sentence and the nearest sizes that obey it, all others
// kept: "...; 8 and 12 microbatches would do". If no number of microbatches does it alone: of virtual
// stages, of ranks, else several together; before all, the size of a group smaller than the ranks.
std::string refusal_with_sizes(const PipelineShape& shape, ShapeRule rule);

// Rules that schedules share: at least one of everything, and no slices; these also with one or two stages
// per rank; or with an even number of ranks, where both pipelines of a rank may be counted as its two stages.
std::string whole_sequences_rule(const PipelineShape& shape);
std::string one_stage_rule(const PipelineShape& shape);
std::string two_stages_rule(const PipelineShape& shape);
std::string bidirectional_rule(const PipelineShape& shape);

// Also for schedules without a rule of their own.
std::string whole_sequences_refusal(const PipelineShape& shape);
std::string one_stage_refusal(const PipelineShape& shape);
std::string two_stages_refusal(const PipelineShape& shape);

}  // namespace simrun
