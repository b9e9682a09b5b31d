#pragma once

#include <string>

#include "schedules/plan.h"

namespace simrun {

// The Plan's file: an 8-byte magic, format version, payload length and CRC-32, then plan.proto's message.
// Versions up to plan_format_version are read, and the lowest that says all is written. A newer one, a
// truncated or altered file and an invalid plan (lint) are refused: read_plan throws ConfigError.
constexpr int plan_format_version = 25;

std::string serialize(const Plan& plan);
Plan parse_plan(const std::string& bytes, const std::string& file);
Plan read_plan(const std::string& path);
bool is_plan_file(const std::string& path);  // by its magic

}  // namespace simrun
