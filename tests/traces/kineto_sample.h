#pragma once

#include <fmt/format.h>

#include <string>

#include "traces/read_chrome.h"

namespace simrun {

inline RecordedTrace read_text(const std::string& text, const std::string& name = "trace.json") {
  ByteSource bytes(text, name);
  return read_chrome_trace(bytes);
}

// Events as Kineto writes them. Times in microseconds.
inline std::string kineto_event(const std::string& category, const std::string& name, double start,
                                double duration, const std::string& place, const std::string& args) {
  return fmt::format(
      "{{\"ph\": \"X\", \"cat\": \"{}\", \"name\": \"{}\", {}, \"ts\": {:.3f}, \"dur\": {:.3f}, \"args\": "
      "{{{}}}}}",
      category, name, place, start, duration, args);
}
inline std::string kineto_kernel(const std::string& name, double start, double duration, int correlation,
                                 int stream = 7, const std::string& more = "") {
  return kineto_event(
      "kernel", name, start, duration, fmt::format("\"pid\": 0, \"tid\": {}", stream),
      fmt::format("\"device\": 0, \"stream\": {}, \"correlation\": {}{}", stream, correlation, more));
}
inline std::string kineto_launch(double start, int correlation, int thread = 100) {
  return kineto_event("cuda_runtime", "cudaLaunchKernel", start, 1,
                      fmt::format("\"pid\": 100, \"tid\": {}", thread),
                      fmt::format("\"cbid\": 211, \"correlation\": {}", correlation));
}
inline std::string kineto_host(const std::string& category, const std::string& name, double start,
                               double duration, int thread = 100) {
  return kineto_event(category, name, start, duration, fmt::format("\"pid\": 100, \"tid\": {}", thread), "");
}

inline std::string kineto_trace(const std::vector<std::string>& events, int rank = 0, int world = 1) {
  return fmt::format(
      "{{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [\n    {{\"id\": 0, \"name\": \"NVIDIA H100 80GB "
      "HBM3\", \"numSms\": 132}}\n  ],\n  \"distributedInfo\": {{\"backend\": \"nccl\", \"rank\": {}, "
      "\"world_size\": {}}},\n  \"traceEvents\": [\n{}\n  ],\n  \"traceName\": "
      "\"./worker0.pt.trace.json\"\n}}\n",
      rank, world, fmt::join(events, ",\n"));
}

}  // namespace simrun
