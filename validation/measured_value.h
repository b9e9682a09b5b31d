#pragma once

#include <string>

namespace simrun {

// A measurement as a number in its metric's unit, of a cell that has a unit behind it: "41.0 %" of an mfu,
// "182 TFLOP/s" of tflops_per_gpu, "3700 ms" of iter_time_s are 41.0, 182 and 3.7; commas between thousands
// go. What is no such cell comes back as it is.
std::string plain_measured_value(const std::string& cell, const std::string& metric);

// "4k", "32K tokens" or "8192 tokens" of a sequence's length, in tokens (k: 1,024); else as it is.
std::string plain_sequence(const std::string& cell);

}  // namespace simrun
