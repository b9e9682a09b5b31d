#pragma once

#include <string>
#include <vector>

#include "configs/job.h"

namespace simrun {

// What a layout says, or why it cannot be read: `problem` is empty or one sentence about the character at
// `column` (from 1) of the text.
struct PipelineLayout {
  std::vector<StageContent> stages;
  std::string problem;
  std::string hint;
  int column = 1;
};

// Megatron-LM's pipeline_model_parallel_layout: "Et*3|(tttt|)*14ttL".
//
//   E embedding   t one decoder layer   m multi-token prediction
//   L loss (final norm, LM head, cross entropy)
//   | ends a stage   x*n repeats a character   (...)*n repeats a group   commas are ignored
//
// Entry s is global virtual stage s, on pipeline rank s % pipeline size. E comes first in the first stage, m
// and then L last in the last one; every stage holds something. Source:
// megatron/core/transformer/pipeline_parallel_layer_layout.py, parse_str_to_list.
PipelineLayout parse_pipeline_layout(const std::string& text);

// The layout as text, "Et*3|t*4|t*2mL"; the inverse.
std::string pipeline_layout_text(const std::vector<StageContent>& stages);

}  // namespace simrun
