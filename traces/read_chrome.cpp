#include "traces/read_chrome.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "schedules/measured_comparison.h"
#include "traces/chrome_fields.h"
#include "traces/nanoseconds.h"
#include "traces/refuse_trace.h"

namespace simrun {
namespace {

// What a category of Kineto's says of its events (libkineto, ActivityType.cpp; upper case before 2022).
enum class EventClass : std::uint8_t { device, launch, host, device_annotation, ignored, other };

EventClass class_of(const std::string& category) {
  static const std::unordered_map<std::string_view, EventClass> classes{
      {"kernel", EventClass::device},
      {"Kernel", EventClass::device},
      {"gpu_memcpy", EventClass::device},
      {"Memcpy", EventClass::device},
      {"gpu_memset", EventClass::device},
      {"Memset", EventClass::device},
      {"concurrent_kernel", EventClass::device},
      {"cuda_runtime", EventClass::launch},
      {"cuda_driver", EventClass::launch},
      {"hip_runtime", EventClass::launch},
      {"xpu_runtime", EventClass::launch},
      {"Runtime", EventClass::launch},
      {"cpu_op", EventClass::host},
      {"Operator", EventClass::host},
      {"user_annotation", EventClass::host},
      {"gpu_user_annotation", EventClass::device_annotation},
      {"python_function", EventClass::ignored},
      {"overhead", EventClass::ignored},
      {"Trace", EventClass::ignored},
      {"ac2g", EventClass::ignored},
      {"fwdbwd", EventClass::ignored}};
  const auto found = classes.find(category);
  return found == classes.end() ? EventClass::other : found->second;
}

constexpr std::string_view step_prefix = "ProfilerStep#";
// As imported_timeline() has what nobody knows.
constexpr std::string_view unknown_kernel = "map unknown: ";
constexpr std::string_view backward_prefix = "autograd::engine::evaluate_function: ";

// What the host's spans of this name say; nothing: no more than any other.
std::optional<SpanKind> span_kind(std::string_view name) {
  if (name.starts_with(step_prefix)) return SpanKind::step;
  if (name.starts_with("Optimizer.")) return SpanKind::optimizer;
  if (!name.starts_with(backward_prefix)) return std::nullopt;
  // PyTorch's CheckpointFunctionBackward, Transformer Engine's _CheckpointFunctionBackward.
  return name.find("CheckpointFunctionBackward") != std::string_view::npos ? SpanKind::recompute
                                                                           : SpanKind::backward;
}

struct TimedSlice {
  std::int64_t start_ns = 0, duration_ns = 0;
};

class ChromeReader {
 public:
  explicit ChromeReader(ByteSource& bytes) : bytes_(bytes), json_(bytes), names_(trace_.names) {
    trace_.path = bytes.name();
  }

  RecordedTrace read() {
    const JsonToken first = json_.next();
    if (first == JsonToken::begin_array)
      read_list();
    else if (first == JsonToken::begin_object)
      read_object();
    else
      json_.refuse(first == JsonToken::cut_off ? "the trace is empty" : "this is no trace",
                   "a trace is a JSON array of events, or an object with traceEvents.");
    close_open_slices();
    return finished();
  }

 private:
  // Its ']' may be missing, by the format's description.
  void read_list() {
    if (!read_events()) return cut_off();
    if (json_.depth() == 0) json_.next();
  }

  void read_object() {
    for (JsonToken token = json_.next(); token != JsonToken::end_object; token = json_.next()) {
      if (token == JsonToken::cut_off) return cut_off();
      const std::string key = json_.text();
      const JsonToken value = json_.next();
      bool whole = true;
      if (key == "traceEvents" && value == JsonToken::begin_array)
        whole = read_events();
      else if (key == "deviceProperties" && value == JsonToken::begin_array)
        whole = read_devices();
      else if ((key == "distributedInfo" || key == "otherData") && value == JsonToken::begin_object)
        whole = read_facts();
      else
        whole = json_.skip_from(value);
      if (!whole) return cut_off();
    }
    json_.next();  // refuses more
  }

