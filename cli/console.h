#pragma once

#include <string>

#include "cli/options.h"

namespace simrun {

// Standard output, at once; throws OutputError where it cannot be written.
void print(const std::string& text);

// Standard error.
void complain(const std::string& text);

int terminal_width();
bool use_color(ColorMode mode);

}  // namespace simrun
