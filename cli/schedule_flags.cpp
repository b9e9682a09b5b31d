#include "cli/schedule_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/sweep_values.h"
#include "configs/diagnostics.h"
#include "visualizer/evaluated_schedule.h"

namespace simrun {
namespace {

constexpr std::int64_t most_ranks = 4096;
constexpr std::int64_t most_microbatches = 1'000'000;
constexpr std::int64_t most_passes = 8'000'000;   // forwards: (stage, microbatch, slice)
constexpr std::int64_t most_effort = 1'000'000;   // million passes: half a day
constexpr std::int64_t largest_cost = 1'000'000;  // units

class FlagReader {
 public:
  explicit FlagReader(const ScheduleFlags& flags) : flags_(flags) {}

  ScheduleRequest read() {
    request_.schedule = flags_.schedule.value_or("");
    request_.from_file = request_.schedule.ends_with(".csv");
    read_sizes();
    read_costs();
    const bool special = request_.from_file || request_.schedule == "all" || request_.schedule == "auto";
    if (!special && find_schedule(request_.schedule) == nullptr) refuse_name();
    if (errors_.empty()) refuse_too_much();
    if (!errors_.empty()) throw ConfigError(std::move(errors_));
    return request_;
  }

 private:
  void refuse(const std::string& flag, std::string message, std::string hint = "") {
    errors_.push_back({{flag, 0, 0}, std::move(message), std::move(hint)});
  }

  void refuse_name() {
    std::vector<std::string> names = {"all", "auto"};
    std::string listed;
    for (const ScheduleEntry& entry : pipeline_schedules()) {
      names.push_back(entry.name);
      names.insert(names.end(), entry.aliases.begin(), entry.aliases.end());
      listed += (listed.empty() ? "" : ", ") + entry.name;
    }
    const std::string near = closest(request_.schedule, names);
    refuse("--schedule", fmt::format("unknown schedule '{}'", request_.schedule),
           near.empty() ? fmt::format("there are {}; auto searches the best order; all compares them; a path "
                                      "that ends in .csv is read.",
                                      listed)
                        : fmt::format("did you mean '{}'?", near));
  }

  // 0 if it was not given or is wrong.
  int whole(const char* flag, const std::optional<std::string>& word, std::int64_t largest) {
    if (!word) return 0;
    const bool digits =
        !word->empty() && word->size() <= 9 && word->find_first_not_of("0123456789") == std::string::npos;
    const std::int64_t value = digits ? std::stoll(*word) : 0;
    if (value >= 1 && value <= largest) return static_cast<int>(value);
    refuse(flag, fmt::format("'{}' is not a whole number from 1 to {}", *word, largest));
    return 0;
  }

  void read_sizes() {
    PipelineShape& shape = request_.shape;
    shape.ranks = whole("--ranks", flags_.ranks, most_ranks);
    shape.microbatches = whole("--microbatches", flags_.microbatches, most_microbatches);
    shape.virtual_stages = whole("--virtual", flags_.virtual_stages, most_ranks);
    shape.slices = whole("--slices", flags_.slices, most_microbatches);
    shape.group_size = whole("--group-size", flags_.group_size, most_microbatches);
    shape.memory_limit = whole("--memory-limit", flags_.memory_limit, most_passes);
    request_.search_effort =
        std::int64_t{whole("--search-effort", flags_.search_effort, most_effort)} * 1'000'000;
    if (flags_.search_effort && request_.schedule != "auto" && request_.schedule != "all")
      refuse("--search-effort", "only --schedule auto and all search", "leave it out.");
    if (const ScheduleEntry* entry = find_schedule(request_.schedule);
        flags_.group_size && entry != nullptr && !entry->takes_groups)
      refuse("--group-size", fmt::format("{} has no groups of microbatches", entry->name), "leave it out.");
    if (request_.from_file) {
      refuse_beside_file();
      return;
    }
    if (!flags_.ranks) refuse("--ranks", "is needed: the number of pipeline ranks", "--ranks 4");
    if (!flags_.microbatches)
      refuse("--microbatches", "is needed: the microbatches of a step", "--microbatches 8");
  }

