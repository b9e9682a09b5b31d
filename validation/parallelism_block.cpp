#include "validation/parallelism_block.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "validation/link_text.h"
#include "validation/row_cells.h"
#include "validation/stage_layers.h"

namespace simrun {
namespace {

bool says(const std::string& text, const char* word) { return text.find(word) != std::string::npos; }

void write_precision(RowJob& made) {
  const std::string precision = lower_case(made.row[Column::precision]);
  std::string type = precision;
  if (says(precision, "nvfp4"))
    type = "nvfp4";
  else if (says(precision, "fp8"))
    type = "fp8";
  else if (says(precision, "bf16"))
    type = "bf16";
  else if (says(precision, "fp16"))
    type = "fp16";
  if (type == "fp32" && made.facts.contains("fp32_products")) type = made.facts.at("fp32_products");
  made.job.set("training.precision", type);
  if (type != "fp8") return made.job.erase("training.fp8_recipe");
  if (says(precision, "mx")) made.job.set("training.fp8_recipe", "mxfp8");
  if (says(precision, "-cs")) made.job.set("training.fp8_recipe", "tensorwise");
  for (const char* of_blocks : {"block", "subchannel", "sub-channel"})
    if (says(precision, of_blocks)) made.job.set("training.fp8_recipe", "blockwise");
  if (says(precision, "current")) made.job.set("training.fp8_recipe", "tensorwise");
  if (says(precision, "tensorwise")) made.job.set("training.fp8_recipe", "tensorwise");
  if (says(precision, "delayed")) made.job.set("training.fp8_recipe", "delayed");
}

// Whether the number of data-parallel ranks is the row's, or follows from its GPUs and its other parallel
// sizes.
bool is_data_said(const RowJob& made) {
  const auto is_said = [&](const char* name) {
    const std::string start = std::string(name) + "=";
    return std::ranges::none_of(made.assumed,
                                [&](const std::string& what) { return what.starts_with(start); });
  };
  return is_said("dp") || (is_said("n_gpus") && is_said("tp") && is_said("pp") && is_said("cp"));
}

void write_batch(RowJob& made) {
  made.job.set("training.micro_batch_size", made.row[Column::micro_batch]);
  const auto micro = made.row.integer(Column::micro_batch), data = made.row.integer(Column::dp);
  const auto global = made.row.integer(Column::global_batch);
  made.job.set("training.global_batch_size", made.row[Column::global_batch]);
  if (!micro || !data || !global || *micro < 1 || *data < 1) return;
  if (static_cast<double>(*micro) * static_cast<double>(*data) > most_counted) {
    if (made.row.fault.empty())
      made.row.fault =
          fmt::format("micro_batch {} x dp {} are more sequences than can be counted", *micro, *data);
    return;
  }
  if (*global % (*micro * *data) == 0) return;
  const std::int64_t at_once = *micro * *data;
  const std::int64_t whole = std::max<std::int64_t>(1, *global / at_once) * at_once;
  // Half of what is run at once may be how a batch was counted; less is another job.
  const auto is_stated = [&](const char* name, Column column) {
    return std::ranges::find(made.assumed, name + ("=" + made.row[column])) == made.assumed.end();
  };
  if (made.row.fault.empty() && is_data_said(made) && *data > 2 * *global)
    made.row.fault =
        fmt::format("global_batch {} has no sequence for each of {} data-parallel ranks", *global, *data);
  if (is_stated("micro_batch", Column::micro_batch) && is_stated("dp", Column::dp) && whole > 2 * *global &&
      made.row.fault.empty())
    made.row.fault = fmt::format("micro_batch {} x dp {} are {} sequences, and global_batch is {}", *micro,
                                 *data, at_once, *global);
  made.batch_share = static_cast<double>(whole) / static_cast<double>(*global);
  made.assumed.push_back(fmt::format("global_batch {} instead of {}", whole, *global));
  made.job.set("training.global_batch_size", fmt::format("{}", whole));
}

// Hybrid sharding: copies of what each group of data-parallel ranks shards, a node where nothing else is
// said.
void write_sharding_groups(RowJob& made) {
  const auto found = made.facts.find("shard_ranks");
  const std::int64_t ranks = made.row.integer(Column::dp).value_or(1);
  const bool is_in_nodes = says(made.row[Column::zero_stage], "hsdp");
  const std::int64_t usual = is_in_nodes ? made.row.integer(Column::gpus_per_node).value_or(ranks) : ranks;
  const std::int64_t sharing = found == made.facts.end() ? usual : std::atoll(found->second.c_str());
  if (sharing < 1 || sharing >= ranks || ranks % sharing != 0) return;
  made.job.set("optimizer.num_distributed_optimizer_instances", fmt::format("{}", ranks / sharing));
}

void write_sharding(RowJob& made) {
  std::string stage = lower_case(made.row[Column::zero_stage]);
  if (says(stage, "fsdp")) stage = "3";
  if (const auto held = made.facts.find("zero_stage"); held != made.facts.end()) stage = held->second;
  made.job.set("optimizer.zero_stage", stage);
  if (stage != "0") write_sharding_groups(made);
  if (stage == "0") made.job.erase("optimizer.overlap_param_gather");
  if (stage != "3")
    for (const char* key : {"optimizer.reshard_after_forward", "optimizer.reshard_after_backward"})
      made.job.erase(key);
  if (stage != "2" && stage != "3") made.job.erase("optimizer.no_sync");
}

// So many of the layers of every virtual stage, as the fact `recomputed_layers` says ("1/2").
void recompute_some_layers(RowJob& made, const std::string& share) {
  const auto layers = made.row.integer(Column::layers);
  const std::size_t slash = share.find('/');
  if (!layers || slash == std::string::npos) return;
  const std::int64_t part = std::atoll(share.c_str()), of = std::atoll(share.c_str() + slash + 1);
  const std::int64_t stages = std::max<std::int64_t>(made.row.integer(Column::pp).value_or(1), 1) *
                              std::max<std::int64_t>(made.row.integer(Column::vpp).value_or(1), 1);
  if (of < 1 || *layers / stages < 1) return;
  made.job.set("recompute.granularity", "full");
  made.job.set("recompute.method", "block");
  made.job.set("recompute.num_layers",
               fmt::format("{}", std::max<std::int64_t>(1, *layers / stages * part / of)));
}

void write_recompute(RowJob& made) {
  const std::string recompute = lower_case(made.row[Column::recompute]);
  if (!made.job.has("recompute.granularity")) made.job.set("recompute.granularity", recompute);
  const auto some = made.facts.find("recomputed_layers");
  if (some != made.facts.end() && recompute == "selective") recompute_some_layers(made, some->second);
  const std::string granularity = made.job.value("recompute.granularity");
  if (granularity != "selective") made.job.erase("recompute.saved");
  if (granularity != "selective" || made.job.has("recompute.saved"))
    for (const char* key : {"recompute.modules", "recompute.module_layers"}) made.job.erase(key);
  if (granularity != "full")
    for (const char* key : {"recompute.method", "recompute.num_layers"}) made.job.erase(key);
}

// The row's word for a schedule (validation/cell_words.h) in the loader's.
std::string schedule_named(const std::string& word, std::int64_t chunks) {
  if (word == "1f1b" || word == "interleaved-1f1b") return chunks > 1 ? "interleaved_1f1b" : "1f1b";
  return word;
}

// Layers of each virtual stage, in model order.
std::vector<std::int64_t> uneven_stages(std::int64_t layers, std::int64_t stages) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(stages), layers / stages);
  if ((layers + 2) % stages == 0) {
    std::ranges::fill(counts, (layers + 2) / stages);
    --counts.front();
    --counts.back();
    return counts;
  }
  const std::int64_t most = (layers + stages - 1) / stages;
  if (most * (stages - 1) < layers) {
    std::ranges::fill(counts, most);
    counts.back() = layers - most * (stages - 1);
  } else {
    for (std::int64_t s = 0; s < layers % stages; ++s) ++counts[static_cast<std::size_t>(s)];
  }
  return counts;
}

