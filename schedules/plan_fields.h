#pragma once

#include <cmath>
#include <string>

#include "schedules/plan_message.h"

// Fields of a plan's message that no Plan can hold throw MalformedPlan.
namespace simrun {

// `last` is the highest enumerator that this version knows.
template <class Enum>
Enum enum_of(int number, Enum last, const char* what) {
  if (number < 0 || number > static_cast<int>(last))
    throw MalformedPlan(std::string("unknown ") + what + " " + std::to_string(number));
  return static_cast<Enum>(number);
}

inline double finite(double value, const char* what) {
  if (!std::isfinite(value)) throw MalformedPlan(std::string(what) + " is not a finite number");
  return value;
}

}  // namespace simrun
