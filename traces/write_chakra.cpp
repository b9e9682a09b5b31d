#include "traces/write_chakra.h"

#include <chakra.pb.h>

namespace simrun {
namespace {

namespace chakra = ChakraProtoMsg;

constexpr const char* schema_version = "0.0.4";  // of the Chakra schema

void put_number(chakra::Node& node, const char* name, std::int64_t value) {
  chakra::AttributeProto& attribute = *node.add_attr();
  attribute.set_name(name);
  attribute.set_int64_val(value);
}
void put_rank(chakra::Node& node, const char* name, std::int64_t value) {
  chakra::AttributeProto& attribute = *node.add_attr();
  attribute.set_name(name);
  attribute.set_int32_val(static_cast<std::int32_t>(value));
}

template <typename Message>
void append(std::string& out, const Message& message) {
  const std::string bytes = message.SerializeAsString();
  for (std::size_t length = bytes.size();; length >>= 7) {
    const auto low = static_cast<unsigned char>(length & 0x7fU);
    out += static_cast<char>(length >= 0x80 ? low | 0x80U : low);
    if (length < 0x80) break;
  }
  out += bytes;
}

chakra::NodeType type_of(ChakraKind kind) {
  switch (kind) {
    case ChakraKind::compute: return chakra::COMP_NODE;
    case ChakraKind::load: return chakra::MEM_LOAD_NODE;
    case ChakraKind::store: return chakra::MEM_STORE_NODE;
    case ChakraKind::send: return chakra::COMM_SEND_NODE;
    case ChakraKind::receive: return chakra::COMM_RECV_NODE;
    case ChakraKind::collective: return chakra::COMM_COLL_NODE;
  }
  return chakra::INVALID_NODE;
}

void put_exchange(const ChakraNode& of, chakra::Node& node) {
  put_number(node, "comm_size", of.bytes);
  if (of.kind == ChakraKind::collective) {
    put_number(node, "comm_type", of.collective);
    chakra::AttributeProto& group = *node.add_attr();
    group.set_name("pg_name");
    group.set_string_val(of.group);
    return;
  }
  put_rank(node, "comm_src", of.from);
  put_rank(node, "comm_dst", of.to);
  put_rank(node, "comm_tag", of.tag);
}

chakra::Node message_of(const ChakraNode& of) {
  chakra::Node node;
  node.set_id(of.id);
  node.set_name(of.name);
  node.set_type(type_of(of.kind));
  for (const std::uint64_t id : of.control) node.add_ctrl_deps(id);
  for (const std::uint64_t id : of.data) node.add_data_deps(id);
  const std::int64_t start_us = of.start_ns / 1000, end_us = (of.start_ns + of.duration_ns) / 1000;
  node.set_start_time_micros(static_cast<std::uint64_t>(start_us));
  node.set_duration_micros(static_cast<std::uint64_t>(end_us - start_us));
  chakra::AttributeProto& host = *node.add_attr();
  host.set_name("is_cpu_op");
  host.set_bool_val(false);
  put_number(node, chakra_start_ns, of.start_ns);
  put_number(node, chakra_duration_ns, of.duration_ns);
  put_number(node, "stream", of.stream);
  if (!of.phase.empty()) {
    chakra::AttributeProto& phase = *node.add_attr();
    phase.set_name(chakra_phase);
    phase.set_string_val(of.phase);
  }
  if (of.kind == ChakraKind::compute) put_number(node, "num_ops", of.flops);
  if (of.kind == ChakraKind::compute || of.kind == ChakraKind::load || of.kind == ChakraKind::store)
    put_number(node, "tensor_size", of.bytes);
  else
    put_exchange(of, node);
  return node;
}

}  // namespace

std::string chakra_trace(std::int64_t rank, std::int64_t step_ns, const std::vector<ChakraNode>& nodes) {
  std::string out;
  chakra::GlobalMetadata metadata;
  metadata.set_version(schema_version);
  chakra::AttributeProto& attribute = *metadata.add_attr();
  attribute.set_name("rank");
  attribute.set_int64_val(rank);
  chakra::AttributeProto& step = *metadata.add_attr();
  step.set_name(chakra_step_ns);
  step.set_int64_val(step_ns);
  append(out, metadata);
  for (const ChakraNode& node : nodes) append(out, message_of(node));
  return out;
}

}  // namespace simrun
