#pragma once

#include "planner/alpa_rules.h"

namespace simrun {

// Chooses both stages' layouts so that a parameter which both read (tied word embeddings) lies alike in both,
// at the least sum of costs over all layouts that it can have; nothing is changed where they share none.
// False if no layout fits both.
bool choose_tied(StageLayouts& first, StageLayouts& last, const ChoiceLimits& limits);

}  // namespace simrun
