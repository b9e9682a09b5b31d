#include "visualizer/json.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <string_view>

#include "visualizer/quantity.h"
#include "visualizer/server_text.h"

namespace simrun {

namespace {

// Bytes of the well-formed UTF-8 sequence at `at`, 0 if there is none (overlong forms and surrogates are not
// well-formed).
std::size_t utf8_length(const std::string& text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : static_cast<unsigned char>(0);
  };
  const unsigned lead = byte(at);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  const unsigned second = byte(at + 1);
  if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f)) return 0;
  if ((lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f)) return 0;
  return length;
}

std::string number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : "null"; }
std::string number(std::int64_t value) { return fmt::format("{}", value); }

// The fields of one object, in order; `separator` stands between them.
class Fields {
 public:
  explicit Fields(std::string_view separator) : separator_(separator) {}
  void add(std::string_view key, const std::string& json) {
    if (!text_.empty()) text_ += separator_;
    text_ += fmt::format("\"{}\": {}", key, json);
  }
  const std::string& text() const { return text_; }
  std::string braced() const { return "{" + text_ + "}"; }

 private:
  std::string separator_;
  std::string text_;
};

template <std::size_t size>
std::string by_traffic(const std::array<double, size>& seconds) {
  Fields fields(", ");
  for (int t = static_cast<int>(Traffic::tensor); t < traffic_count; ++t)
    fields.add(short_name(static_cast<Traffic>(t)), number(seconds[static_cast<std::size_t>(t)]));
  return fields.braced();
}

std::string by_cause(const std::array<double, bubble_cause_count>& seconds) {
  Fields fields(", ");
  fields.add("warm_up", number(seconds[static_cast<std::size_t>(BubbleCause::warm_up)]));
  fields.add("imbalance", number(seconds[static_cast<std::size_t>(BubbleCause::imbalance)]));
  fields.add("drain", number(seconds[static_cast<std::size_t>(BubbleCause::drain)]));
  fields.add("p2p", number(seconds[static_cast<std::size_t>(BubbleCause::p2p)]));
  return fields.braced();
}

std::string memory_json(const std::array<std::int64_t, category_count>& bytes) {
  const auto of = [&](Category category) { return number(bytes[static_cast<std::size_t>(category)]); };
  Fields fields(", ");
  fields.add("weights", of(Category::weights));
  fields.add("gradients", of(Category::gradients));
  fields.add("optimizer", of(Category::optimizer));
  fields.add("activations", of(Category::activations));
  fields.add("comm", of(Category::comm));
  fields.add("workspace", of(Category::workspace));
  return fields.braced();
}

std::string found_json(const FoundSchedule& found) {
  Fields fields(", ");
  fields.add("origin", json_quoted(found.origin));
  fields.add("makespan_s", number(found.makespan_s));
  fields.add("lower_bound_s", number(found.lower_bound_s));
  fields.add("memory_limit", number(found.memory_limit));
  return fields.braced();
}

std::string found_json(const FoundRecompute& found) {
  Fields fields(", ");
  fields.add("section", json_quoted(found.section));
  fields.add("memory_limit_bytes", number(found.memory_limit));
  fields.add("peak_bytes", number(found.peak_bytes));
  fields.add("peak_bytes_without", number(found.peak_bytes_without));
  fields.add("added_s", number(found.added_s));
  return fields.braced();
}

std::string documents_json(const DocumentMask& documents) {
  Fields fields(", ");
  fields.add("origin", json_quoted(documents.origin));
  fields.add("mean_share", number(documents.mean_share));
  fields.add("highest_share", number(documents.highest_share));
  fields.add("model_flops_per_step", number(documents.model_flops_per_step));
  return fields.braced();
}

std::string load_json(const GpuLoad& load) {
  Fields fields(", ");
  fields.add("gpu", number(load.gpu));
  fields.add("compute_s", number(load.compute_s));
  fields.add("bubble_s", number(load.bubble_s));
  fields.add("exposed_comm_s", number(load.exposed_comm_s));
  return fields.braced();
}

std::string held_json(const HeldMemory& held) {
  Fields fields(", ");
  fields.add("live_bytes", number(held.live_bytes));
  fields.add("allocated_bytes", number(held.allocated_bytes));
  fields.add("reserved_bytes", number(held.reserved_bytes));
  fields.add("device_bytes", number(held.device_bytes));
  for (const HeldLevel level : {HeldLevel::allocated, HeldLevel::reserved, HeldLevel::device}) {
    Fields parts(", ");
    for (const HeldPart& part : held.parts)
      if (part.level == level) parts.add(part.name, number(part.bytes));
    fields.add(std::string("beside_") + to_string(level), parts.braced());
  }
  return fields.braced();
}

std::string stage_json(const StageSummary& stage, const Summary& summary) {
  Fields fields(", ");
  fields.add("pp_rank", number(std::int64_t{stage.pipeline_rank}));
  if (stage.serves) fields.add("parameter_servers", "true");
  fields.add("layers", number(stage.layers));
  if (stage.mtp_layers > 0) fields.add("mtp_layers", number(stage.mtp_layers));
  fields.add("embedding", stage.embedding ? "true" : "false");
  fields.add("loss", stage.loss ? "true" : "false");
  fields.add("parameters", number(stage.parameters));
  if (has_gpu_kinds(summary)) {
    fields.add("gpu", json_quoted(stage.gpu));
    fields.add("memory_limit_bytes", number(stage.memory_limit_bytes));
  }
  fields.add("peak_memory_bytes", number(stage.peak_memory_bytes));
  if (stage.held) fields.add("held_memory", held_json(*stage.held));
  fields.add("memory", memory_json(stage.memory));
  fields.add("compute_s", number(stage.compute_s));
  fields.add("bubble_s", number(stage.bubble_s));
  fields.add("exposed_comm_s", number(stage.exposed_comm_s));
  if (stage.has_imbalance()) {
    fields.add("busiest_gpu", load_json(stage.busiest));
    fields.add("idlest_gpu", load_json(stage.idlest));
  }
  return fields.braced();
}