  void cut_off() {
    const std::string why = bytes_.fault().empty() ? "the file was cut off" : bytes_.fault();
    add_note(trace_.notes, why + "; what stands before was read", bytes_.position());
    trace_.is_cut_off = true;
  }

  bool read_devices() {
    for (JsonToken token = json_.next(); token != JsonToken::end_array; token = json_.next()) {
      if (token != JsonToken::begin_object) {
        if (!json_.skip_from(token)) return false;
        continue;
      }
      for (JsonToken key = json_.next(); key != JsonToken::end_object; key = json_.next()) {
        if (key == JsonToken::cut_off) return false;
        const bool is_name = json_.text() == "name";
        const JsonToken value = json_.next();
        if (is_name && value == JsonToken::string && trace_.device.empty()) trace_.device = json_.text();
        if (!json_.skip_from(value)) return false;
      }
    }
    return true;
  }

  bool read_facts() {
    for (JsonToken token = json_.next(); token != JsonToken::end_object; token = json_.next()) {
      if (token == JsonToken::cut_off) return false;
      const std::string key = json_.text();
      const JsonToken value = json_.next();
      if (key == "rank") trace_.rank = count_of(key, value, trace_.rank);
      if (key == "world_size") trace_.world_size = *count_of(key, value, trace_.world_size);
      if (key == "simrun_version") has_version_ = true;
      if (key == "config_sha256" && value == JsonToken::string) trace_.config_sha256 = json_.text();
      if (key == "step_time_ps" && value == JsonToken::number)
        trace_.step_ns = leading_number(json_.text()) / 1000;
      if (key == "engine") is_measured_ = value == JsonToken::string && json_.text() == imported_engine;
      if (!json_.skip_from(value)) return false;
    }
    if (has_version_) trace_.origin = is_measured_ ? TraceOrigin::measured : TraceOrigin::simrun;
    return true;
  }

  // What stands there, or `otherwise`.
  std::optional<std::int64_t> count_of(const std::string& key, JsonToken value,
                                       std::optional<std::int64_t> otherwise) {
    if (value == JsonToken::number)
      if (const std::optional<std::int64_t> count = whole_count(json_.text())) return count;
    note(fmt::format("a {} of the file that is no whole number from 0 up, and is not used", key));
    return otherwise;
  }

  // Behind its '['. False: cut off.
  bool read_events() {
    ChromeFields fields;
    has_events_ = true;
    for (JsonToken token = json_.next(); token != JsonToken::end_array; token = json_.next()) {
      if (token == JsonToken::cut_off) return json_.depth() == 1 && bytes_.fault().empty();
      if (token != JsonToken::begin_object) {
        note("entries that are no events");
        if (!json_.skip_from(token)) return false;
        continue;
      }
      if (!read_chrome_fields(json_, fields)) return false;
      ++trace_.events;
      add(fields);
    }
    return true;
  }

  void note(const std::string& what) { add_note(trace_.notes, what, json_.position()); }

  void add(const ChromeFields& fields) {
    if (fields.phase == "X") {
      add_complete(fields);
    } else if (fields.phase == "B") {
      if (const std::optional<TracedTime> start = start_of(fields))
        open_[stream_of(fields)].push_back({*start, fields});
    } else if (fields.phase == "E") {
      end_slice(fields);
    } else if (fields.phase == "M" && fields.name == "thread_name") {
      trace_.streams[stream_of(fields)].name = fields.named;
    } else if (fields.phase == "M" && fields.name == "process_name") {
      trace_.processes[fields.pid] = fields.named;
    } else if (fields.phase.empty()) {
      add_note(trace_.notes, "events without a phase (ph)", fields.position);
    }
  }

  std::optional<TracedTime> time_of(const std::string& text, const char* what, const ChromeFields& fields) {
    const std::optional<TracedTime> time = microseconds_to_ns(text);
    if (time) return time;
    if (!is_beyond_ns(text)) {
      add_note(trace_.notes, fmt::format("events without a {} that is a number", what), fields.position);
      return time;
    }
    add_note(trace_.notes, fmt::format("events with a {} out of range, in microseconds", what),
             fields.position);
    ++out_of_range_;
    const EventClass of = class_of(fields.category);
    lost_kernels_ = lost_kernels_ || of == EventClass::device || of == EventClass::other;
    return time;
  }

