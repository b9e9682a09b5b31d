#include "visualizer/chrome_trace.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "visualizer/json.h"
#include "visualizer/trace_events.h"

namespace simrun {

namespace {

// Process and thread numbers from 1: viewers hide process 0. Thread numbers are unique in the trace and rise
// in the order to be shown.
constexpr std::size_t threads_per_process = 1000;
std::size_t pid_of(std::size_t process) { return process + 1; }
std::size_t tid_of(std::size_t process, std::size_t thread) {
  return threads_per_process * pid_of(process) + thread;
}

struct Microseconds {
  std::int64_t nanoseconds = 0;
};

std::string field(const TraceArgument& argument) {
  const std::int64_t* number = std::get_if<std::int64_t>(&argument.value);
  return fmt::format(
      "{}:{}", json_quoted(argument.name),
      number ? fmt::format("{}", *number) : json_quoted(std::get<std::string>(argument.value)));
}

std::string fields(const std::vector<TraceArgument>& arguments) {
  std::string text;
  for (const TraceArgument& argument : arguments) text += (text.empty() ? "" : ",") + field(argument);
  return text;
}

// What is the same in all slices of a label, as text: `name` stays open where the microbatch is appended.
struct LabelText {
  std::string name;       // ,"cat":"backward","name":"3B
  std::string arguments;  // ,"args":{"stage":3,"chunk":0,
};

std::vector<LabelText> label_texts(const std::vector<SliceLabel>& labels) {
  std::vector<LabelText> texts;
  texts.reserve(labels.size());
  for (const SliceLabel& label : labels) {
    std::string name = json_quoted(label.name);
    name.pop_back();
    texts.push_back(
        {fmt::format(R"(,"cat":{},"name":{})", json_quoted(label.category), name),
         fmt::format(R"(,"args":{{{}{})", fields(label.arguments), label.arguments.empty() ? "" : ",")});
  }
  return texts;
}

class ChromeWriter {
 public:
  explicit ChromeWriter(const TraceEvents& events) : events_(events), labels_(label_texts(events.labels)) {}

  std::string write() {
    constexpr std::size_t typical_slice = 320;  // bytes
    std::size_t slices = 0;
    for (const TraceProcess& process : events_.processes)
      for (const TraceThread& thread : process.threads) slices += thread.slices.size();
    text_.reserve(typical_slice * slices);
    put("{{\"otherData\":{{{}}},\n\"traceEvents\":[", fields(events_.facts));
    for (std::size_t p = 0; p < events_.processes.size(); ++p) add_names(p);
    for (std::size_t p = 0; p < events_.processes.size(); ++p) {
      const TraceProcess& process = events_.processes[p];
      for (std::size_t t = 0; t < process.threads.size(); ++t)
        for (const TraceSlice& slice : process.threads[t].slices) add_slice(slice, pid_of(p), tid_of(p, t));
      for (const TraceCounter& counter : process.counters) add_counter(counter, pid_of(p));
    }
    for (std::size_t a = 0; a < events_.arrows.size(); ++a) add_arrow(events_.arrows[a], a + 1);
    text_ += "\n]}\n";
    return std::move(text_);
  }

 private:
  template <typename... Values>
  void put(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Values>(values)...);
  }

  void begin_event() {
    text_ += first_ ? "\n" : ",\n";
    first_ = false;
  }

  void add_names(std::size_t p) {
    const TraceProcess& process = events_.processes[p];
    begin_event();
    put(R"({{"ph":"M","pid":{},"name":"process_name","args":{{"name":{}}}}})", pid_of(p),
        json_quoted(process.name));
    begin_event();
    put(R"({{"ph":"M","pid":{},"name":"process_sort_index","args":{{"sort_index":{}}}}})", pid_of(p), p);
    for (std::size_t t = 0; t < process.threads.size(); ++t) {
      begin_event();
      put(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":{}}}}})", pid_of(p),
          tid_of(p, t), json_quoted(process.threads[t].name));
      begin_event();
      put(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_sort_index","args":{{"sort_index":{}}}}})",
          pid_of(p), tid_of(p, t), t);
    }
  }

  // Nanoseconds as microseconds.
  void add_time(std::string_view key, std::int64_t nanoseconds) {
    put(R"(,"{}":{}.{:03})", key, nanoseconds / 1000, nanoseconds % 1000);
  }

  void add_slice(const TraceSlice& slice, std::size_t pid, std::size_t tid) {
    begin_event();
    put(R"({{"ph":"X","pid":{},"tid":{})", pid, tid);
    add_time("ts", start_ns(slice));
    add_time("dur", end_ns(slice) - start_ns(slice));
    const LabelText& label = labels_[slice.label];
    text_ += label.name;
    add_numbers(events_.labels[slice.label], slice);
    text_ += '"';
    text_ += label.arguments;
    if (slice.microbatch >= 0) put(R"("microbatch":{},)", slice.microbatch);
    if (slice.second_microbatch >= 0) put(R"("backward_microbatch":{},)", slice.second_microbatch);
    if (slice.wait > 0) put(R"("wait_us":{}.{:06},)", slice.wait / 1'000'000, slice.wait % 1'000'000);
    put(R"("start_ps":{},"duration_ps":{}}}}})", slice.start, slice.duration);
  }

  // What slice_name() puts behind the label's name.
  void add_numbers(const SliceLabel& label, const TraceSlice& slice) {
    if (!label.numbered || slice.microbatch < 0) return;
    put("{}", slice.microbatch);
    if (!label.second.empty()) put("{}{})", label.second, slice.second_microbatch);
  }

  void add_counter(const TraceCounter& counter, std::size_t pid) {
    const std::string name = json_quoted(counter.name);
    std::vector<std::string> series;
    for (const std::string& one : counter.series) series.push_back(json_quoted(one));
    const double* value = counter.values.data();
    for (const Picoseconds time : counter.times) {
      begin_event();
      put(R"({{"ph":"C","pid":{})", pid);
      add_time("ts", whole_nanoseconds(time));
      put(R"(,"name":{},"args":{{)", name);
      for (std::size_t s = 0; s < series.size(); ++s)
        put("{}{}:{:.{}f}", s == 0 ? "" : ",", series[s], *value++, counter.unit == TraceUnit::bytes ? 0 : 2);
      text_ += "}}";
    }
  }

  void add_arrow(const TraceArrow& arrow, std::size_t id) {
    const auto add_end = [&](std::string_view phase, const SlicePlace& place, std::int64_t at) {
      begin_event();
      put(R"({{"ph":{},"id":{},"pid":{},"tid":{})", phase, id, pid_of(place.process),
          tid_of(place.process, place.thread));
      add_time("ts", at);
      text_ += R"(,"cat":"pipeline","name":"transfer"})";
    };
    add_end(R"("s")", arrow.from, arrow.departs_ns);
    add_end(R"("f","bp":"e")", arrow.to, arrow.arrives_ns);
  }

  const TraceEvents& events_;
  std::vector<LabelText> labels_;
  std::string text_;
  bool first_ = true;
};

}  // namespace

std::string chrome_trace(const Plan& plan, const Timeline& timeline) {
  return ChromeWriter(trace_events(plan, timeline)).write();
}

}  // namespace simrun