// An array with one element per line.
template <typename Items, typename Item>
std::string lines_json(const Items& items, const Item& item) {
  std::string text;
  for (const auto& i : items) text += (text.empty() ? "\n    " : ",\n    ") + item(i);
  return "[" + text + (text.empty() ? "]" : "\n  ]");
}

std::string link_json(const LinkSummary& link) {
  Fields fields(", ");
  fields.add("name", json_quoted(link.name));
  fields.add("multiplicity", number(link.multiplicity));
  fields.add("bandwidth", number(link.bandwidth));
  fields.add("bytes", number(link.bytes));
  fields.add("busy_fraction", number(link.busy_fraction));
  fields.add("contended_s", number(link.contended_s));
  return fields.braced();
}

void add_times(Fields& fields, const Summary& summary) {
  fields.add("step_time_s", number(summary.step_time_s));
  fields.add("first_step_s", number(summary.first_step_s));
  const std::string rate = std::string(samples_word(summary.counts_images)) + "_per_s";
  fields.add(rate, number(summary.tokens_per_s));
  fields.add(rate + "_per_gpu", number(summary.tokens_per_s_per_gpu));
  fields.add("model_flops_per_step", number(summary.model_flops_per_step));
  fields.add("hardware_flops_per_step", number(summary.hardware_flops_per_step));
  fields.add("model_tflops_per_gpu", number(summary.model_tflops_per_gpu));
  fields.add("hardware_tflops_per_gpu", number(summary.hardware_tflops_per_gpu));
  fields.add("mfu", number(summary.mfu));
  fields.add("hfu", number(summary.hfu));
  fields.add("compute_s", number(summary.compute_s));
  fields.add("bubble_s", number(summary.bubble_s));
  fields.add("bubble_fraction", number(summary.bubble_fraction));
  fields.add("bubble_by_cause_s", by_cause(summary.bubble_by_cause_s));
  fields.add("exposed_comm_s", number(summary.exposed_comm_s));
  fields.add("exposed_by_traffic_s", by_traffic(summary.exposed_by_traffic_s));
  fields.add("hidden_comm_s", number(summary.hidden_comm_s));
  fields.add("hidden_by_traffic_s", by_traffic(summary.hidden_by_traffic_s));
}

}  // namespace

std::string json_quoted(const std::string& text) {
  std::string quoted = "\"";
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    const char c = text[at];
    if (length == 0) {
      quoted += "\xef\xbf\xbd";
    } else if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (length == 1 && (static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '<')) {
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      quoted.append(text, at, length);
    }
    at += length == 0 ? 1 : length;
  }
  return quoted + "\"";
}

std::string summary_json(const Plan& plan, const Summary& summary) {
  Fields fields(",\n  ");
  fields.add("schema_version", "1");
  fields.add("name", json_quoted(plan.job.name));
  fields.add("simrun_version", json_quoted(plan.job.simrun_version));
  fields.add("config_sha256", json_quoted(summary.config_sha256));
  fields.add("engine", json_quoted(summary.engine));
  fields.add("engine_reason", json_quoted(summary.engine_reason));
  fields.add("contention_bound", number(summary.contention_bound));
  fields.add("ranks", number(summary.ranks));
  fields.add("schedule", json_quoted(plan.job.schedule));
  if (plan.job.found_schedule) fields.add("found_schedule", found_json(*plan.job.found_schedule));
  if (plan.job.found_recompute) fields.add("found_recompute", found_json(*plan.job.found_recompute));
  if (plan.job.parameter_servers) fields.add("parameter_servers", servers_json(*plan.job.parameter_servers));
  if (plan.job.documents) fields.add("documents", documents_json(*plan.job.documents));
  fields.add("parameters", number(summary.parameters));
  if (plan.job.frozen_parameters > 0)
    fields.add("trained_parameters", number(summary.parameters - plan.job.frozen_parameters));
  add_times(fields, summary);
  fields.add("peak_memory_bytes", number(summary.peak_memory_bytes));
  fields.add("peak_pp_rank", number(std::int64_t{summary.peak_pipeline_rank}));
  if (has_gpu_kinds(summary)) {
    fields.add("peak_gpu", json_quoted(summary.peak_gpu));
    fields.add("largest_peak_memory_bytes", number(summary.largest_peak.bytes));
    fields.add("largest_peak_gpu", json_quoted(summary.largest_peak.gpu));
  }
  fields.add("memory_limit_bytes", number(summary.memory_limit_bytes));
  fields.add("fits", summary.fits ? "true" : "false");
  if (summary.host_memory_bytes > 0 || summary.nvme_bytes > 0) {
    fields.add("host_memory_bytes", number(summary.host_memory_bytes));
    fields.add("host_memory_limit_bytes", number(summary.host_memory_limit_bytes));
    fields.add("nvme_bytes", number(summary.nvme_bytes));
    fields.add("nvme_limit_bytes", number(summary.nvme_limit_bytes));
    fields.add("host_fits", summary.host_fits ? "true" : "false");
  }
  fields.add("stages", lines_json(summary.stages,
                                  [&](const StageSummary& stage) { return stage_json(stage, summary); }));
  fields.add("links", lines_json(summary.links, link_json));
  return "{\n  " + fields.text() + "\n}\n";
}

}  // namespace simrun