  std::optional<TracedTime> start_of(const ChromeFields& fields) {
    return time_of(fields.start, "time (ts)", fields);
  }

  void add_complete(const ChromeFields& fields) {
    const std::optional<TracedTime> start = start_of(fields);
    if (!start) return;
    const std::optional<TracedTime> duration = time_of(fields.duration, "duration (dur)", fields);
    if (!duration) return;
    if (duration->ns < 0) {
      add_note(trace_.notes, "events of negative duration", fields.position);
    } else {
      const std::int64_t carry = (start->ps + duration->ps) / 1000;
      add_slice(fields, {start->ns, duration->ns + carry});
    }
  }

  void end_slice(const ChromeFields& fields) {
    const std::optional<TracedTime> end = start_of(fields);
    if (!end) return;
    std::vector<OpenSlice>& open = open_[stream_of(fields)];
    if (open.empty()) {
      add_note(trace_.notes, "ends (E) without a beginning (B)", fields.position);
      return;
    }
    const OpenSlice begun = std::move(open.back());
    open.pop_back();
    if (end->ns < begun.start.ns)
      add_note(trace_.notes, "events of negative duration", fields.position);
    else
      add_slice(begun.fields, {begun.start.ns, end->ns - begun.start.ns});
  }

  void close_open_slices() {
    std::int64_t count = 0;
    for (const auto& [stream, open] : open_) count += static_cast<std::int64_t>(open.size());
    if (count > 0) add_note(trace_.notes, "beginnings (B) without an end (E)", {bytes_.name(), 0, 0}, count);
  }

  Index stream_of(const ChromeFields& fields) {
    const std::string key = fields.pid + '\n' + fields.tid;
    const auto [place, is_new] = streams_.try_emplace(key, static_cast<Index>(trace_.streams.size()));
    if (is_new) trace_.streams.push_back({fields.pid, fields.tid, ""});
    return place->second;
  }

  void add_slice(const ChromeFields& fields, TimedSlice slice) {
    const EventClass of = class_of(fields.category);
    if (of == EventClass::ignored) return;
    const Index stream = stream_of(fields);
    const std::optional<SpanKind> kind = span_kind(fields.name);
    trace_.last_ns = slice.start_ns;
    trace_.last_is_kernel = of == EventClass::device;
    if (of == EventClass::launch) {
      const std::int64_t correlation = leading_number(fields.correlation);
      if (correlation > 0) trace_.launches.push_back({correlation, slice.start_ns, stream});
    } else if (of == EventClass::device_annotation) {
      if (kind == SpanKind::step)
        trace_.device_steps.push_back(
            {*kind, slice.start_ns, slice.duration_ns, step_number(fields.name), stream});
    } else if (kind && of != EventClass::device) {
      trace_.spans.push_back({*kind, slice.start_ns, slice.duration_ns, step_number(fields.name), stream});
      saw_host_ = true;
    } else if (of == EventClass::host) {
      saw_host_ = true;
    } else {
      add_kernel(fields, slice, of == EventClass::device ? trace_.kernels : others_);
    }
  }

  bool is_own() const {
    return trace_.origin == TraceOrigin::simrun || trace_.origin == TraceOrigin::measured;
  }

  static std::int64_t step_number(std::string_view name) {
    return name.starts_with(step_prefix) ? leading_number(name.substr(step_prefix.size())) : 0;
  }

