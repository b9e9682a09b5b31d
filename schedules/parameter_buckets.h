#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "configs/offload_config.h"
#include "configs/training_config.h"
#include "schedules/chunk_code.h"
#include "schedules/offloaded_state.h"
#include "schedules/parameter_matrices.h"
#include "schedules/parameter_server.h"
#include "schedules/plan.h"

namespace simrun {

// Parameters of one chunk whose gradients are summed over the same ranks, laid out one behind the other in
// flat buffers, as Megatron-LM's ParamAndGradBuffer does: weights, main gradients, and the optimizer's state.
// A rank owns a 1/dp shard of the state under ZeRO-1, of the gradients too under ZeRO-2, and of the weights
// too under ZeRO-3 (Rajbhandari et al. 2020, section 5; PyTorch's FSDP2 with one unit per layer). What it
// does not own lives only while a pass needs it.
struct ParameterBucket {
  std::vector<std::size_t>
      members;  // indices into ChunkCode::parameters, in the order in which backward completes them
  // Ranks over which its gradients are still to be summed, outermost axis first: those that had other tokens
  // of the batch and share the optimizer's work under ZeRO (dp and cp; of experts whatever splits their
  // tokens, edp), and those that had other parts of a sequence (tp).
  std::vector<AxisId> data_axes, tensor_axes;
  // The data axes in two: shards lie over the first, and the second joins ranks that have equal shards
  // (hybrid sharding). A hierarchical all-reduce scatters over the first, sums over the second.
  std::vector<AxisId> shard_axes, replica_axes;
  std::int64_t shards = 1;
  bool tied = false;          // shared by the first and last stage: summed over both
  bool frozen = false;        // weights only: neither gradients nor optimizer state
  std::int64_t elements = 0;  // with padding to a multiple of lcm(dp, 128) when sharded
  std::int64_t unpadded = 0;
  std::size_t complete_after = 0;  // index of the backward step after which all its gradients are written
  // Plan buffers; no_index where the precision or ZeRO stage has none.
  Index weights = no_index, gradients = no_index;
  // Views; the whole bucket when not sharded; buffers of their own where the whole is not kept.
  Index weight_shard = no_index, gradient_shard = no_index;
  Index piece = no_index;    // what a hierarchical all-reduce scatters: a view
  Index reduced = no_index;  // ZeRO-2, 3 without no_sync: this microbatch's shard of the gradients
  int zero_stage = 0;
  std::int32_t layer = -1;   // ZeRO-3: of all its parameters; -1: they are outside the layers
  bool keeps_shard = false;  // ZeRO-2, 3: of the gradients a rank keeps its shard only
  Index main_weights = no_index, exp_avg = no_index, exp_avg_sq = no_index;
  std::vector<Index> more_state;          // of the optimizer, read and written with it
  std::vector<ParameterMatrix> matrices;  // of the members, where the optimizer treats matrices as such
  bool orthogonalised = false;            // hidden matrices under Muon
  bool written_early = false;             // BucketRules::written_early
  std::optional<Dtype> narrow;            // fp8 or fp4, of the weights themselves
  std::int32_t scale_block = 0;           // of which so many share a scale (0: none)
  // Gradients in the type in which they are reduced, if that is another: the whole, and (ZeRO-1) the shard.
  Index compressed = no_index, compressed_shard = no_index;
  OffloadedState offloaded;
  // Where part of the state is offloaded: views of the rest of the shards, which the GPU updates.
  Index kept_gradients = no_index, kept_weights = no_index;
  // Parameter servers with a delay: weights pulled and gradients pushed while the passes run.
  Index incoming = no_index, outgoing = no_index;
  // Where the weight shard is outside the GPU: the shard on its way there, and from NVMe through the host.
  Index staged_weights = no_index, host_weights = no_index;
};

struct BucketRules {
  const DeviceMesh& mesh;
  std::vector<AxisId> replica_axes = {};  // of which dp is cut off
  bool hierarchical = false;              // all-reduce
  ServerRules servers = {};               // whose parts of a bucket are its shards
  // How long a gathered bucket of weights, or one of unsharded gradients, may live under ZeRO-3 and 2.
  Scope gathered = Scope::pass;
  bool reduces_once = false;  // gradients add up unsharded over a step
  // By parameter: a divided backward pass writes some of its gradient with those of activations (a norm's).
  // Whole gradients that live from there until they are reduced have buckets of their own under ZeRO-2 and 3:
  // those of products live within the pass that writes them. Under ZeRO-3 such a layer is two units. Empty:
  // no pass is divided.
  std::vector<bool> written_early = {};
  Offload offload = {};
  std::int64_t bucket_size = 0;  // elements at which a bucket is closed
  // Pipeline ranks that hold a copy of the stage each and divide the optimizer's work, ascending; none where
  // one holds it.
  std::vector<std::int32_t> copy_ranks = {};
  TensorId tied_tensor = no_index;             // word embeddings held by the first and last stage
  std::size_t elsewhere = no_index;            // index of a parameter that is in another chunk's bucket
  OptimizerConfig optimizer = {};              // rule and types of what is kept
  std::vector<ParameterMatrix> matrices = {};  // by parameter; empty: the optimizer has no use for them
};

// Groups the parameters of a chunk, in reverse order of use.
std::vector<ParameterBucket> make_buckets(const ChunkCode& code,
                                          const std::vector<std::int64_t>& local_elements,
                                          const BucketRules& rules);

// Adds a bucket's flat buffers to the plan, named "stage 3 bucket 0 ...".
void add_bucket_buffers(Plan& plan, ParameterBucket& bucket, const std::string& name, Dtype precision,
                        const BucketRules& rules);

}  // namespace simrun
