#pragma once

#include <string>

#include "schedules/plan.h"
#include "schedules/summary.h"

namespace simrun {

// The summary for programs: one JSON object, schema_version 1, keys named as the fields of Summary. Times are
// seconds, memory is bytes, fractions are of 1. Numbers are the shortest text that reads back to the same
// double; what is not a number is null. Ends in a newline. Pure: equal inputs give equal bytes.
std::string summary_json(const Plan& plan, const Summary& summary);

// A JSON string literal with its quotes. Bytes that are not UTF-8 become U+FFFD; "<" is written \u003c, so
// that the literal may stand inside an HTML script element.
std::string json_quoted(const std::string& text);

}  // namespace simrun
