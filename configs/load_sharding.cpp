// Of the optimizer section: how long ZeRO-2 and 3 keep what they gather, and when they reduce.
#include <fmt/format.h>

#include <algorithm>

#include "configs/limits.h"
#include "configs/load_sections.h"

namespace simrun {
namespace {

// Of a key that only some stages have: read where it applies or is written, else not recorded.
bool applied_boolean(SectionReader& section, const std::string& key, bool applies, bool fallback) {
  section.ignore({key});
  return applies || section.has(key) ? section.boolean(key, fallback) : fallback;
}

}  // namespace

std::string sharding_words(const OptimizerConfig& optimizer) {
  return optimizer.zero_3_layers.empty() ? fmt::format("zero_stage {}", optimizer.zero_stage)
                                         : "ZeRO-3 of some layers";
}

void read_sharding(SectionReader& section, Reading& reading, OptimizerConfig& optimizer) {
  if (optimizer.zero_stage == 3 && !optimizer.zero_3_layers.empty())
    reading.problem(section.path_of("zero_3_layers"), "zero_stage 3 shards the weights of every layer",
                    "leave zero_3_layers out.");
  const bool gathers = gathers_in_passes(optimizer), reduces = reduces_in_passes(optimizer);
  optimizer.reshard_after_forward = applied_boolean(section, "reshard_after_forward", gathers, true);
  optimizer.reshard_after_backward = applied_boolean(section, "reshard_after_backward", gathers, true);
  section.ignore({"gather_bucket_size"});
  if (section.has("gather_bucket_size"))
    optimizer.gather_bucket_size = section.integer("gather_bucket_size", limits::bucket);
  optimizer.no_sync = applied_boolean(section, "no_sync", reduces, false);
  for (const auto& [key, reshards] : {std::pair("reshard_after_forward", optimizer.reshard_after_forward),
                                      std::pair("reshard_after_backward", optimizer.reshard_after_backward)})
    if (!reshards && !gathers)
      reading.problem(section.path_of(key), fmt::format("{}: false needs zero_stage 3", key),
                      fmt::format("weights of zero_stage {} are never resharded.", optimizer.zero_stage));
  if (gathers && !optimizer.reshard_after_backward && optimizer.reshard_after_forward)
    reading.problem(section.path_of("reshard_after_backward"),
                    "weights kept between microbatches are kept behind the forward pass too",
                    "write reshard_after_forward: false as well.");
  if (!reduces && optimizer.no_sync)
    reading.problem(
        section.path_of("no_sync"), "no_sync: true needs zero_stage 2 or 3",
        fmt::format("zero_stage {} reduces gradients once per step anyway.", optimizer.zero_stage));
}

// How data parallelism is cut in two; configs/sharding_rules.cpp checks the sizes.
void read_data_parallel_groups(SectionReader& section, OptimizerConfig& optimizer) {
  const std::string instances = "num_distributed_optimizer_instances";
  section.ignore({instances, "all_reduce"});
  if (section.has(instances))
    optimizer.num_distributed_optimizer_instances = section.integer(instances, limits::parallel, 1);
  if (section.has("all_reduce") &&
      section.word("all_reduce", {{"flat", "hierarchical"}, {}}, "flat") == "hierarchical")
    optimizer.all_reduce = AllReduceKind::hierarchical;
}

// Megatron-LM counts elements; DDP's bucket_cap_mb and Horovod's fusion threshold are bytes.
void read_bucket_size(SectionReader& section, Reading& reading, OptimizerConfig& optimizer) {
  section.ignore({"bucket_size", "bucket_bytes"});
  const bool in_elements = section.has("bucket_size");
  if (in_elements) optimizer.bucket_size = section.integer("bucket_size", limits::bucket);
  if (!section.has("bucket_bytes")) return;
  const double bytes = section.quantity("bucket_bytes", Unit::bytes, limits::bucket_bytes);
  optimizer.bucket_size =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes) / bytes_of(optimizer.grad_reduce_dtype));
  if (in_elements)
    reading.problem(section.path_of("bucket_bytes"), "bucket_size says how large a bucket is already",
                    "leave one of the two out.");
}

}  // namespace simrun
