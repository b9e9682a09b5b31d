#include "cli/estimate_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "configs/presets.h"
#include "visualizer/json.h"

namespace simrun {
namespace {

// A key of the form. `top`: where its slider ends, not what the loader accepts.
struct FormKey {
  std::string_view key;
  std::string_view slider;  // "" of what is no number
  std::int64_t top = 0;
};

constexpr std::array form_keys{FormKey{"training.precision", ""},
                               FormKey{"training.seq_length", "doubling", 131'072},
                               FormKey{"training.micro_batch_size", "doubling", 64},
                               FormKey{"training.global_batch_size", "doubling", 16'384},
                               FormKey{"parallelism.tensor_model_parallel_size", "doubling", 64},
                               FormKey{"parallelism.pipeline_model_parallel_size", "doubling", 64},
                               FormKey{"parallelism.virtual_pipeline_model_parallel_size", "ones", 20},
                               FormKey{"parallelism.context_parallel_size", "doubling", 64},
                               FormKey{"parallelism.expert_model_parallel_size", "doubling", 256},
                               FormKey{"parallelism.sequence_parallel", ""},
                               FormKey{"parallelism.pipeline_schedule", ""},
                               FormKey{"optimizer.zero_stage", "ones", 3},
                               FormKey{"optimizer.overlap_grad_reduce", ""},
                               FormKey{"optimizer.overlap_param_gather", ""},
                               FormKey{"recompute.granularity", ""},
                               FormKey{"cluster.nodes", "doubling", 2'048},
                               FormKey{"cluster.gpus_per_node", "doubling", 16}};

struct PresetKey {
  std::string_view key, folder;
};
constexpr std::array preset_keys{PresetKey{"model.from", "models"}, PresetKey{"cluster.from", "clusters"},
                                 PresetKey{"framework", "frameworks"}};

std::string word_list(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "" : ",") + json_quoted(word);
  return "[" + list + "]";
}

// Its value is "" if what is written is no preset's name. `framework: NAME` is short for `framework: {from:
// NAME}`.
std::string preset_field(const PresetKey& key, const ConfigNode& root, const EstimateSources& sources) {
  const std::vector<std::string> names =
      preset_names(std::string(key.folder), sources.load.preset_directories);
  const ConfigNode* written = root.find(key.key.substr(0, key.key.find('.')));
  const ConfigNode* from = written == nullptr ? nullptr : written->find("from");
  if (written != nullptr && written->kind == ConfigNode::Kind::scalar) from = written;
  const bool is_preset = from != nullptr && std::ranges::find(names, from->text) != names.end();
  return fmt::format(R"({{"key":"{}","kind":"preset","value":{},"words":{}}})", key.key,
                     json_quoted(is_preset ? from->text : ""), word_list(names));
}

// What the loader made of it, else what is written, which it then refused.
std::optional<std::string> form_value(const std::string& key, const JobKeys& job, const ConfigNode& root) {
  const auto value = job.values.find(key);
  if (value != job.values.end()) return value->second;
  const std::size_t dot = key.find('.');
  const ConfigNode* section = root.find(key.substr(0, dot));
  const ConfigNode* written = section == nullptr ? nullptr : section->find(key.substr(dot + 1));
  if (written == nullptr || written->kind != ConfigNode::Kind::scalar) return {};
  return written->text;
}

// "" where this job has no such key.
std::string loader_field(const FormKey& key, const JobKeys& job, const ConfigNode& root) {
  const auto rule = job.rules.find(std::string(key.key));
  const std::optional<std::string> value = form_value(std::string(key.key), job, root);
  if (rule == job.rules.end() || !value) return "";
  const std::string start = fmt::format(R"({{"key":"{}","value":{})", key.key, json_quoted(*value));
  const KeyRule& accepted = rule->second;
  switch (accepted.kind) {
    case KeyRule::Kind::integer:
      return start + fmt::format(R"(,"kind":"integer","least":{},"most":{},"slider":"{}","top":{}}})",
                                 accepted.least, accepted.most, key.slider, key.top);
    case KeyRule::Kind::boolean: return start + R"(,"kind":"boolean"})";
    case KeyRule::Kind::word: return start + R"(,"kind":"word","words":)" + word_list(accepted.words) + "}";
  }
  return "";
}

// The whole numbers that the model's family asks for, in the order of their names.
std::vector<std::string> model_fields(const JobKeys& job, const ConfigNode& root) {
  constexpr std::string_view section = "model.";
  std::vector<std::string> fields;
  for (const auto& [key, rule] : job.rules)
    if (key.starts_with(section) && key.find('.', section.size()) == std::string::npos &&
        rule.kind == KeyRule::Kind::integer)
      fields.push_back(loader_field({key, "relative", rule.most}, job, root));
  return fields;
}

}  // namespace

bool is_form_key(const std::string& key) {
  return std::ranges::find(form_keys, std::string_view(key), &FormKey::key) != form_keys.end();
}

std::string preset_folder_of(const std::string& key) {
  const auto found = std::ranges::find(preset_keys, std::string_view(key), &PresetKey::key);
  return found == preset_keys.end() ? "" : std::string(found->folder);
}

std::string form_json(const JobKeys& job, const ConfigNode& root, const EstimateSources& sources) {
  std::vector<std::string> fields = {preset_field(preset_keys[0], root, sources)};
  for (std::string& field : model_fields(job, root)) fields.push_back(std::move(field));
  for (const FormKey& key : form_keys) {
    if (key.key == "cluster.nodes") fields.push_back(preset_field(preset_keys[1], root, sources));
    fields.push_back(loader_field(key, job, root));
  }
  fields.push_back(preset_field(preset_keys[2], root, sources));
  std::erase(fields, "");
  std::string json;
  for (const std::string& field : fields) json += (json.empty() ? "" : ",\n") + field;
  return "[" + json + "]";
}

}  // namespace simrun
