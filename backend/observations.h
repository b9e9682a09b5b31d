#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "backend/parameter_values.h"
#include "schedules/recorded_rows.h"

namespace simrun {

// What the ranks of one run tell, put together. Ranks may tell at the same time.
class Observations {
 public:
  Observations(const Plan& plan, int steps)
      : gradients_(plan), parameters_(plan), loss_(static_cast<std::size_t>(steps)) {}

  void add_loss(std::int64_t step, double share) {
    const std::lock_guard lock(mutex_);
    loss_parts_.emplace_back(step, share);
  }
  void add_rows(const RoutedRows& rows) {
    const std::lock_guard lock(mutex_);
    rows_.of_first_step.insert(rows.of_first_step.begin(), rows.of_first_step.end());
    rows_.of_further_steps.insert(rows.of_further_steps.begin(), rows.of_further_steps.end());
  }
  template <typename Record>
  void with_gradients(Record record) {
    const std::lock_guard lock(mutex_);
    record(gradients_);
  }
  template <typename Record>
  void with_parameters(Record record) {
    const std::lock_guard lock(mutex_);
    record(parameters_);
  }

  // Before any rank begins: so many moments of the optimizer are told, too.
  void keep_moments(const Plan& plan, std::size_t count) { moments_.assign(count, ParameterValues(plan)); }
  std::size_t kept_moments() const { return moments_.size(); }
  template <typename Record>
  void with_moment(std::size_t moment, Record record) {
    const std::lock_guard lock(mutex_);
    record(moments_.at(moment));
  }

  // When all ranks of this process have ended: what they told, for another, and what those of another told.
  std::vector<std::byte> to_bytes() const;
  void merge(const std::vector<std::byte>& bytes);

  // When all ranks have ended.
  ParameterValues take_gradients() { return std::move(gradients_); }           // of the first step, as summed
  ParameterValues take_parameters() { return std::move(parameters_); }         // behind the last step
  std::vector<ParameterValues> take_moments() { return std::move(moments_); }  // of the optimizer, then too
  std::vector<double> loss() const;                                            // by step
  RoutedRows take_rows() { return std::move(rows_); }

 private:
  std::mutex mutex_;
  ParameterValues gradients_, parameters_;
  std::vector<ParameterValues> moments_;
  std::vector<double> loss_;
  std::vector<std::pair<std::int64_t, double>> loss_parts_;
  RoutedRows rows_;
};

}  // namespace simrun