std::string layout_text(const std::vector<std::int64_t>& counts, const std::string& mtp_layers) {
  std::string layout = "E";
  for (std::size_t s = 0; s < counts.size(); ++s)
    layout += fmt::format("{}{}", s == 0 ? "" : "|", counts[s] == 0 ? "" : fmt::format("t*{}", counts[s]));
  if (!mtp_layers.empty() && mtp_layers != "0") layout += "m*" + mtp_layers;
  return "\"" + layout + "L\"";
}

// Of rows whose fact `stages` is by_operator, where layers are too few: stages of attention or MLP alone.
bool cut_layers(RowJob& made, std::int64_t layers, std::int64_t stages) {
  const auto kind = made.facts.find("stages");
  const auto hidden = made.row.integer(Column::hidden), ffn = made.row.integer(Column::ffn_hidden);
  const auto vocab = made.row.integer(Column::vocab), sequence = made.row.integer(Column::seq_len);
  if (kind == made.facts.end() || kind->second != "by_operator" || stages > 2 * layers ||
      !made.row[Column::n_experts].empty() || !made.job.has("model.num_layers") || !hidden || !ffn ||
      !vocab || !sequence)
    return false;
  const auto h = static_cast<double>(*hidden);
  const std::vector<std::int64_t> counts =
      sublayers_by_cost(layers, stages,
                        {4 * h * h + 2 * static_cast<double>(*sequence) * h,
                         2 * h * static_cast<double>(*ffn), static_cast<double>(*vocab) * h});
  std::string pattern;
  for (std::int64_t layer = 0; layer < layers; ++layer) pattern += "*-";
  made.job.set("model.num_layers", fmt::format("{}", 2 * layers));
  made.job.set("model.hybrid_override_pattern", fmt::format("\"{}\"", pattern));
  made.job.set("parallelism.pipeline_model_parallel_layout", layout_text(counts, ""));
  if (made.job.value("recompute.granularity") == "full") {  // a stage is computed again as a whole
    made.job.set("recompute.method", "uniform");
    made.job.set("recompute.num_layers", fmt::format("{}", std::ranges::max(counts)));
  }
  made.assumed.push_back(
      fmt::format("{} layers on {} stages, cut between attention and MLP", layers, stages));
  return true;
}

