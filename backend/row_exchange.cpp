#include <fmt/format.h>

#include <cstring>
#include <optional>
#include <utility>

#include "backend/exchange.h"
#include "backend/row_copies.h"
#include "schedules/extent_tables.h"

// Exchanges of experts' buffers: which rows go where follows from the rows that a rank has and the part of
// the other's buffer. Where rows change their rank, the members first tell one another which ones they send:
// what an all-to-all of unequal counts has to know. A SEND tells which rows its buffers have before it sends
// them.
namespace simrun {
namespace {

constexpr std::int64_t no_rows_known = -1;

// The choices that are rows, and behind them the axes over which they are copies.
std::vector<std::byte> bytes_of_rows(const ExpertRows& rows) {
  std::vector<std::byte> bytes(rows.choices().size() * sizeof(ExpertRow));
  if (!bytes.empty()) std::memcpy(bytes.data(), rows.choices().data(), bytes.size());
  for (const std::uint8_t axis : rows.copied_over()) bytes.push_back(std::byte{axis});
  return bytes;
}

std::size_t row_bytes(const Message& message) {
  return static_cast<std::size_t>(message.elements) * sizeof(ExpertRow);
}

void append_rows(const Message& message, std::vector<ExpertRow>& rows) {
  const std::size_t before = rows.size();
  rows.resize(before + static_cast<std::size_t>(message.elements));
  if (message.elements > 0) std::memcpy(&rows[before], message.payload.data(), row_bytes(message));
}

// A rank's place along the axes that split what is behind a buffer's rows.
std::int64_t place_among_columns(const Plan& plan, const Buffer& buffer, const RankPlace& place) {
  const Mesh& mesh = plan.stages[static_cast<std::size_t>(place.pipeline_rank)].meshes.front();
  std::vector<std::uint8_t> axes;
  for (std::size_t d = 2; d < buffer.split.size(); ++d)
    for (const std::uint8_t axis : axes_of_split(buffer.split[d], mesh)) axes.push_back(axis);
  return place_along(mesh, axes, place.local).index;
}

std::vector<std::uint8_t> copied_axes(const Message& message) {
  std::vector<std::uint8_t> axes;
  for (std::size_t i = row_bytes(message); i < message.payload.size(); ++i)
    axes.push_back(std::to_integer<std::uint8_t>(message.payload[i]));
  return axes;
}

}  // namespace

SharedRows RankExchange::rows_behind(const RowsCall& call) {
  const ExpertRows& rows = *call.input.rows;
  if (call.what.opcode == Opcode::all_reduce) return call.input.rows;
  ExpertRows own = part_of_rows(rows, plan_, call.output, place_);
  // Summands have the same rows on every rank.
  if (call.what.opcode == Opcode::copy || call.what.opcode == Opcode::reduce_scatter)
    return std::make_shared<const ExpertRows>(std::move(own));
  std::vector<ExpertRow> arriving = own.choices();
  std::vector<RankPlace> members =
      members_of(plan_, plan_.communications[call.what.communication].group, place_);
  // Others have other columns of rows that one with the same columns has as well.
  const std::int64_t columns = place_among_columns(plan_, *call.input.buffer, place_);
  std::erase_if(members, [&](const RankPlace& member) {
    return place_among_columns(plan_, *call.input.buffer, member) != columns;
  });
  const MessageTag tag = tag_of(plan_, call.what, call.microbatch);
  for (const RankPlace& member : members) {
    if (member.rank == place_.rank) continue;
    const ExpertRows sent = part_of_rows(rows, plan_, call.output, member);
    transport_.send(member.rank, tag, {std::ssize(sent.choices()), bytes_of_rows(sent)});
  }
  for (const RankPlace& member : members)
    if (member.rank != place_.rank) append_rows(transport_.receive(member.rank, tag, call.of), arriving);
  return std::make_shared<const ExpertRows>(own.experts(), std::move(arriving), own.copied_over(),
                                            own.experts_of_row());
}

void RankExchange::announce_rows(const Call& call, std::int64_t to) {
  for (const Argument& input : call.inputs) {
    if (!has_expert_rows(plan_, *input.buffer)) continue;
    Message rows{no_rows_known, {}};
    if (input.rows != nullptr) rows = {std::ssize(input.rows->choices()), bytes_of_rows(*input.rows)};
    transport_.send(to, tag_of(plan_, call.what, call.microbatch), std::move(rows));
  }
}

SharedRows RankExchange::rows_announced(const Instruction& what, const Buffer& output,
                                        std::int32_t microbatch, const std::string& of) {
  const RankPlace from = peer_of(plan_, plan_.communications[what.communication], place_);
  const Message message = transport_.receive(from.rank, tag_of(plan_, what, microbatch), of);
  if (message.elements == no_rows_known) return nullptr;
  std::vector<ExpertRow> rows;
  append_rows(message, rows);
  return std::make_shared<const ExpertRows>(experts_of(plan_, output, place_), std::move(rows),
                                            copied_axes(message), experts_of_row(plan_, output, place_));
}

// all_gather, all_to_all, reduce_scatter.
void RankExchange::collect_rows(const Call& call, std::size_t operand) {
  const Communication& communication = plan_.communications[call.what.communication];
  const std::vector<RankPlace> members = members_of(plan_, communication.group, place_);
  const Argument& input = call.inputs[operand];
  const Argument& output = call.outputs[operand];
  const MessageTag tag = tag_of(plan_, call.what, call.microbatch);
  std::vector<std::byte> own;
  for (const RankPlace& member : members) {
    const std::vector<std::int64_t> wanted = rows_of_part(*input.rows, plan_, *output.buffer, member);
    const std::optional<TensorPart> columns =
        common_columns(input.part, part_of(plan_, *output.buffer, member, call.microbatch));
    Message message{0, {}};
    if (columns)
      message = {static_cast<std::int64_t>(wanted.size()) * elements(*columns),
                 pack_rows(device_, input, {wanted, *columns})};
    if (member.rank == place_.rank)
      own = std::move(message.payload);
    else
      transport_.send(member.rank, tag, std::move(message));
  }
  const bool adds = call.what.opcode == Opcode::reduce_scatter;
  bool first = true;
  std::int64_t arrived = 0;
  for (const RankPlace& member : members) {
    const std::vector<std::int64_t> from = rows_of_part(*output.rows, plan_, *input.buffer, member);
    const std::optional<TensorPart> columns =
        common_columns(output.part, part_of(plan_, *input.buffer, member, call.microbatch));
    const std::int64_t count = columns ? static_cast<std::int64_t>(from.size()) * elements(*columns) : 0;
    const std::vector<std::byte> payload =
        member.rank == place_.rank ? std::exchange(own, {}) : receive(call, member, count).payload;
    if (columns)
      unpack_rows(device_, payload, output, {from, *columns},
                  first || !adds ? Combine::assign : Combine::add);
    first = false;
    arrived += count;
  }
  const std::int64_t expected = output.rows->size() * width_of_rows(output);
  if (arrived < expected)
    throw ExecutionError(
        fmt::format("{} elements of experts' rows arrive, {} belong there", arrived, expected));
}

}  // namespace simrun
