#include "configs/import_deepspeed.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "configs/deepspeed_keys.h"
#include "configs/job_yaml.h"
#include "configs/limits.h"
#include "configs/numbers.h"

namespace simrun {
namespace {

class DeepSpeedImport {
 public:
  DeepSpeedImport(const std::string& text, const std::string& file, const LoadOptions& options)
      : file_(file), options_(options) {
    config_ = read_yaml(text, file, problems_);
    root_.kind = ConfigNode::Kind::map;
    put("simrun", "1", {file_, 0, 0});
    if (problems_.empty() && config_.kind != ConfigNode::Kind::map)
      problem(config_, "a DeepSpeed configuration is a map", "{\"train_batch_size\": 32, ...}.");
  }

  void read() {
    if (config_.kind != ConfigNode::Kind::map) return;
    read_batch();
    read_precision();
    read_zero();
    read_checkpointing();
    read_update();
    read_types();
    if (const ConfigNode* parallel = section(config_, "tensor_parallel"))
      copy_number(*parallel, "autotp_size", "parallelism.tensor_model_parallel_size");
    if (!copy_real(config_, "gradient_clipping", "optimizer.clip_grad", limits::norm))
      put("optimizer.clip_grad", "0", {file_, 0, 0});
    judge(config_, known_, irrelevant_keys);
  }

  std::string yaml() {
    const bool is_whole = sets("model") && sets("cluster");
    if (!is_whole && !options_.overrides.empty())
      problem(config_, "--set completes a DeepSpeed configuration only with a model and a cluster",
              "--set model.from=llama3-8b --set training.seq_length=8192 --set "
              "'cluster={from: dgx_h100, nodes: 1}'.");
    std::ranges::stable_sort(problems_, {}, &Diagnostic::position);
    const bool is_map = config_.kind == ConfigNode::Kind::map;
    if ((!is_whole || !is_map) && !problems_.empty()) throw ConfigError(std::move(problems_));
    if (is_whole) check_job();
    std::string text = fmt::format("# From a DeepSpeed configuration, which is a part of a job.{}\n",
                                   is_whole ? "" : " To add: " + missing() + ".");
    for (const std::string& note : notes_) text += "# " + note + "\n";
    return text + job_yaml(root_);
  }

 private:
  bool sets(const std::string& section) const {
    return std::ranges::any_of(options_.overrides, [&](const Override& of) {
      return of.key == section || of.key.starts_with(section + ".");
    });
  }
  // What a --set of the key itself says, the last one.
  std::optional<std::string> set_value(const std::string& key) const {
    std::optional<std::string> value;
    const std::size_t dot = key.find('.');
    const std::string section = key.substr(0, dot);
    const std::string name = dot == std::string::npos ? "" : key.substr(dot + 1);
    for (const Override& of : options_.overrides) {
      if (of.key == key) value = of.value;
      if (of.key != section || name.empty()) continue;
      std::vector<Diagnostic> ignored;
      const ConfigNode map = read_yaml(of.value, "", ignored);
      if (const ConfigNode* node = map.find(name)) value = node->text;
    }
    return value;
  }
  std::string missing() const {
    std::string keys = "model, training.seq_length, cluster";
    if (precision_.empty()) keys += ", training.precision (and optimizer.main_grads_dtype, the same)";
    return keys;
  }

