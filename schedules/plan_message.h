#pragma once

#include <stdexcept>
#include <string>

#include "schedules/plan.h"

// plan.proto's message to and from a Plan; plan_file.cpp puts the header around it.
namespace simrun {

// What a message says that no Plan can hold: one sentence.
class MalformedPlan : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

std::string encode_plan(const Plan& plan);

// Checks that every number fits its field and that tables are rectangular; lint() checks what they mean.
// Uses memory in proportion to the message. Throws MalformedPlan.
Plan decode_plan(const std::string& message);

}  // namespace simrun
