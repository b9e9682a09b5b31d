#include "schedules/adafactor_parameters.h"

#include <array>

namespace simrun {
namespace {

constexpr std::size_t update_numbers = 7;
constexpr std::size_t numbers_of_version_22 = 4;

// Every number of a parameter, in the order of the constants.
std::array<std::int64_t, 12> numbers(const FactoredParameter& of) {
  return {of.matrices,
          of.rows,
          of.columns,
          of.columns_first ? 1 : 0,
          of.whole_rows,
          of.whole_columns,
          of.divides_rows ? 1 : 0,
          of.norms,
          of.row_sums,
          of.column_sums,
          of.row_copies,
          of.column_copies};
}

FactoredParameter from(const std::vector<double>& constants, std::size_t at, bool has_parts) {
  const auto number = [&](std::size_t i) { return static_cast<std::int64_t>(constants[at + i]); };
  FactoredParameter of;
  of.matrices = number(0);
  of.whole_rows = of.rows = number(1);
  of.columns = number(2);
  of.whole_columns = of.is_vector() ? 1 : of.columns;
  of.columns_first = number(3) != 0;
  if (!has_parts) return of;
  of.whole_rows = number(4);
  of.whole_columns = number(5);
  of.divides_rows = number(6) != 0;
  of.norms = number(7);
  of.row_sums = number(8);
  of.column_sums = number(9);
  of.row_copies = number(10);
  of.column_copies = number(11);
  return of;
}

}  // namespace

void append_parameters(std::vector<double>& constants, const std::vector<FactoredParameter>& parameters) {
  constants.push_back(-1);
  for (const FactoredParameter& of : parameters)
    for (const std::int64_t number : numbers(of)) constants.push_back(static_cast<double>(number));
}

bool tells_parts(const Instruction& of) {
  const bool is_adafactor = of.phase == Phase::optimizer &&
                            (of.function == Function::adafactor || of.function == Function::sum_squares);
  return is_adafactor && of.constants.size() > update_numbers && of.constants[update_numbers] < 0;
}

std::vector<FactoredParameter> factored_parameters(const Instruction& of) {
  const bool has_parts = tells_parts(of);
  const std::size_t each = has_parts ? numbers(FactoredParameter{}).size() : numbers_of_version_22;
  std::vector<FactoredParameter> parameters;
  for (std::size_t at = update_numbers + (has_parts ? 1 : 0); at + each <= of.constants.size(); at += each)
    parameters.push_back(from(of.constants, at, has_parts));
  return parameters;
}

}  // namespace simrun
