#include "backend/processes/frames.h"

#include "backend/byte_stream.h"

namespace simrun {

std::vector<std::byte> to_bytes(const ProcessIdentity& identity) {
  ByteWriter writer;
  writer.number(identity.pid);
  writer.text(identity.machine);
  return writer.take();
}

ProcessIdentity identity_from(const std::vector<std::byte>& bytes) {
  ByteReader reader(bytes);
  ProcessIdentity identity;
  identity.pid = reader.number<std::int64_t>();
  identity.machine = reader.text();
  return identity;
}

std::vector<std::byte> bytes_from(std::string_view text) {
  ByteWriter writer;
  writer.text(text);
  return writer.take();
}

std::string text_from(const std::vector<std::byte>& bytes) { return ByteReader(bytes).text(); }

std::vector<std::byte> to_bytes(const RunFailure& failure) {
  ByteWriter writer;
  writer.number(failure.kind);
  writer.text(failure.text);
  return writer.take();
}

RunFailure failure_from(const std::vector<std::byte>& bytes) {
  ByteReader reader(bytes);
  RunFailure failure;
  failure.kind = reader.number<FailureKind>();
  failure.text = reader.text();
  return failure;
}

std::vector<std::byte> to_bytes(const ThreadFabric::State& state) {
  ByteWriter writer;
  writer.number(state.idle);
  writer.number(state.sent);
  writer.number(state.delivered);
  writer.numbers(state.ranks.ended);
  writer.number(static_cast<std::int64_t>(state.ranks.waits.size()));
  for (const RankWaits::Wait& wait : state.ranks.waits) {
    writer.number(wait.rank);
    writer.number(wait.from);
    writer.text(wait.what);
  }
  return writer.take();
}

ThreadFabric::State state_from(const std::vector<std::byte>& bytes) {
  ByteReader reader(bytes);
  ThreadFabric::State state;
  state.idle = reader.number<bool>();
  state.sent = reader.number<std::int64_t>();
  state.delivered = reader.number<std::int64_t>();
  state.ranks.ended = reader.numbers<std::int64_t>();
  const auto waits = reader.number<std::int64_t>();
  for (std::int64_t i = 0; i < waits; ++i) {
    RankWaits::Wait wait;
    wait.rank = reader.number<std::int64_t>();
    wait.from = reader.number<std::int64_t>();
    wait.what = reader.text();
    state.ranks.waits.push_back(std::move(wait));
  }
  return state;
}

}  // namespace simrun