  // The whole job, whose loader knows nothing of DeepSpeed's keys.
  void check_job() {
    try {
      load_job_tree(root_, problems_, file_, options_);
    } catch (const ConfigError& error) {
      std::vector<Diagnostic> problems = error.diagnostics();
      // Of a value that is refused here the loader would only say the same.
      const auto is_ours = [&](const Diagnostic& of, bool with_message) {
        return std::ranges::any_of(problems_, [&](const Diagnostic& ours) {
          return ours.position == of.position && (!with_message || ours.message == of.message);
        });
      };
      std::erase_if(problems, [&](const Diagnostic& of) { return is_ours(of, false) && !is_ours(of, true); });
      const bool has_no_micro = refused_.contains("train_micro_batch_size_per_gpu");
      name_key(problems, "train_micro_batch_size_per_gpu", "micro_batch_size", has_no_micro);
      name_key(problems, "train_batch_size", "global_batch_size", !refused_.empty());
      throw ConfigError(std::move(problems));
    }
  }
  // A key of the job that is missing, in DeepSpeed's words; what follows from a value that was refused is not
  // missing as well.
  void name_key(std::vector<Diagnostic>& problems, const std::string& key, const std::string& ours,
                bool follows) const {
    const auto is_it = [&](const Diagnostic& of) {
      return of.message.starts_with(fmt::format("missing required key '{}'", ours));
    };
    if (follows) std::erase_if(problems, is_it);
    const ConfigNode* node = config_.find(key);
    for (Diagnostic& of : problems)
      if (is_it(of))
        of = {node == nullptr ? SourcePosition{file_, 0, 0} : node->position,
              fmt::format("no number at '{}' says 'training.{}'", key, ours),
              fmt::format("write it, or --set training.{}=N.", ours)};
  }

  void problem(const ConfigNode& at, std::string message, std::string hint = "") {
    if (at.key.starts_with("train_") || at.key == "gradient_accumulation_steps") refused_.insert(at.key);
    problems_.push_back({at.position, std::move(message), std::move(hint)});
  }
  void put(const std::string& path, const std::string& text, const SourcePosition& at) {
    ConfigNode node;
    node.kind = ConfigNode::Kind::scalar;
    node.text = text;
    node.position = node.key_position = at;
    put_scalar(root_, path, std::move(node));
  }

  // A map at a key of the configuration itself.
  const ConfigNode* section(const ConfigNode& of, const std::string& key) {
    known_.emplace_back(key);
    const ConfigNode* node = of.find(key);
    if (node == nullptr || node->kind == ConfigNode::Kind::null) return nullptr;
    if (node->kind == ConfigNode::Kind::map) return node;
    problem(*node, fmt::format("'{}' must be a map, not {}", key, describe(*node)));
    return nullptr;
  }

  // A scalar; "auto", which a trainer fills in, is none.
  const ConfigNode* value(const ConfigNode& of, const std::string& key) {
    known_.emplace_back(key);
    const ConfigNode* node = of.find(key);
    if (node == nullptr || node->kind == ConfigNode::Kind::null) return nullptr;
    if (node->kind != ConfigNode::Kind::scalar) {
      problem(*node, fmt::format("'{}' must be one value, not {}", key, describe(*node)));
      return nullptr;
    }
    if (node->text != "auto") return node;
    const std::string path = of.key.empty() ? key : of.key + "." + key;
    notes_.push_back(fmt::format("{} is \"auto\": whoever runs this fills it in", path));
    return nullptr;
  }

  // Whole numbers, which DeepSpeed also takes as 5e8.
  std::optional<std::int64_t> number(const ConfigNode& of, const std::string& key) {
    const ConfigNode* node = value(of, key);
    if (node == nullptr) return std::nullopt;
    const Parsed<double> parsed = parse_real(node->quoted ? "\"" + node->text + "\"" : node->text, {0, 1e15});
    if (parsed.value && *parsed.value == std::floor(*parsed.value))
      return static_cast<std::int64_t>(*parsed.value);
    problem(*node, fmt::format("'{}' must be a whole number, not {}", key, describe(*node)));
    return std::nullopt;
  }
  std::optional<std::int64_t> copy_number(const ConfigNode& of, const std::string& key,
                                          const std::string& path) {
    const std::optional<std::int64_t> read = number(of, key);
    if (read) put(path, fmt::format("{}", *read), of.find(key)->position);
    return read;
  }
  bool copy_real(const ConfigNode& of, const std::string& key, const std::string& path, RealRange range) {
    const ConfigNode* node = value(of, key);
    if (node == nullptr) return false;
    const Parsed<double> parsed = parse_real(node->text, range);  // "3e-5" is read as a number
    if (parsed.value)
      put(path, node->text, node->position);
    else
      problem(*node, fmt::format("'{}': {}", key, parsed.problem), parsed.hint);
    return true;
  }
  // One of some words, which a job spells alike.
  void copy_word(const ConfigNode& node, const std::string& path, const std::vector<std::string>& words) {
    if (std::ranges::find(words, node.text) != words.end()) return put(path, node.text, node.position);
    problem(node,
            fmt::format("'{}' must be one of {}, not {}", node.key, fmt::join(words, ", "), describe(node)));
  }
  bool is_auto(const ConfigNode* of, const std::string& key) const {
    const ConfigNode* node = of == nullptr ? nullptr : of->find(key);
    return node != nullptr && node->kind == ConfigNode::Kind::scalar && node->text == "auto";
  }
  bool is_on(const ConfigNode& of, const std::string& key, bool fallback = false) {
    const ConfigNode* node = value(of, key);
    if (node == nullptr) return fallback;
    if (node->text == "true" || node->text == "false") return node->text == "true";
    problem(*node, fmt::format("'{}' must be true or false, not {}", key, describe(*node)));
    return fallback;
  }

