#pragma once

#include <cstdint>
#include <string>

namespace simrun {

// How a run ended that did not end well. `refusal`: it was not to be run as asked. `disagreement`: ranks,
// plan and processes do not fit together. `crash`: a rank or process died, or ran out of something.
enum class FailureKind : std::uint8_t { none, refusal, disagreement, crash };

struct RunFailure {
  FailureKind kind = FailureKind::none;
  std::string text;  // which rank, which instruction, who waited for whom
};

}  // namespace simrun
