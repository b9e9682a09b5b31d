// The part of RankExchange about parameter servers (schedules/parameter_server.h).
#include <algorithm>
#include <optional>

#include "backend/exchange.h"

namespace simrun {
namespace {

// Who is what in one exchange. Pieces of a bucket are equal, the j-th is server j's.
struct Servers {
  std::vector<RankPlace> workers, servers;
  std::optional<std::size_t> own_piece;  // of this rank, if it is a server
  bool is_worker = false;
};

Servers servers_of(const Plan& plan, const Communication& communication, const RankPlace& place) {
  const std::vector<RankPlace> members = members_of(plan, communication.group, place);
  const std::vector<std::int64_t>& places = communication.servers.members;
  Servers result;
  for (std::size_t m = 0; m < members.size(); ++m) {
    const bool serves = std::find(places.begin(), places.end(), static_cast<std::int64_t>(m)) != places.end();
    const bool is_own = members[m].rank == place.rank;
    if (serves && is_own) result.own_piece = result.servers.size();
    if (serves) result.servers.push_back(members[m]);
    if (serves && communication.servers.dedicated) continue;
    result.workers.push_back(members[m]);
    result.is_worker = result.is_worker || is_own;
  }
  return result;
}

Argument flat_operand(const Argument& argument) {
  const std::int64_t count = elements(argument.part);
  return {argument.buffer, {{0, count, count}}, argument.data};
}

TensorPart piece_of_server(const Argument& bucket, std::size_t server, std::size_t servers) {
  const std::int64_t whole = bucket.part.front().extent, size = whole / static_cast<std::int64_t>(servers);
  return {{static_cast<std::int64_t>(server) * size, size, whole}};
}

}  // namespace

// Servers add in the order of the workers. The own part may lie in the bucket: it is packed first.
void RankExchange::push(const Call& call) {
  const Servers of = servers_of(plan_, plan_.communications[call.what.communication], place_);
  std::vector<std::byte> own;
  for (std::size_t server = 0; of.is_worker && server < of.servers.size(); ++server) {
    const Argument bucket = flat_operand(call.inputs[0]);
    const TensorPart piece = piece_of_server(bucket, server, of.servers.size());
    if (of.servers[server].rank == place_.rank)
      own = device_.pack(bucket, piece);
    else
      send(call, of.servers[server].rank, bucket, piece);
  }
  if (!of.own_piece) return;
  const Argument part = flat_operand(call.outputs[0]);
  bool first = true;
  for (const RankPlace& worker : of.workers) {
    const std::vector<std::byte> payload = worker.rank == place_.rank
                                               ? std::exchange(own, {})
                                               : receive(call, worker, part.part.front().extent).payload;
    device_.unpack(payload, part, part.part, first ? Combine::assign : Combine::add);
    first = false;
  }
}

void RankExchange::pull(const Call& call) {
  const Servers of = servers_of(plan_, plan_.communications[call.what.communication], place_);
  std::vector<std::byte> own;
  if (of.own_piece) {
    const Argument part = flat_operand(call.inputs[0]);
    own = device_.pack(part, part.part);
    for (const RankPlace& worker : of.workers)
      if (worker.rank != place_.rank) send(call, worker.rank, part, part.part);
  }
  for (std::size_t server = 0; of.is_worker && server < of.servers.size(); ++server) {
    const Argument bucket = flat_operand(call.outputs[0]);
    const TensorPart piece = piece_of_server(bucket, server, of.servers.size());
    const bool is_own = of.own_piece == server;
    device_.unpack(is_own ? own : receive(call, of.servers[server], piece.front().extent).payload, bucket,
                   piece, Combine::assign);
  }
}

}  // namespace simrun