  template <typename Known, typename Irrelevant>
  void judge(const ConfigNode& map, const Known& known, const Irrelevant& irrelevant) {
    std::vector<std::string> names(std::begin(known), std::end(known));
    names.insert(names.end(), std::begin(irrelevant), std::end(irrelevant));
    refuse_unknown_keys(map, names, problems_);
  }

  // train_batch_size = micro batch x accumulation x data-parallel ranks, of which two or three are given.
  void read_batch() {
    const auto micro = copy_number(config_, "train_micro_batch_size_per_gpu", "training.micro_batch_size");
    const auto all = copy_number(config_, "train_batch_size", "training.global_batch_size");
    const auto steps = number(config_, "gradient_accumulation_steps");
    const auto refuse_none = [&](const char* key, std::optional<std::int64_t> read) {
      if (read == 0) problem(*config_.find(key), fmt::format("'{}' must be 1 or more, not 0", key));
    };
    refuse_none("train_micro_batch_size_per_gpu", micro);
    refuse_none("train_batch_size", all);
    refuse_none("gradient_accumulation_steps", steps);
    constexpr std::int64_t most = 100'000;  // products stay numbers
    if (!micro || !steps || all == 0 || *micro == 0 || *steps == 0 || *micro > most || *steps > most) return;
    const std::int64_t of_rank = *micro * *steps;
    if (const std::optional<std::int64_t> ranks = data_parallel_ranks(); ranks && !all) {
      put("training.global_batch_size", fmt::format("{}", of_rank * *ranks),
          config_.find("gradient_accumulation_steps")->position);
    } else if (ranks && *all != of_rank * *ranks) {
      problem(*config_.find("train_batch_size"),
              fmt::format("train_batch_size {} is not micro batch {} x accumulation {} x the cluster's {} "
                          "data-parallel ranks",
                          *all, *micro, *steps, *ranks),
              fmt::format("{} is.", of_rank * *ranks));
    } else if (!all) {
      notes_.push_back(fmt::format("global_batch_size is {} x {} (accumulation) x the data-parallel ranks",
                                   *micro, *steps));
    } else if (*all % (*micro * *steps) != 0) {
      problem(*config_.find("train_batch_size"),
              fmt::format("train_batch_size {} is no multiple of micro batch {} x accumulation {}", *all,
                          *micro, *steps),
              fmt::format("{} is, on one GPU.", *micro * *steps));
    } else if (!ranks) {
      put("parallelism.data_parallel_size", fmt::format("{}", *all / (*micro * *steps)),
          config_.find("train_batch_size")->position);
    }
  }

