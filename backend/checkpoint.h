#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "backend/parameter_values.h"
#include "schedules/plan.h"

// What a training run needs to go on from where another has ended: the values of the unsharded model's
// parameters, the optimizer's moments and the number of steps. Nothing in it depends on a layout: a run of
// any layout of the same model reads the slices that its ranks hold.
//
// The file: lines of text ("simrun checkpoint 1", steps, seed, optimizer, element type, one line per tensor),
// an empty line, the values of each trained tensor in turn (its weights, then its moments; whole, row-major,
// little-endian f32 or f64), and the SHA-256 of all that in 64 hex digits.
namespace simrun {

struct TrainingState {
  std::int64_t steps = 0;  // done
  std::uint64_t seed = 0;  // of initial values, data and dropout
  std::string optimizer;   // function of the plan's updates: adam, sgd
  ParameterValues weights;
  std::vector<ParameterValues> moments;  // as the optimizer has them: exp_avg, exp_avg_sq
};

// The update rule of a plan, or why what it keeps cannot be saved, with the config key.
struct SavedOptimizer {
  std::string name;
  std::size_t moments = 0;
  std::string refusal;
};
SavedOptimizer saved_optimizer(const Plan& plan);

enum class CheckpointElement : std::uint8_t { f32, f64 };

// The file's bytes. Throws std::logic_error if a trained tensor is not known as a whole.
std::string serialize(const TrainingState& state, CheckpointElement element);

// Why a file cannot be gone on from: a clause about the file ("is cut short or altered").
class CheckpointError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A file in memory, checked: ranks may read it at the same time.
class Checkpoint {
 public:
  struct Tensor {
    std::string name;
    bool is_trained = false;  // else no values: those that the seed draws
    std::vector<std::int64_t> extents;
    std::int64_t elements = 1;
    std::size_t begin = 0;  // of its values in the file
  };

  explicit Checkpoint(std::string bytes);  // throws CheckpointError

  std::int64_t steps() const { return steps_; }
  std::uint64_t seed() const { return seed_; }
  const std::string& optimizer() const { return optimizer_; }
  std::size_t moments() const { return moments_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }  // as the forward pass reads them
  std::string digest() const;                                      // of all that is in it

  // Of one element of a trained tensor, row-major without padding: kind 0: its weight, k: its k-th moment.
  double value(const Tensor& tensor, std::size_t kind, std::int64_t whole_index) const;

 private:
  void read_header(std::size_t end);

  std::string bytes_;
  std::int64_t steps_ = 0;
  std::uint64_t seed_ = 0;
  std::string optimizer_;
  std::size_t moments_ = 0;
  std::size_t element_bytes_ = 8;
  std::vector<Tensor> tensors_;
};

// The tensors of a checkpoint by the parameters of a plan. Ids differ between layouts, names do not; of
// several of one name the n-th is the n-th.
class ResumedParameters {
 public:
  ResumedParameters(const Checkpoint& checkpoint, const Plan& plan);

  // Why the plan cannot go on from it: another model, another optimizer, other frozen parameters; "": it can.
  const std::string& mismatch() const { return mismatch_; }
  std::int64_t steps() const { return checkpoint_.steps(); }
  bool is_trained(Index parameter) const { return tensors_.at(parameter)->is_trained; }
  double value(Index parameter, std::size_t kind, std::int64_t whole_index) const {
    return checkpoint_.value(*tensors_.at(parameter), kind, whole_index);
  }

 private:
  const Checkpoint& checkpoint_;
  std::map<Index, const Checkpoint::Tensor*> tensors_;
  std::string mismatch_;
};

}  // namespace simrun
