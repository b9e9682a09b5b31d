#pragma once

#include <string>
#include <vector>

namespace simrun {

// How the step answers to one number of the machine. `value` is in SI units (bytes/s, s, FLOP/s).
struct Sensitivity {
  enum class Unit : std::uint8_t { bytes_per_second, flops_per_second, seconds };
  std::string name;  // key path below cluster: inter_node.bandwidth
  Unit unit = Unit::bytes_per_second;
  double value = 0;
  double elasticity = 0;  // d ln step / d ln value, central difference over +-1 %
  double derivative = 0;  // d step / d value, s per SI unit, from the same two runs
  double saved_s = 0;     // step less the step of a run with the value 10 % better (rates x 1.1, times x 0.9)
};

// One line per number, in the order given; with the step that they are sensitivities of.
std::string sensitivity_table(const std::vector<Sensitivity>& rows, double step_time_s);

// An array of objects, without a line end after it.
std::string sensitivity_json(const std::vector<Sensitivity>& rows);

// A JSON object's text, as summary_json writes it, with one more member at its end.
std::string with_member(std::string object, const std::string& key, const std::string& json);

}  // namespace simrun