  // Of the cluster that --set names; nothing where it names none, or how it is split is not plain.
  std::optional<std::int64_t> data_parallel_ranks() {
    for (const char* said : {"parallelism", "parallelism.data_parallel_size", "training.global_batch_size"})
      if (set_value(said)) return std::nullopt;
    if (!sets("model") || !sets("cluster")) return std::nullopt;
    const std::optional<std::int64_t> gpus = gpus_of_overrides(file_, options_);
    if (!gpus) return std::nullopt;
    std::int64_t ranks = *gpus;
    for (const char* size :
         {"tensor_model_parallel_size", "context_parallel_size", "pipeline_model_parallel_size"}) {
      const std::string path = std::string("parallelism.") + size;
      const ConfigNode* parallel = config_.find("tensor_parallel");
      const ConfigNode* own = parallel == nullptr ? nullptr : parallel->find("autotp_size");
      const bool is_own = own != nullptr && std::string_view(size).starts_with("tensor");
      const std::string text = set_value(path).value_or(is_own ? own->text : "1");
      const Parsed<std::int64_t> parsed = parse_integer(text, {1, limits::world});
      if (!parsed.value || ranks % *parsed.value != 0) return std::nullopt;
      ranks /= *parsed.value;
    }
    return ranks;
  }

  void read_precision() {
    const ConfigNode* fp16 = section(config_, "fp16");
    const ConfigNode* bf16 = section(config_, config_.find("bfloat16") != nullptr ? "bfloat16" : "bf16");
    const bool has_fp16 = fp16 != nullptr && is_on(*fp16, "enabled");
    const bool has_bf16 = bf16 != nullptr && is_on(*bf16, "enabled");
    if (has_fp16 && has_bf16) problem(*fp16, "fp16 and bf16 exclude each other", "enable one.");
    if (!has_fp16 && !has_bf16 && (is_auto(fp16, "enabled") || is_auto(bf16, "enabled"))) {
      precision_ = set_value("training.precision").value_or("");
      return;
    }
    precision_ = has_bf16 ? "bf16" : has_fp16 ? "fp16" : "fp32";
    put("training.precision", precision_,
        has_bf16   ? bf16->position
        : has_fp16 ? fp16->position
                   : SourcePosition{file_, 0, 0});
  }

  void read_target(const ConfigNode& zero, const std::string& key, const std::string& path) {
    const ConfigNode* target = section(zero, key);
    if (target == nullptr) return;
    if (const ConfigNode* device = value(*target, "device"))
      copy_word(*device, path, {"none", "cpu", "nvme"});
    if (key == "offload_optimizer")
      copy_real(*target, "ratio", "offload.optimizer_fraction", limits::offloaded);
    judge(*target, offload_keys, irrelevant_offload_keys);
  }

  // Stage 3 gathers parameter by parameter, so many elements ahead.
  void read_prefetch(const ConfigNode& zero) {
    for (const char* key : {"stage3_prefetch_bucket_size", "prefetch_bucket_size"})
      if (const std::optional<std::int64_t> ahead = number(zero, key))
        return put("optimizer.gather_bucket_size", fmt::format("{}", std::max<std::int64_t>(*ahead, 1)),
                   zero.find(key)->position);
    put("optimizer.gather_bucket_size", "50000000", zero.position);  // DeepSpeed's default
  }

  void read_zero() {
    const ConfigNode* zero = section(config_, "zero_optimization");
    if (zero == nullptr) return put("optimizer.zero_stage", "0", {file_, 0, 0});
    const std::vector<std::string> outside = std::exchange(known_, {});
    if (const ConfigNode* stage = value(*zero, "stage")) {
      copy_word(*stage, "optimizer.zero_stage", {"0", "1", "2", "3"});
      stage_ = parse_integer(stage->text, {0, 3}).value.value_or(0);
    } else {
      put("optimizer.zero_stage", "0", zero->position);
    }
    const bool overlaps = is_on(*zero, "overlap_comm", stage_ == 3);
    if (stage_ == 1) put("optimizer.overlap_grad_reduce", overlaps ? "true" : "false", zero->position);
    if (stage_ >= 2 && !overlaps)
      notes_.push_back(fmt::format("overlap_comm: false is not modelled with stage {}", stage_));
    if (!copy_number(*zero, "reduce_bucket_size", "optimizer.bucket_size") && stage_ > 0)
      put("optimizer.bucket_size", "500000000", zero->position);  // DeepSpeed's default
    if (stage_ == 3) read_prefetch(*zero);
    read_target(*zero, "offload_optimizer", "offload.optimizer");
    read_target(*zero, "offload_param", "offload.parameters");
    judge(*zero, std::exchange(known_, outside), irrelevant_zero_keys);
  }

