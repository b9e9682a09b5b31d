#include "traces/read_chakra.h"

#include <chakra.pb.h>

#include <catch2/catch.hpp>

#include "traces/compare_imported.h"
#include "traces/imported_run.h"

namespace simrun {
namespace {

namespace chakra = ChakraProtoMsg;

std::string varint(std::size_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7U) bytes += static_cast<char>(0x80U | (number & 0x7fU));
  return bytes + static_cast<char>(number);
}

template <typename Message>
std::string delimited(const Message& message) {
  const std::string bytes = message.SerializeAsString();
  return varint(bytes.size()) + bytes;
}

chakra::Node node(const std::string& name, chakra::NodeType type, std::uint64_t start,
                  std::uint64_t duration) {
  chakra::Node of;
  of.set_name(name);
  of.set_type(type);
  of.set_start_time_micros(start);
  of.set_duration_micros(duration);
  return of;
}

void set(chakra::Node& of, const std::string& name, std::int64_t value) {
  chakra::AttributeProto& attribute = *of.add_attr();
  attribute.set_name(name);
  attribute.set_int64_val(value);
}

// A product, an all-reduce of 4 MiB beside it, and an operator of the host.
std::string two_nodes() {
  chakra::GlobalMetadata metadata;
  metadata.set_version("0.0.4");
  chakra::AttributeProto& rank = *metadata.add_attr();
  rank.set_name("rank");
  rank.set_int32_val(5);
  chakra::Node reduce = node("ncclDevKernel_x", chakra::COMM_COLL_NODE, 1005, 20);
  set(reduce, "comm_type", chakra::ALL_REDUCE);
  set(reduce, "comm_size", 4 << 20);
  chakra::Node host = node("aten::mm", chakra::COMP_NODE, 990, 5);
  chakra::AttributeProto& is_host = *host.add_attr();
  is_host.set_name("is_cpu_op");
  is_host.set_bool_val(true);
  return delimited(metadata) + delimited(node("sm90_xmma_gemm_bf16", chakra::COMP_NODE, 1000, 10)) +
         delimited(reduce) + delimited(host);
}

RecordedTrace read_bytes(const std::string& bytes) {
  ByteSource source(bytes, "rank.et");
  return read_chakra_trace(source);
}

}  // namespace

TEST_CASE("Chakra: nodes with a duration are kernels, with rank, collective and bytes from attributes") {
  const RecordedTrace trace = read_bytes(two_nodes());
  CHECK(trace.origin == TraceOrigin::chakra);
  CHECK(trace.rank == 5);
  REQUIRE(trace.kernels.size() == 2);
  CHECK(trace.kernels[0].start_ns == 1'000'000);
  CHECK(trace.kernels[1].duration_ns == 20'000);
  REQUIRE(trace.exchanges.size() == 1);
  CHECK(trace.exchanges[0].bytes_in == 4 << 20);
  CHECK(trace.notes.at("nodes of the host, left out").count == 1);
  const ImportedComparison tally = tally_imported(imported_run({trace}));
  REQUIRE(tally.rows.by_kind.size() == 2);
  CHECK(tally.rows.by_kind[0].name == "gemm");
  CHECK(tally.rows.by_kind[1].name == "all_reduce");
  CHECK(tally.rows.step.measured_s == Approx(25e-6));  // 1000 to 1025 us
}

TEST_CASE("Chakra: a file that is cut off anywhere gives its whole nodes and a note, or is refused") {
  const std::string whole = two_nodes();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    try {
      const RecordedTrace trace = read_bytes(whole.substr(0, size));
      CHECK(trace.kernels.size() <= 2);
      CHECK_FALSE(trace.kernels.empty());
    } catch (const ConfigError& error) {
      CHECK(error.diagnostics().size() == 1);
    }
  }
  // Without its last byte only the host's node is lost.
  const RecordedTrace cut = read_bytes(whole.substr(0, whole.size() - 1));
  CHECK(cut.kernels.size() == 2);
  CHECK(cut.notes.at("the file was cut off; what stands before was read").count == 1);
}

TEST_CASE("Chakra: what is no such trace is refused at its byte") {
  const auto message = [](const std::string& bytes) {
    try {
      read_bytes(bytes);
    } catch (const ConfigError& error) {
      return error.diagnostics().front().message;
    }
    return std::string();
  };
  CHECK(message(std::string(8, '\xff')) == "a message's length is no number (byte 0)");
  CHECK(message("\x02\xff\xff") ==
        "this is no Chakra trace: its first message is no GlobalMetadata (byte 0)");
  const std::string metadata = delimited(chakra::GlobalMetadata());
  CHECK(message(metadata + "\x02\xff\xff") == "this message is no Node (byte 1)");
  CHECK(message(metadata) == "none of its 0 nodes has a duration");
  CHECK(message("") == "the trace was cut off before its first message (byte 0)");
}

}  // namespace simrun
