#pragma once

#include <cstdint>
#include <string>

namespace simrun {

// A text that names hardware as words, in lower case with a blank on either side of each: letters and digits,
// whatever stands between. A count, a form factor and a memory size are words of their own: "8xH100SXM5 80
// GB" is " 8x  h100  sxm5  80gb ", so that a pattern of whole words never matches within another name ("H200"
// in "GH200").
std::string hardware_words(const std::string& text);

// The pattern for that text: '*' is any text, as ever.
std::string hardware_pattern(const std::string& pattern);

// Without what it is compared with: "H100 SXM, compared to B200" and "H100 (not H200)" are H100.
std::string own_hardware(const std::string& text);

// Whether a GPU of so many bytes is one of those whose memory the text names, in GB or GiB, to 10 %; true
// where it names none. Sizes of 8 to 300 GB are a GPU's; rates, as "600 GB/s", and "256 GB host memory" are
// none.
bool may_have_memory(const std::string& hardware, std::int64_t bytes);

}  // namespace simrun