  // Where checkpoints lie; what is one, the code of the model says.
  void read_checkpointing() {
    const ConfigNode* keys = section(config_, "activation_checkpointing");
    if (keys == nullptr) return;
    const std::vector<std::string> outside = std::exchange(known_, {});
    if (is_on(*keys, "cpu_checkpointing")) {
      put("offload.activations", "cpu", keys->find("cpu_checkpointing")->position);
      notes_.emplace_back("cpu_checkpointing: what is recomputed, the model's code says; it is left to add");
    }
    if (is_on(*keys, "partition_activations"))
      notes_.emplace_back("partition_activations: checkpoints cut over tensor ranks are not modelled");
    judge(*keys, std::exchange(known_, outside), irrelevant_checkpointing_keys);
  }

  void read_update() {
    const ConfigNode* optimizer = section(config_, "optimizer");
    if (optimizer == nullptr) return;
    if (const ConfigNode* type = value(*optimizer, "type")) {
      std::string name = type->text;
      std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
      if (name == "adam" || name == "adamw" || name == "sgd" || name == "muon")
        put("optimizer.name", name, type->position);
      else
        problem(*type, fmt::format("optimizer {} is not supported", in_quotes(type->text)),
                "one of Adam, AdamW, SGD, Muon.");
    }
    const ConfigNode* params = section(*optimizer, "params");
    if (params == nullptr) return;
    copy_real(*params, "lr", "optimizer.lr", limits::learning_rate);
    copy_real(*params, "eps", "optimizer.adam_eps", limits::epsilon);
    copy_real(*params, "weight_decay", "optimizer.weight_decay", limits::weight_decay);
    copy_real(*params, "momentum", "optimizer.sgd_momentum", limits::probability);
    judge(*params, update_keys, irrelevant_update_keys);
    const ConfigNode* betas = params->find("betas");
    if (betas == nullptr || betas->kind != ConfigNode::Kind::sequence || betas->children.size() != 2) return;
    put("optimizer.adam_beta1", betas->children[0].text, betas->children[0].position);
    put("optimizer.adam_beta2", betas->children[1].text, betas->children[1].position);
  }

  void read_types() {
    const ConfigNode* types = section(config_, "data_types");
    const ConfigNode* kept = types == nullptr ? nullptr : value(*types, "grad_accum_dtype");
    const std::string gradients = kept != nullptr                       ? kept->text
                                  : precision_ == "bf16" && stage_ == 0 ? "fp32"
                                                                        : precision_;
    if (kept != nullptr)
      copy_word(*kept, "optimizer.main_grads_dtype", {"fp32", "bf16", "fp16"});
    else if (gradients == "fp32" || gradients == "bf16" || gradients == "fp16")
      put("optimizer.main_grads_dtype", gradients, {file_, 0, 0});
    if (const ConfigNode* reduced = value(config_, "communication_data_type"))
      copy_word(*reduced, "optimizer.grad_reduce_dtype", {"fp32", "bf16", "fp16"});
  }

  const std::string& file_;
  const LoadOptions& options_;
  ConfigNode config_, root_;
  std::vector<Diagnostic> problems_;
  std::vector<std::string> notes_, known_;
  std::set<std::string> refused_;   // keys of the batch
  std::string precision_ = "fp32";  // "": whoever runs this fills it in
  std::int64_t stage_ = 0;
};

}  // namespace

std::string import_deepspeed(const std::string& text, const std::string& file, const LoadOptions& options) {
  DeepSpeedImport config(text, file, options);
  config.read();
  return config.yaml();
}

}  // namespace simrun
