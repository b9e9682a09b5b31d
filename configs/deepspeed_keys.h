#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "configs/config_node.h"

// Keys of DeepSpeed's configuration that an import knows, but for those that it reads one by one.
namespace simrun {

// Keys that change no step's time and no memory, or only how DeepSpeed goes about it.
inline constexpr std::string_view irrelevant_keys[] = {"aio",
                                                       "autotuning",
                                                       "checkpoint",
                                                       "comms_logger",
                                                       "csv_monitor",
                                                       "dataloader_drop_last",
                                                       "disable_allgather",
                                                       "dump_state",
                                                       "elasticity",
                                                       "flops_profiler",
                                                       "gradient_predivide_factor",
                                                       "hybrid_engine",
                                                       "memory_breakdown",
                                                       "nebula",
                                                       "pipeline",
                                                       "prescale_gradients",
                                                       "scheduler",
                                                       "seq_parallel_communication_data_type",
                                                       "sparse_gradients",
                                                       "steps_per_print",
                                                       "tensorboard",
                                                       "timers",
                                                       "use_data_before_expert_parallel_",
                                                       "wall_clock_breakdown",
                                                       "wandb",
                                                       "zero_allow_untested_optimizer",
                                                       "zero_force_ds_cpu_optimizer"};
inline constexpr std::string_view irrelevant_zero_keys[] = {"allgather_bucket_size",
                                                            "allgather_partitions",
                                                            "contiguous_gradients",
                                                            "cpu_offload_use_pin_memory",
                                                            "elastic_checkpoint",
                                                            "ignore_unused_parameters",
                                                            "legacy_stage1",
                                                            "load_from_fp32_weights",
                                                            "log_trace_cache_warnings",
                                                            "memory_efficient_linear",
                                                            "module_granularity_threshold",
                                                            "override_module_apply",
                                                            "param_persistence_threshold",
                                                            "pipeline_loading_checkpoint",
                                                            "prefetch_bucket_size",
                                                            "reduce_scatter",
                                                            "round_robin_gradients",
                                                            "stage3_gather_16bit_weights_on_model_save",
                                                            "stage3_gather_fp16_weights_on_model_save",
                                                            "stage3_max_live_parameters",
                                                            "stage3_max_reuse_distance",
                                                            "stage3_model_persistence_threshold",
                                                            "stage3_param_persistence_threshold",
                                                            "stage3_prefetch_bucket_size",
                                                            "sub_group_size",
                                                            "use_all_reduce_for_fetch_params",
                                                            "use_multi_rank_bucket_allreduce"};

inline constexpr std::string_view offload_keys[] = {"device", "ratio"};
inline constexpr std::string_view irrelevant_offload_keys[] = {
    "buffer_count", "buffer_size", "fast_init",     "max_in_cpu",    "nvme_path",
    "pin_memory",   "pipeline",    "pipeline_read", "pipeline_write"};
inline constexpr std::string_view irrelevant_checkpointing_keys[] = {
    "contiguous_memory_optimization", "number_checkpoints", "profile", "synchronize_checkpoint_boundary"};
inline constexpr std::string_view update_keys[] = {"lr", "eps", "weight_decay", "momentum", "betas"};
inline constexpr std::string_view irrelevant_update_keys[] = {"adam_w_mode", "amsgrad", "bias_correction",
                                                              "torch_adam"};

// Refuses the keys of a map that are not among `names`.
void refuse_unknown_keys(const ConfigNode& map, const std::vector<std::string>& names,
                         std::vector<Diagnostic>& problems);

}  // namespace simrun
