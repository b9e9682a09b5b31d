#include "backend/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <numeric>
#include <set>
#include <sstream>

#include "backend/bucket_views.h"
#include "configs/sha256.h"
#include "schedules/update_operands.h"

namespace simrun {
namespace {

static_assert(std::endian::native == std::endian::little, "values are stored as they are in memory");

constexpr const char* magic = "simrun checkpoint ";
constexpr int format_version = 1;
constexpr std::size_t digest_bytes = 64;

std::string shape_text(const std::vector<std::int64_t>& extents) {
  return extents.empty() ? "1" : fmt::format("{}", fmt::join(extents, " x "));
}

std::int64_t product(const std::vector<std::int64_t>& extents) {
  return std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
}

template <class Element>
void append(std::string& bytes, const std::vector<double>& values) {
  for (const double value : values) {
    const auto element = static_cast<Element>(value);
    bytes.append(reinterpret_cast<const char*>(&element), sizeof element);
  }
}

bool is_known(const ParameterValues::Tensor& tensor) {
  return !tensor.values.empty() &&
         std::find(tensor.known.begin(), tensor.known.end(), false) == tensor.known.end();
}

void append_values(std::string& bytes, const ParameterValues::Tensor& tensor, CheckpointElement element) {
  if (!is_known(tensor)) throw std::logic_error("no rank has told all of '" + tensor.name + "'");
  element == CheckpointElement::f64 ? append<double>(bytes, tensor.values)
                                    : append<float>(bytes, tensor.values);
}

// The parameters that a plan's optimizer updates.
std::set<Index> trained_by(const Plan& plan) {
  const BucketViews buckets(plan);
  std::set<Index> trained;
  for (const Segment& segment : plan.segments)
    for (const Instruction& what : segment.instructions)
      if (what.opcode == Opcode::optimizer)
        for (const Index view : buckets.views(buckets.bucket_of(what.outputs.front())))
          trained.insert(plan.buffers[view].parameter);
  return trained;
}

// Why a tensor of the file is not the one that a plan means.
std::string tensor_mismatch(const Checkpoint::Tensor* found, const ParameterValues::Tensor& wanted,
                            bool trains) {
  if (found == nullptr)
    return fmt::format("is of another model: it has no '{}', which is {} in the job: model", wanted.name,
                       shape_text(wanted.extents));
  // A rank's part may be stored with dimensions as one; the elements and their order are the same.
  if (found->elements != product(wanted.extents))
    return fmt::format("is of another model: '{}' is {} in it and {} in the job: model", wanted.name,
                       shape_text(found->extents), shape_text(wanted.extents));
  if (found->is_trained != trains)
    return fmt::format("holds '{}' as {}, which the job {}: model.frozen", wanted.name,
                       found->is_trained ? "trained" : "frozen", trains ? "trains" : "does not train");
  return "";
}

// The number behind a word at the beginning of a line.
template <class Number>
Number numbered(std::istringstream& header, const char* word) {
  std::string found;
  Number number{};
  if (!(header >> found >> number) || found != word)
    throw CheckpointError(fmt::format("is not in the form of version {}: no '{}'", format_version, word));
  return number;
}

}  // namespace

SavedOptimizer saved_optimizer(const Plan& plan) {
  SavedOptimizer saved;
  for (const Segment& segment : plan.segments)
    for (const Instruction& what : segment.instructions) {
      if (what.opcode != Opcode::optimizer) continue;
      const std::size_t moments = moments_of(what);
      const std::string name = to_string(what.function);
      const bool is_flat = what.function == Function::adam || what.function == Function::sgd;
      if (!is_flat || (!saved.name.empty() && (name != saved.name || moments != saved.moments))) {
        saved.refusal = fmt::format("what {} keeps cannot be saved yet: optimizer.name", name);
        return saved;
      }
      if (std::any_of(what.outputs.begin(), what.outputs.end(),
                      [&](Index output) { return plan.buffers[output].dtype == Dtype::uint8; })) {
        saved.refusal = "moments quantised in blocks cannot be saved yet: optimizer.exp_avg_dtype";
        return saved;
      }
      saved.name = name;
      saved.moments = moments;
    }
  if (saved.name.empty()) saved.refusal = "no rank updates parameters: optimizer";
  return saved;
}

std::string serialize(const TrainingState& state, CheckpointElement element) {
  std::string bytes =
      fmt::format("{}{}\nsteps {}\nseed {}\noptimizer {}\nmoments {}\nelement {}\ntensors {}\n", magic,
                  format_version, state.steps, state.seed, state.optimizer, state.moments.size(),
                  element == CheckpointElement::f64 ? "f64" : "f32", state.weights.tensors().size());
  for (const auto& [id, tensor] : state.weights.tensors())
    bytes += fmt::format("tensor {} {} {} {}\n", tensor.values.empty() ? "frozen" : "trained",
                         tensor.extents.size(), fmt::join(tensor.extents, " "), tensor.name);
  bytes += "\n";
  for (const auto& [id, tensor] : state.weights.tensors()) {
    if (tensor.values.empty()) continue;
    append_values(bytes, tensor, element);
    for (const ParameterValues& moment : state.moments)
      append_values(bytes, moment.tensors().at(id), element);
  }
  return bytes + sha256(bytes);
}

Checkpoint::Checkpoint(std::string bytes) : bytes_(std::move(bytes)) {
  if (!bytes_.starts_with(magic)) throw CheckpointError("is no checkpoint of simrun");
  const std::string version = bytes_.substr(std::strlen(magic), bytes_.find('\n') - std::strlen(magic));
  if (version != std::to_string(format_version))
    throw CheckpointError(
        fmt::format("is of version {}, this simrun reads version {}", version.substr(0, 20), format_version));
  const std::size_t header_end = bytes_.find("\n\n");
  if (header_end == std::string::npos || bytes_.size() < header_end + 2 + digest_bytes ||
      sha256(std::string_view(bytes_).substr(0, bytes_.size() - digest_bytes)) !=
          std::string_view(bytes_).substr(bytes_.size() - digest_bytes))
    throw CheckpointError("is cut short or altered: its checksum is not that of its contents");
  read_header(header_end);
}

void Checkpoint::read_header(std::size_t end) {
  std::istringstream header(bytes_.substr(0, end + 1));
  std::string line;
  std::getline(header, line);
  steps_ = numbered<std::int64_t>(header, "steps");
  seed_ = numbered<std::uint64_t>(header, "seed");
  optimizer_ = numbered<std::string>(header, "optimizer");
  moments_ = numbered<std::size_t>(header, "moments");
  element_bytes_ = numbered<std::string>(header, "element") == "f64" ? sizeof(double) : sizeof(float);
  const auto count = numbered<std::size_t>(header, "tensors");
  std::size_t begin = end + 2;
  for (std::size_t i = 0; i < count; ++i) {
    Tensor tensor;
    tensor.is_trained = numbered<std::string>(header, "tensor") == "trained";
    std::size_t dims = 0;
    header >> dims;
    for (std::size_t d = 0; d < dims && header; ++d) header >> tensor.extents.emplace_back();
    tensor.elements = product(tensor.extents);
    header.ignore(1);
    std::getline(header, tensor.name);
    tensor.begin = begin;
    if (tensor.is_trained)
      begin += static_cast<std::size_t>(tensor.elements) * (1 + moments_) * element_bytes_;
    tensors_.push_back(std::move(tensor));
  }
  if (!header || steps_ < 0 || begin + digest_bytes != bytes_.size())
    throw CheckpointError("does not hold what its header says");
}

std::string Checkpoint::digest() const { return bytes_.substr(bytes_.size() - digest_bytes); }

double Checkpoint::value(const Tensor& tensor, std::size_t kind, std::int64_t whole_index) const {
  const std::int64_t element = static_cast<std::int64_t>(kind) * tensor.elements + whole_index;
  const char* at = bytes_.data() + tensor.begin + static_cast<std::size_t>(element) * element_bytes_;
  if (element_bytes_ == sizeof(double)) {
    double value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  float value = 0;
  std::memcpy(&value, at, sizeof value);
  return static_cast<double>(value);
}

ResumedParameters::ResumedParameters(const Checkpoint& checkpoint, const Plan& plan)
    : checkpoint_(checkpoint) {
  std::map<std::pair<std::string, int>, const Checkpoint::Tensor*> by_name;
  std::map<std::string, int> seen, asked;
  for (const Checkpoint::Tensor& tensor : checkpoint.tensors())
    by_name[{tensor.name, seen[tensor.name]++}] = &tensor;
  const ParameterValues model(plan);
  const std::set<Index> trained = trained_by(plan);
  const SavedOptimizer updates = saved_optimizer(plan);
  if (!updates.refusal.empty()) mismatch_ = "cannot be resumed: " + updates.refusal;
  for (const auto& [id, tensor] : model.tensors()) {
    const auto at = by_name.find({tensor.name, asked[tensor.name]++});
    const Checkpoint::Tensor* found = at == by_name.end() ? nullptr : at->second;
    tensors_[id] = found;
    if (mismatch_.empty()) mismatch_ = tensor_mismatch(found, tensor, trained.count(id) > 0);
  }
  if (mismatch_.empty() && checkpoint.tensors().size() != model.tensors().size())
    mismatch_ = fmt::format("is of another model: it has {} tensors and the job {}: model",
                            checkpoint.tensors().size(), model.tensors().size());
  if (mismatch_.empty() &&
      (updates.name != checkpoint.optimizer() || updates.moments != checkpoint.moments()))
    mismatch_ =
        fmt::format("is of another optimizer: {} with {} moments, the job's is {} with {}: optimizer.name",
                    checkpoint.optimizer(), checkpoint.moments(), updates.name, updates.moments);
}

}  // namespace simrun
