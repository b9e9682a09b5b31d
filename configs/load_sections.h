#pragma once

#include "configs/config_node.h"
#include "configs/job.h"
#include "configs/plan_config.h"
#include "configs/presets.h"
#include "configs/section_reader.h"

// One function per section of a job file. Each fills its part of the job and leaves 0 or "" where a value was
// refused; what several sections must agree on is checked by configs/job_rules.h.
namespace simrun {

// The model, and the dropouts that its own config names (training may override them).
void read_model(const ConfigNode* section, const PresetSearch& search, Reading& reading, Job& job);
// After read_model.
void read_training(const ConfigNode* section, Reading& reading, Job& job);
// Returns pipeline_model_parallel_layout as written, or "": only the rules know the number of layers.
std::string read_parallelism(const ConfigNode* section, Reading& reading, Job& job);
// Of that section: the pipeline schedule (a CSV is read, not checked) and the keys that only some schedules
// have.
void read_context_parallel(SectionReader& section, Reading& reading, Parallelism& parallelism);
void read_schedule(SectionReader& section, Reading& reading, Parallelism& parallelism);
void read_rank_order(SectionReader& section, Reading& reading, Parallelism& parallelism);
// Of the training section: precision, and fp8's recipe.
void read_precision(SectionReader& section, Reading& reading, Training& training);
// Of the training section: low-rank adapters. Of the model section: what is frozen; after the family's keys.
void read_lora(SectionReader& section, Reading& reading, Job& job);  // of a job whose model is read
void read_frozen(SectionReader& section, Reading& reading, ModelConfig& model);
// Of the recompute section: counts by virtual stage, and the limit of granularity `auto`.
struct RecomputeKeys {
  SectionReader& section;
  Reading& reading;
  RecomputeConfig& recompute;
};
void read_recomputed_layers(const RecomputeKeys& keys);
// `layers`: those that are recomputed, by number.
void read_named_layers(const RecomputeKeys& keys);
void read_module_layers(const RecomputeKeys& keys);
// `saved`: operators whose outputs are kept. Those of no layer are refused; what the model lacks, its graph
// tells.
void read_saved_operators(const RecomputeKeys& keys);
void read_memory_limit(const RecomputeKeys& keys);
// Of the training section.
void read_documents(SectionReader& section, Reading& reading, Training& training);
// Of the optimizer section, after zero_stage.
// What of `zero_stage` and `zero_3_layers` shards gradients or weights: "zero_stage 3".
std::string sharding_words(const OptimizerConfig& optimizer);
void read_sharding(SectionReader& section, Reading& reading, OptimizerConfig& optimizer);
void read_data_parallel_groups(SectionReader& section, OptimizerConfig& optimizer);
// After the types: how large a bucket is in elements, or in bytes of what is reduced.
void read_bucket_size(SectionReader& section, Reading& reading, OptimizerConfig& optimizer);
void read_parameter_server(SectionReader& optimizer, Reading& reading, OptimizerConfig& config);
// After read_parallelism.
void read_moe(const ConfigNode* section, Reading& reading, Job& job);
void read_optimizer(const ConfigNode* section, Reading& reading, Job& job);
void read_offload(const ConfigNode* section, Reading& reading, Job& job);
// "0-3x2" are two links between GPUs 0 and 3. Nothing of what names no two GPUs.
std::optional<NvlinkPair> parse_nvlinks(const std::string& text);
std::int64_t most_nvlinks(const std::vector<NvlinkPair>& pairs);  // that one GPU has
// Of cluster.intra_node, and cluster.pcie.
// The former returns which part of the GPU's NVLinks the node uses: of their default bandwidth.
double read_intra_wiring(SectionReader& section, Reading& reading, Cluster& cluster);
void read_pcie(const ConfigNode* section, Reading& reading, Cluster& cluster);
void read_fabric(const ConfigNode* section, Reading& reading, Cluster& cluster);
void read_host(const ConfigNode* section, Reading& reading, Cluster& cluster);
// Of cluster.gpu and of cluster: what simrun --calibrate writes.
MeasuredKernels read_measured_kernels(const ConfigNode* section, const std::string& path, Reading& reading);
MeasuredExchanges read_measured_exchanges(const ConfigNode* section, Reading& reading);
// Of cluster, after its links.
void read_collectives(const ConfigNode* section, const PresetSearch& search, Reading& reading,
                      Cluster& cluster);
void read_recompute(const ConfigNode* section, Reading& reading, Job& job);
// One scope of the layout section or of model.frozen; nothing, and a problem noted, if it cannot be read.
std::optional<ScopePattern> read_scope(const ConfigNode& node, Reading& reading);
// The key's list of them; empty if it is not there.
std::vector<ScopePattern> read_scopes(SectionReader& section, Reading& reading, const std::string& key);
// Refuses those that name layers which a model of so many lacks.
void check_scope_layers(const std::vector<ScopePattern>& scopes, std::int64_t model_layers, Reading& reading);
// The layout section: rules over names of dimensions, scopes and axes.
void read_layout(const ConfigNode* section, Reading& reading, Job& job);
// Where the cluster section names a file of `nvidia-smi topo -m`: the keys that follow from it, below those
// that are written.
ConfigNode with_nvidia_smi_topo(ConfigNode cluster, Reading& reading);
void read_cluster(const ConfigNode* section, const PresetSearch& search, Reading& reading, Job& job);
GpuKernels read_gpu_kernels(const ConfigNode* node, const std::string& path, Reading& reading);
FrameworkKernels read_framework_kernels(const ConfigNode* node, Reading& reading);
FrameworkMemory read_framework_memory(const ConfigNode* section, Reading& reading);
void read_framework(const ConfigNode* section, const PresetSearch& search, Reading& reading, Job& job);
// What a search for the best plan keeps to.
void read_plan(const ConfigNode* section, Reading& reading, PlanConfig& plan);
// Letters, digits, _ and -, at most 100: a name that a user gives to an entry of a map.
bool is_entry_name(const std::string& key);
// After read_cluster.
void read_imperfections(const ConfigNode* section, Reading& reading, Job& job);

}  // namespace simrun
