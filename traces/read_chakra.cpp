#include "traces/read_chakra.h"

#include <chakra.pb.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "traces/write_chakra.h"

namespace simrun {
namespace {

namespace chakra = ChakraProtoMsg;

constexpr std::uint64_t largest_message = std::uint64_t{1} << 26;        // bytes
constexpr std::uint64_t largest_time = (std::uint64_t{1} << 61) / 1000;  // us

std::optional<std::int64_t> whole_number(const chakra::AttributeProto& of) {
  constexpr std::int64_t most = std::int64_t{1} << 60;
  switch (of.value_case()) {
    case chakra::AttributeProto::kInt32Val: return of.int32_val();
    case chakra::AttributeProto::kInt64Val: return std::clamp(of.int64_val(), -most, most);
    case chakra::AttributeProto::kUint32Val: return of.uint32_val();
    case chakra::AttributeProto::kUint64Val:
      return static_cast<std::int64_t>(std::min(of.uint64_val(), static_cast<std::uint64_t>(most)));
    case chakra::AttributeProto::kSint32Val: return of.sint32_val();
    case chakra::AttributeProto::kSint64Val: return std::clamp(of.sint64_val(), -most, most);
    case chakra::AttributeProto::kFixed32Val: return of.fixed32_val();
    case chakra::AttributeProto::kFixed64Val:
      return static_cast<std::int64_t>(std::min(of.fixed64_val(), static_cast<std::uint64_t>(most)));
    case chakra::AttributeProto::kSfixed32Val: return of.sfixed32_val();
    case chakra::AttributeProto::kSfixed64Val: return std::clamp(of.sfixed64_val(), -most, most);
    case chakra::AttributeProto::kBoolVal: return of.bool_val() ? 1 : 0;
    default: return std::nullopt;
  }
}

template <typename Message>
const chakra::AttributeProto* attribute(const Message& message, std::string_view name) {
  for (const chakra::AttributeProto& of : message.attr())
    if (of.name() == name) return &of;
  return nullptr;
}
template <typename Message>
std::optional<std::int64_t> number_of(const Message& message, std::string_view name) {
  const chakra::AttributeProto* const of = attribute(message, name);
  return of == nullptr ? std::nullopt : whole_number(*of);
}

// As torch.distributed calls them (traces/kernel_kind.h).
const char* collective_name(std::int64_t type) {
  static constexpr std::array<const char*, 10> names{
      "all_reduce", "reduce",     "all_gather",     "gather",         "scatter",
      "broadcast",  "all_to_all", "reduce_scatter", "reduce_scatter", "barrier"};
  return type >= 0 && type < static_cast<std::int64_t>(names.size())
             ? names.at(static_cast<std::size_t>(type))
             : "";
}

bool is_exchange(chakra::NodeType type) {
  return type == chakra::COMM_SEND_NODE || type == chakra::COMM_RECV_NODE || type == chakra::COMM_COLL_NODE;
}

class ChakraReader {
 public:
  explicit ChakraReader(ByteSource& bytes) : bytes_(bytes), names_(trace_.names) {
    trace_.path = bytes.name();
    trace_.origin = TraceOrigin::chakra;
  }

  RecordedTrace read() {
    std::string message;
    if (!read_message(message)) refuse_empty();
    chakra::GlobalMetadata metadata;
    if (!metadata.ParseFromString(message))
      refuse("this is no Chakra trace: its first message is no GlobalMetadata");
    trace_.rank = number_of(metadata, "rank");
    if (const std::optional<std::int64_t> step = number_of(metadata, chakra_step_ns)) {
      trace_.origin = TraceOrigin::simrun;
      trace_.step_ns = std::max<std::int64_t>(*step, 0);
    }
    while (read_message(message)) {
      chakra::Node node;
      if (!node.ParseFromString(message)) refuse("this message is no Node");
      ++trace_.events;
      add(node);
    }
    if (trace_.kernels.empty())
      throw ConfigError({{{trace_.path, 0, 0},
                          fmt::format("none of its {} nodes has a duration", trace_.events),
                          "link the trace with the device's (chakra_trace_link) before it is imported."}});
    return std::move(trace_);
  }

 private:
  [[noreturn]] void refuse(const std::string& message) const {
    throw ConfigError({{{trace_.path, 0, 0},
                        fmt::format("{} (byte {})", message, begin_),
                        "a Chakra trace is a GlobalMetadata and Nodes, each behind its length."}});
  }
  [[noreturn]] void refuse_empty() const { refuse("the trace was cut off before its first message"); }