void write_stages(RowJob& made) {
  const auto layers = made.row.integer(Column::layers), ranks = made.row.integer(Column::pp);
  const std::int64_t chunks = std::max<std::int64_t>(made.row.integer(Column::vpp).value_or(1), 1);
  if (!layers || !ranks || *ranks < 2 || *layers < 1 ||
      made.job.has("parallelism.pipeline_model_parallel_layout"))
    return;
  if (const auto layout = made.facts.find("stage_layout"); layout != made.facts.end())
    return made.job.set("parallelism.pipeline_model_parallel_layout", fmt::format("\"{}\"", layout->second));
  const std::int64_t stages = *ranks * chunks;
  if (stages > 4096) return;
  if (*layers < stages && cut_layers(made, *layers, stages)) return;
  const std::vector<std::int64_t> named = named_stage_layers(made, *layers, stages);
  if (!named.empty())
    return made.job.set("parallelism.pipeline_model_parallel_layout",
                        layout_text(named, made.job.value("model.num_nextn_predict_layers")));
  if (*layers % stages == 0 || *layers < stages - 2) return;
  made.job.set("parallelism.pipeline_model_parallel_layout",
               layout_text(uneven_stages(*layers, stages), made.job.value("model.num_nextn_predict_layers")));
  made.assumed.push_back(fmt::format("{} layers on {} stages", *layers, stages));
}

// Experts of a rank: where tensor x expert parallelism has more ranks than a stage, experts are not split by
// tensor.
void write_experts(RowJob& made) {
  const auto size = [&](Column column) {
    return std::max<std::int64_t>(made.row.integer(column).value_or(1), 1);
  };
  if (!made.row[Column::ep].empty())
    made.job.set("parallelism.expert_model_parallel_size", made.row[Column::ep]);
  if (made.job.has("parallelism.expert_tensor_parallel_size")) return;
  const std::int64_t ranks = size(Column::tp) * size(Column::cp) * size(Column::dp);
  const bool divides = ranks % (size(Column::ep) * size(Column::tp)) == 0;
  if (!divides) made.job.set("parallelism.expert_tensor_parallel_size", "1");
  if (size(Column::tp) > 1)
    made.assumed.push_back(fmt::format("expert tensor parallel {}", divides ? size(Column::tp) : 1));
}

}  // namespace

void write_training(RowJob& made) {
  if (!made.row[Column::seq_len].empty()) made.job.set("training.seq_length", made.row[Column::seq_len]);
  write_batch(made);
  write_precision(made);
  if (made.row[Column::flash_attention] == "0") made.job.set_if_absent("training.attention", "unfused");
  write_sharding(made);
  write_recompute(made);
}

void write_parallelism(RowJob& made) {
  const auto set = [&](const char* key, Column column) {
    if (!made.row[column].empty()) made.job.set(std::string("parallelism.") + key, made.row[column]);
  };
  set("tensor_model_parallel_size", Column::tp);
  set("context_parallel_size", Column::cp);
  set("pipeline_model_parallel_size", Column::pp);
  const bool has_experts =
      !made.row[Column::n_experts].empty() || made.row.integer(Column::ep).value_or(1) > 1;
  if (has_experts) write_experts(made);
  if (!has_experts) made.job.erase("parallelism.expert_tensor_parallel_size");
  const bool is_pipeline = made.row.integer(Column::pp).value_or(1) > 1;
  const std::int64_t chunks = is_pipeline ? made.row.integer(Column::vpp).value_or(1) : 1;
  if (is_pipeline) {
    set("virtual_pipeline_model_parallel_size", Column::vpp);
    made.job.set_if_absent("parallelism.pipeline_schedule",
                           schedule_named(made.row[Column::schedule], chunks));
    write_stages(made);
  }
  if (made.row[Column::sp] == "1")
    made.job.set("parallelism.sequence_parallel", "true");
  else if (made.row.integer(Column::tp).value_or(1) > 1)
    made.job.erase("moe.token_dispatcher");  // DeepEP sends a token from one rank, here all have it
}

}  // namespace simrun
