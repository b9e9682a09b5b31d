#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "configs/diagnostics.h"
#include "schedules/plan_file.h"

namespace simrun {

// The first words with which the bytes are refused as a Plan file.
inline std::string refusal(const std::string& bytes) {
  try {
    parse_plan(bytes, "some.plan");
  } catch (const ConfigError& error) {
    const Diagnostic& first = error.diagnostics().at(0);
    CHECK(first.position == SourcePosition{"some.plan", 0, 0});
    return first.message;
  }
  return "";
}

}  // namespace simrun