  // False: the file ends.
  bool read_message(std::string& message) {
    begin_ = bytes_.offset();
    if (bytes_.peek() == ByteSource::end) {
      if (!bytes_.fault().empty()) note_cut_off();
      return false;
    }
    std::uint64_t length = 0;
    for (unsigned shift = 0;; shift += 7) {
      const int byte = bytes_.next();
      if (byte == ByteSource::end) return note_cut_off();
      if (shift > 28) refuse("a message's length is no number");
      length |= (static_cast<std::uint64_t>(byte) & 0x7fU) << shift;
      if ((byte & 0x80) == 0) break;
    }
    if (length > largest_message) refuse(fmt::format("a message of {} bytes", length));
    message.clear();
    for (std::uint64_t i = 0; i < length; ++i) {
      const int byte = bytes_.next();
      if (byte == ByteSource::end) return note_cut_off();
      message += static_cast<char>(byte);
    }
    return true;
  }

  bool note_cut_off() {
    const std::string why = bytes_.fault().empty() ? "the file was cut off" : bytes_.fault();
    add_note(trace_.notes, why + "; what stands before was read", {trace_.path, 0, 0});
    trace_.is_cut_off = true;
    return false;
  }

  void note(const std::string& what) { add_note(trace_.notes, what, {trace_.path, 0, 0}); }

  void add(const chakra::Node& node) {
    if (node.type() == chakra::INVALID_NODE || node.type() == chakra::METADATA_NODE) return;
    if (number_of(node, "is_cpu_op").value_or(0) != 0) return note("nodes of the host, left out");
    const std::optional<Times> times = times_of(node);
    if (!times) return note("nodes whose time is no time, left out");
    if (times->duration_ns == 0) return note("nodes without a duration, left out");
    TracedKernel kernel;
    kernel.start_ns = times->start_ns;
    kernel.duration_ns = times->duration_ns;
    kernel.name = names_.index_of(node.name());
    kernel.stream = stream_of(node);
    if (const chakra::AttributeProto* const phase = attribute(node, chakra_phase))
      kernel.phase = names_.index_of(phase->string_val());
    if (is_exchange(node.type())) {
      kernel.exchange = static_cast<Index>(trace_.exchanges.size());
      trace_.exchanges.push_back(exchange_of(node));
    }
    trace_.kernels.push_back(kernel);
  }

  struct Times {
    std::int64_t start_ns = 0, duration_ns = 0;
  };
  // simrun's own traces say nanoseconds in attributes (traces/write_chakra.h); the schema's times are whole
  // microseconds.
  static std::optional<Times> times_of(const chakra::Node& node) {
    if (node.start_time_micros() > largest_time || node.duration_micros() > largest_time) return {};
    const Times whole{static_cast<std::int64_t>(node.start_time_micros()) * 1000,
                      static_cast<std::int64_t>(node.duration_micros()) * 1000};
    const Times times{number_of(node, chakra_start_ns).value_or(whole.start_ns),
                      number_of(node, chakra_duration_ns).value_or(whole.duration_ns)};
    constexpr auto most = static_cast<std::int64_t>(largest_time) * 1000;
    if (times.start_ns < 0 || times.duration_ns < 0 || times.start_ns > most || times.duration_ns > most)
      return {};
    return times;
  }

  static TracedExchange exchange_of(const chakra::Node& node) {
    TracedExchange exchange;
    exchange.collective = node.type() == chakra::COMM_SEND_NODE ? "send"
                          : node.type() == chakra::COMM_RECV_NODE
                              ? "recv"
                              : collective_name(number_of(node, "comm_type").value_or(-1));
    exchange.bytes_in = exchange.bytes_out =
        std::max<std::int64_t>(number_of(node, "comm_size").value_or(0), 0);
    if (const chakra::AttributeProto* const group = attribute(node, "pg_name"))
      exchange.group = group->string_val();
    return exchange;
  }

  Index stream_of(const chakra::Node& node) {
    const std::optional<std::int64_t> number = number_of(node, "stream");
    const std::string name = number                     ? fmt::format("stream {}", *number)
                             : is_exchange(node.type()) ? "communication"
                                                        : "compute";
    const auto found = std::ranges::find(trace_.streams, name, &TracedStream::name);
    if (found != trace_.streams.end()) return static_cast<Index>(found - trace_.streams.begin());
    trace_.streams.push_back({"0", name, name});
    return static_cast<Index>(trace_.streams.size() - 1);
  }

  ByteSource& bytes_;
  RecordedTrace trace_;
  NameTable names_;
  std::int64_t begin_ = 0;  // of the message at hand
};

}  // namespace

RecordedTrace read_chakra_trace(ByteSource& bytes) { return ChakraReader(bytes).read(); }

}  // namespace simrun