  // A file says these itself.
  void refuse_beside_file() {
    const std::map<std::string, bool> given = {{"--ranks", flags_.ranks.has_value()},
                                               {"--microbatches", flags_.microbatches.has_value()},
                                               {"--virtual", flags_.virtual_stages.has_value()},
                                               {"--slices", flags_.slices.has_value()},
                                               {"--group-size", flags_.group_size.has_value()}};
    for (const auto& [flag, is_given] : given)
      if (is_given) refuse(flag, "a schedule from a file has its own sizes", "leave it out.");
  }

  // Ticks of a decimal number of units, or nothing.
  static std::optional<std::int64_t> ticks(const std::string& word) {
    const std::size_t point = std::min(word.find('.'), word.size());
    std::string fraction = point < word.size() ? word.substr(point + 1) : "";
    const std::string whole = word.substr(0, point);
    if (whole.size() > 7 || fraction.size() > 6 || whole.size() + fraction.size() == 0) return std::nullopt;
    fraction.resize(6, '0');
    const std::string digits = whole + fraction;
    if (digits.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
    const std::int64_t value = std::stoll(digits);
    return value <= largest_cost * ticks_per_unit ? std::optional(value) : std::nullopt;
  }

  std::int64_t cost(const char* flag, const std::string& name, const std::string& word) {
    const std::optional<std::int64_t> value = ticks(word);
    if (!value)
      refuse(flag, fmt::format("{}'{}' is not a number from 0 to {} with at most six decimals", name, word,
                               largest_cost));
    return value.value_or(0);
  }

  void read_costs() {
    std::map<std::string, std::int64_t> given;
    for (const std::string& part :
         split_values(flags_.costs.value_or("F=1")).value_or(std::vector<std::string>{""})) {
      const std::size_t equals = std::min(part.find('='), part.size());
      const std::string name = part.substr(0, equals);
      if (equals == part.size() ||
          (name != "F" && name != "B" && name != "I" && name != "W" && name != "FB")) {
        refuse(
            "--costs", fmt::format("'{}' is not one of F=, B=, I=, W= and FB=", part),
            "--costs F=2,I=3,W=1: forward, backward-input, backward-weight; B is I + W unless it is given, "
            "FB, an overlapped pair, is F + B.");
        continue;
      }
      const std::int64_t value = cost("--costs", name + "=", part.substr(equals + 1));
      if (!given.try_emplace(name, value).second) refuse("--costs", fmt::format("{} is given twice", name));
    }
    const auto of = [&](const char* name, std::int64_t otherwise) {
      const auto found = given.find(name);
      return found == given.end() ? otherwise : found->second;
    };
    PassTimes& times = request_.shape.times;
    times.forward = of("F", ticks_per_unit);
    times.backward_input = of("I", ticks_per_unit);
    times.backward_weight = of("W", ticks_per_unit);
    times.backward = of("B", times.backward_input + times.backward_weight);
    times.overlapped = of("FB", times.forward + times.backward);
    if (flags_.communication) times.communication = cost("--comm", "", *flags_.communication);
  }

  // Sizes that would take too long, and costs whose sum would not fit in 64 bits.
  void refuse_too_much() {
    const PipelineShape& shape = request_.shape;
    const std::int64_t per_rank = std::int64_t{std::max(shape.virtual_stages, 2)} * shape.microbatches;
    const std::int64_t passes = per_rank * shape.ranks * std::max(shape.slices, 1);
    if (per_rank > most_passes || passes > most_passes)
      refuse("--schedule", fmt::format("ranks x stages x microbatches x slices is above {}", most_passes));
    const PassTimes& times = shape.times;
    const double each = static_cast<double>(times.forward) + static_cast<double>(times.backward) +
                        static_cast<double>(times.backward_input + times.backward_weight) +
                        static_cast<double>(times.overlapped) + 2 * static_cast<double>(times.communication);
    if (each * static_cast<double>(request_.from_file ? most_passes : passes) > 8e18)
      refuse("--costs", "these costs are too large for so many passes", "choose a larger unit.");
  }

  const ScheduleFlags& flags_;
  ScheduleRequest request_;
  std::vector<Diagnostic> errors_;
};

}  // namespace

ScheduleRequest read_schedule_flags(const ScheduleFlags& flags) { return FlagReader(flags).read(); }

}  // namespace simrun