  void add_kernel(const ChromeFields& fields, TimedSlice slice, std::vector<TracedKernel>& kernels) {
    TracedKernel kernel;
    kernel.start_ns = slice.start_ns;
    kernel.duration_ns = slice.duration_ns;
    // What an exchange of a measured step waited was a part of its kernel.
    if (trace_.origin == TraceOrigin::measured && !fields.wait.empty())
      if (const std::optional<TracedTime> wait = microseconds_to_ns(fields.wait); wait && wait->ns > 0) {
        kernel.start_ns -= wait->ns;
        kernel.duration_ns += wait->ns;
      }
    const bool is_unknown = is_own() && fields.name.starts_with(unknown_kernel);
    kernel.name = names_.index_of(is_unknown ? fields.name.substr(unknown_kernel.size()) : fields.name);
    kernel.stream = stream_of(fields);
    kernel.correlation = leading_number(fields.correlation);
    if (!fields.pass_phase.empty()) kernel.phase = names_.index_of(fields.pass_phase);
    if (!fields.function.empty()) kernel.function = names_.index_of(fields.function);
    if (!fields.collective.empty()) {
      kernel.exchange = static_cast<Index>(trace_.exchanges.size());
      const std::int64_t bytes = bytes_of_dtype(fields.dtype);
      trace_.exchanges.push_back({fields.collective, fields.group, fields.group_ranks,
                                  leading_number(fields.group_size), product(fields.elements_in, bytes),
                                  product(fields.elements_out, bytes)});
    }
    kernels.push_back(kernel);
  }

  static std::int64_t product(const std::string& elements, std::int64_t bytes) {
    constexpr std::int64_t most = std::int64_t{1} << 55;
    return std::clamp<std::int64_t>(leading_number(elements), 0, most) * bytes;
  }

  RecordedTrace finished() {
    if (!has_events_ && trace_.is_cut_off)
      json_.refuse("the trace was cut off before its first event", "copy it whole.");
    if (!has_events_)
      json_.refuse("there are no traceEvents", "a trace is a JSON array of events, or an object with them.");
    const bool is_profile = saw_host_ || !trace_.launches.empty();
    if (lost_kernels_ && trace_.kernels.empty() && (is_profile || others_.empty()))
      refuse_trace(trace_.path,
                   fmt::format("the time (ts) or duration (dur) of {} of its {} events is out of range, and "
                               "no kernel is left",
                               out_of_range_, trace_.events),
                   "both are microseconds; nanoseconds are to be divided by 1000.");
    if (!trace_.kernels.empty()) {
      trace_.origin = TraceOrigin::kineto;
    } else if (is_profile && trace_.is_cut_off) {
      json_.refuse("the trace was cut off before the first kernel of a device", "copy it whole.");
    } else if (is_profile) {
      throw ConfigError({{{trace_.path, 0, 0},
                          "a PyTorch profile without anything that a device did (category kernel)",
                          "record it with ProfilerActivity.CUDA."}});
    } else {
      trace_.kernels = std::move(others_);
      leave_out_passes();
    }
    for (TracedStream& stream : trace_.streams)
      if (stream.name.empty()) stream.name = "stream " + stream.thread;
    if (trace_.kernels.empty())
      throw ConfigError(
          {{{trace_.path, 0, 0},
            fmt::format("none of its {} events has a name, a time and a duration", trace_.events),
            "a trace needs X events, or B with E, with ts and dur in microseconds."}});
    return std::move(trace_);
  }

  // simrun draws a rank's passes above what they consist of; of a job with too many instructions them alone.
  void leave_out_passes() {
    if (!is_own()) return;
    if (trace_.origin == TraceOrigin::simrun &&
        std::ranges::none_of(trace_.streams, [](const TracedStream& of) { return of.name == "passes"; }))
      refuse_trace(trace_.path, "simrun drew passes only: no kernel is in it, and no exchange",
                   "a smaller training.global_batch_size has fewer instructions.");
    std::erase_if(trace_.kernels,
                  [&](const TracedKernel& kernel) { return trace_.streams[kernel.stream].name == "passes"; });
  }

  struct OpenSlice {
    TracedTime start;
    ChromeFields fields;
  };

  ByteSource& bytes_;
  JsonStream json_;
  RecordedTrace trace_;
  NameTable names_;
  std::unordered_map<std::string, Index> streams_;
  std::map<Index, std::vector<OpenSlice>> open_;
  std::vector<TracedKernel> others_;  // slices that are no device's
  std::int64_t out_of_range_ = 0;     // events
  bool lost_kernels_ = false;         // among these
  bool saw_host_ = false, has_events_ = false, has_version_ = false, is_measured_ = false;
};

}  // namespace

RecordedTrace read_chrome_trace(ByteSource& bytes) { return ChromeReader(bytes).read(); }

}  // namespace simrun
