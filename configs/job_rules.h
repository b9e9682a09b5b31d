#pragma once

#include <string>

#include "configs/job.h"
#include "configs/section_reader.h"

namespace simrun {

// Completes the job with what follows from several sections (data parallel size, bucket size, stages) and
// reports every rule between them that does not hold. A value of 0 was refused before and is not reported
// again.
void apply_job_rules(const std::string& layout, Reading& reading, Job& job);

// Of a model with a table of positions those that it has, once they are known; else the schema's longest.
std::int64_t longest_sequence(const Reading& reading, const Job& job);

// Adapters that copies of key-value heads leave no room for; `most`: "tensor parallel of", or whatever else
// is to be at most as many as the heads.
void check_adapters_of_copies(Reading& reading, const Job& job, const char* most);

// The part of it about context parallelism: what must divide, and which attention kernel.
void check_context_parallel(Reading& reading, const Job& job);
// What Mamba-2 and Gated DeltaNet layers ask: groups of heads, or key heads, divide over tensor-parallel
// ranks, and over those that exchange a sequence for heads (a scan needs the whole sequence); documents do
// not lie behind each other in one.
void check_recurrent_layers(Reading& reading, const Job& job);

// The part of it about the pipeline: layout or even split, and Megatron-LM's group rule for interleaving.
void apply_pipeline_rules(const std::string& layout, Reading& reading, Job& job);

// The part of it about a decoder's own sequence, and the sequences of other families than decoders.
void check_decoder_sequence(Reading& reading, const Job& job);

// The part of it about images: feature maps and weights that can be counted.
void check_image_sizes(Reading& reading, const Job& job);
// The part of it about a vision tower before a decoder: its images in the sequence, and what must divide.
void check_vision_tower(Reading& reading, const Job& job);
// What recompute says by virtual stage; the limit of granularity `auto`.
void apply_recompute_rules(Reading& reading, Job& job);
// What packed documents cannot be combined with.
void apply_document_rules(Reading& reading, const Job& job);

// What training in fp8 needs of the GPU, the optimizer and recompute (configs/load_fp8.cpp).
void apply_fp8_rules(Reading& reading, const Job& job);
// Whether fp8, if the job trains in it, lets a recompute module discard what linear layers read. Under
// delayed scaling it does not: Megatron-LM's TransformerConfig, "Delayed scaling does not support moe_act and
// layernorm recompute for fp8".
bool fp8_allows_recompute(const Training& training, const std::string& module);

// Replicas with batches of unlike size: what must add up, and what they cannot be combined with
// (configs/replica_rules.cpp). Sizes that are all equal are dropped: they say nothing.
void apply_replica_rules(Reading& reading, Job& job);

// Pipeline ranks of unlike size (configs/stage_size_rules.cpp): fills in what of the lists is not written,
// and data_parallel_size; lists that say nothing are dropped. False: there are none, the cluster is divided
// equally. Then what they need of the other keys.
bool derive_stage_sizes(Reading& reading, Job& job);
void check_stage_sizes(Reading& reading, const Job& job);

// How data parallelism is cut in two (configs/sharding_rules.cpp).
void apply_sharding_rules(Reading& reading, const Job& job);

// What a parameter server needs of the other keys (configs/parameter_server_rules.cpp).
void apply_parameter_server_rules(Reading& reading, const Job& job);

// What rank_order and rank_map need of the other keys (configs/load_rank_order.cpp).
void check_rank_placement(const Job& job, Reading& reading);

// What the offload section needs of the others (configs/offload_rules.cpp).
void apply_offload_rules(Reading& reading, const Job& job);

}  // namespace simrun
