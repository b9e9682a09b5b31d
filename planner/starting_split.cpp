#include "planner/starting_split.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "configs/diagnostics.h"
#include "configs/pipeline_layout.h"
#include "configs/text_file.h"
#include "schedules/plan_file.h"

namespace simrun {
namespace {

constexpr std::string_view micro_batch = "training.micro_batch_size";
constexpr std::string_view pipeline = "parallelism.pipeline_model_parallel_size";
constexpr std::string_view tensor = "parallelism.tensor_model_parallel_size";
constexpr std::string_view context = "parallelism.context_parallel_size";
constexpr std::string_view zero_stage = "optimizer.zero_stage";
constexpr std::string_view sharded_layers = "optimizer.zero_3_layers";
constexpr std::string_view overlapped_reduce = "optimizer.overlap_grad_reduce";
constexpr std::string_view overlapped_gather = "optimizer.overlap_param_gather";
constexpr std::string_view layout = "parallelism.pipeline_model_parallel_layout";
// 2^5 x 3^2 x 5 x 7 x 11 x 13, 2^12 x 3 x 5 x 7, 2^16 x 3 x 5, 2^6 x 17 x 19 x 23 and 2^6 x 3^3 x 5^2 x 7:
// over most numbers of data-parallel ranks, and activations of such steps can still be counted.
constexpr std::array divisible_batches = {1441440, 430080, 983040, 475456, 302400};
constexpr std::string_view batch = "training.global_batch_size";
using Sizes = std::vector<std::int64_t>;
// Of clusters of any size: with the factors of usual numbers of GPUs per node.
const Sizes usual_pipelines = {1, 2, 4, 8, 16, 32, 64, 3, 6, 12, 24, 48, 5, 10, 20, 40, 7, 14, 28, 56};
const Sizes usual_tensors = {1, 2, 4, 8, 3, 6, 5, 7};
constexpr std::int64_t most_tensor_ranks = 16;  // of unusual sizes
// For few sequences where layers do not split evenly: the search gives each stage its layers, the loader does
// not.
const Sizes usual_contexts = {1, 2, 4, 8, 16};

bool is_written(const ConfigNode& root, const LoadOptions& load, std::string_view path) {
  const auto names_it = [&](const Override& over) {
    return over.key == path || path.starts_with(over.key + ".");
  };
  if (std::ranges::any_of(load.overrides, names_it)) return true;
  const std::size_t dot = path.find('.');
  const ConfigNode* section = root.find(path.substr(0, dot));
  return section != nullptr && section->find(path.substr(dot + 1)) != nullptr;
}

std::size_t problems_of(const std::string& text, const std::string& file, const LoadOptions& load) {
  try {
    load_job_text(text, file, load);
    return 0;
  } catch (const ConfigError& error) {
    return error.diagnostics().size();
  }
}

// Gathers of parameters that overlap are a sharded optimizer's, whose stage is left open.
bool asks_for_sharding(const ConfigNode& root, const LoadOptions& load) {
  if (is_written(root, load, "optimizer.parameter_server"))
    return false;  // what the servers keep is not divided
  if (is_written(root, load, zero_stage) || is_written(root, load, sharded_layers)) return false;
  for (auto over = load.overrides.rbegin(); over != load.overrides.rend(); ++over)
    if (over->key == overlapped_gather) return over->value == "true";
  const ConfigNode* optimizer = root.find("optimizer");
  const ConfigNode* written = optimizer == nullptr ? nullptr : optimizer->find("overlap_param_gather");
  return written != nullptr && written->text == "true";
}

// Where the search is free, else one value that stands for what is written.
std::span<const std::int64_t> sizes(bool is_free, const Sizes& all) {
  return std::span(all).first(is_free ? all.size() : 1);
}

// Those that divide the GPUs: the usual ones, then all others up to `most`.
Sizes dividing(std::int64_t gpus, const Sizes& usual, std::int64_t most) {
  Sizes found;
  std::ranges::copy_if(usual, std::back_inserter(found), [&](std::int64_t of) { return gpus % of == 0; });
  for (std::int64_t of = 2; of <= std::min(gpus, most); ++of)
    if (gpus % of == 0 && std::ranges::find(usual, of) == usual.end()) found.push_back(of);
  return found;
}

Override size_of(std::string_view key, std::int64_t size) { return {std::string(key), std::to_string(size)}; }

// As even as layers allow, the first stages one more.
std::string uneven_layout(const Job& job, std::int64_t stages) {
  std::vector<StageContent> contents(static_cast<std::size_t>(stages));
  for (std::int64_t s = 0; s < stages; ++s)
    contents[static_cast<std::size_t>(s)].layers =
        job.model.num_layers / stages + (s < job.model.num_layers % stages ? 1 : 0);
  contents.front().embedding = contents.back().loss = true;
  for (const StageContent& stage : job.parallelism.stages) contents.back().mtp_layers += stage.mtp_layers;
  return pipeline_layout_text(contents);
}

// The job with a batch that divides.
std::optional<Job> with_any_batch(const std::string& text, const std::string& file,
                                  const LoadOptions& whole) {
  for (const int sequences : divisible_batches) try {
      LoadOptions divided = whole;
      divided.overrides.push_back(size_of(batch, sequences));
      return load_job_text(text, file, divided).job;
    } catch (const ConfigError&) {
      continue;  // what else is wrong is told without this batch
    }
  return std::nullopt;
}

struct JobText {
  const std::string &text, &file;
  const LoadOptions& load;
};

// What is tried: the usual sizes, or those that divide the GPUs, where these are known.
struct TriedSizes {
  Sizes contexts = usual_contexts, pipelines = usual_pipelines, tensors = usual_tensors;
  std::int64_t gpus = 0;  // 0: not known
  bool may_split(std::int64_t ranks) const { return gpus == 0 || gpus % ranks == 0; }
};
TriedSizes sizes_for(const std::optional<Job>& job) {
  if (!job) return {};
  const std::int64_t gpus = job->world_size() - job->server_gpus();
  return {dividing(gpus, usual_contexts, 0), dividing(gpus, usual_pipelines, job->model.num_layers),
          dividing(gpus, usual_tensors, most_tensor_ranks), gpus};
}

// For a batch that divides over none but pipelines into which the layers do not: stages of unlike length, as
// the search makes them. What else is open is in the text's options; `any`: the job with another batch.
std::optional<LoadOptions> with_uneven_stages(const JobText& text, const Job& any, bool cuts_tensors) {
  const TriedSizes tried = sizes_for(any);
  for (const std::int64_t stages : tried.pipelines)
    for (const std::int64_t parts : sizes(cuts_tensors, tried.tensors)) {
      if (stages > any.model.num_layers || any.model.num_layers % stages == 0) continue;
      if (!tried.may_split(stages * parts)) continue;
      LoadOptions split = text.load;
      split.overrides.push_back(size_of(pipeline, stages));
      split.overrides.push_back({std::string(layout), uneven_layout(any, stages)});
      if (parts > 1) split.overrides.push_back(size_of(tensor, parts));
      if (problems_of(text.text, text.file, split) == 0) return split;
    }
  return std::nullopt;
}

// Which sizes may be tried; the others are as written.
struct Freedom {
  bool layers, tensors, sequences;
  bool overrules = false;  // what is written, where that is 1 as well
};

struct Start {
  LoadOptions load;
  std::size_t problems = std::numeric_limits<std::size_t>::max();
};

// The first of the sizes with which the job loads, else those with the fewest problems.
Start first_that_loads(const JobText& job, const Freedom& free, const TriedSizes& tried) {
  Start best{job.load};
  const auto offer = [&](std::int64_t pieces, std::int64_t stages, std::int64_t parts) {
    if (!tried.may_split(pieces * stages * parts)) return;
    LoadOptions split = job.load;
    if (pieces > 1 || free.overrules) split.overrides.push_back(size_of(context, pieces));
    if (stages > 1 || free.overrules) split.overrides.push_back(size_of(pipeline, stages));
    if (parts > 1 || free.overrules) split.overrides.push_back(size_of(tensor, parts));
    const std::size_t problems = problems_of(job.text, job.file, split);
    if (problems < best.problems) best = {split, problems};
  };
  for (const std::int64_t pieces : sizes(free.sequences, tried.contexts))
    for (const std::int64_t stages : sizes(free.layers, tried.pipelines))
      for (const std::int64_t parts : sizes(free.tensors, tried.tensors))
        if (best.problems > 0) offer(pieces, stages, parts);
  return best;
}

}  // namespace

LoadOptions with_starting_split(const std::string& path, const LoadOptions& load, WrittenSizes written) {
  if (is_plan_file(path)) return load;
  const TextFile file = read_text_file(path);
  return file.text ? with_starting_split(*file.text, path, load, written) : load;
}

LoadOptions with_starting_split(const std::string& text, const std::string& file, const LoadOptions& load,
                                WrittenSizes written) {
  std::vector<Diagnostic> problems;
  const ConfigNode root = read_yaml(text, file, problems);
  if (!problems.empty() || root.kind != ConfigNode::Kind::map) return load;
  LoadOptions whole = load;
  if (!is_written(root, load, micro_batch)) whole.overrides.push_back({std::string(micro_batch), "1"});
  if (asks_for_sharding(root, load)) {
    whole.overrides.push_back({std::string(zero_stage), "1"});
    if (!is_written(root, load, overlapped_reduce))
      whole.overrides.push_back({std::string(overlapped_reduce), "true"});
  }
  const bool cuts_layers = !is_written(root, load, pipeline), cuts_tensors = !is_written(root, load, tensor),
             cuts_sequences = !is_written(root, load, context);
  if (problems_of(text, file, whole) == 0) return whole;
  const std::optional<Job> any_batch = with_any_batch(text, file, whole);
  const TriedSizes tried = sizes_for(any_batch);
  const Start kept =
      first_that_loads({text, file, whole}, {cuts_layers, cuts_tensors, cuts_sequences}, tried);
  if (kept.problems == 0) return kept.load;
  if (any_batch && cuts_layers && !is_written(root, load, layout))
    if (const auto uneven = with_uneven_stages({text, file, whole}, *any_batch, cuts_tensors)) return *uneven;
  if (written == WrittenSizes::stay) return kept.load;
  whole.overrides.push_back({std::string(micro_batch), "1"});
  const Start any = first_that_loads({text, file, whole}, {true, true, true, true}, tried);
  return any.problems == 0 ? any.load : kept.load;
}

}  // namespace simrun
