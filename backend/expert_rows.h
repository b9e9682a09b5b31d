#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/tensor_part.h"
#include "schedules/plan.h"

// Rows of tokens on their way to experts and back. How many rows a buffer [experts, capacity, ...] has is
// known when tokens have been routed; a plan has a bound or an expectation of it. So such a buffer is a list
// of rows: every row knows its expert and the token that it is of, and what ranks exchange follows from these
// lists as it follows from parts of tensors otherwise (backend/tensor_part.h).
namespace simrun {

// Choice number `slot` of a token. Choices, and rows, lie by expert, then token, then slot, whoever has them,
// so that sums over them have one order.
struct ExpertRow {
  std::int64_t token = 0;   // place in the microbatch, batch x sequence + place in the sequence; or no_token
  std::int64_t source = 0;  // place in the device list of the rank that dispatched it
  std::int32_t expert = 0;  // of the model
  std::int32_t slot = 0;    // of an empty row: its number among those of its source
};
constexpr std::int64_t no_token = INT64_MAX;  // an empty row, which pads an expert to its capacity: zero

// The experts that a buffer of rows has on a rank: its first dimension.
DimPart experts_of(const Plan& plan, const Buffer& buffer, const RankPlace& place);

// A row is a choice, or, of so many experts of one GPU or node, all choices of a token among them: that row
// lies where the first of these would.
class ExpertRows {
 public:
  ExpertRows(const DimPart& experts, std::vector<ExpertRow> choices,
             std::vector<std::uint8_t> copied_over = {}, std::int64_t experts_of_row = 1);

  const DimPart& experts() const { return experts_; }
  // Axes over which ranks have dispatched the same tokens, each for itself, so that all rows of a list have
  // one source: those of tensor parallelism without sequence parallelism, or over which tokens were gathered.
  // Where such an axis splits rows, the ranks share out each expert's in turn.
  const std::vector<std::uint8_t>& copied_over() const { return copied_over_; }
  std::int64_t experts_of_row() const { return experts_of_row_; }
  const std::vector<ExpertRow>& rows() const { return rows_; }  // the first choice of each
  std::int64_t size() const { return static_cast<std::int64_t>(rows_.size()); }
  const std::vector<ExpertRow>& choices() const { return choices_; }
  const std::vector<std::int64_t>& row_of_choice() const { return row_of_choice_; }
  // Rows of the rank's expert number `expert`, counted from its first: [begin(expert), begin(expert + 1)).
  std::int64_t begin(std::int64_t expert) const { return begins_[static_cast<std::size_t>(expert)]; }

 private:
  void group_choices();

  DimPart experts_;
  std::int64_t experts_of_row_;
  std::vector<ExpertRow> choices_, rows_;
  std::vector<std::int64_t> row_of_choice_, begins_;
  std::vector<std::uint8_t> copied_over_;
};
using SharedRows = std::shared_ptr<const ExpertRows>;

// A buffer [experts, capacity, ...] whose rows routing decides.
bool has_expert_rows(const Plan& plan, const Buffer& buffer);

// How many experts' choices of a token are one row of a buffer: those of a node, of a GPU, or each its own.
std::int64_t experts_of_row(const Plan& plan, const Buffer& buffer, const RankPlace& place);

// The same choices as rows of another buffer.
SharedRows rows_as_in(const SharedRows& rows, const Plan& plan, const Buffer& buffer, const RankPlace& place);

// The rows that a dispatch makes of tokens: one for each choice whose expert the rank's part of the output
// has. With constants (backend/operations.h) an expert takes no more of a rank's tokens than the output has
// room for by the plan (backend/expert_capacity.h), and has that many rows. `chosen`: the experts [batch,
// sequence, topk] of the tokens in `tokens`.
struct Dispatch {
  const Plan& plan;
  const Instruction& what;
  RankPlace place;
  const TensorPart& tokens;  // of the indices, [batch, sequence, topk]
  const std::vector<std::int64_t>& chosen;
};
ExpertRows dispatched_rows(const Dispatch& dispatch, std::int32_t microbatch);

// Numbers, ascending, of the rows that a rank's part of a buffer has: those of its experts, dispatched by
// ranks that have the same place along the axes that split the buffer's rows; of copies, each rank's share.
std::vector<std::int64_t> rows_of_part(const ExpertRows& rows, const Plan& plan, const Buffer& buffer,
                                       const RankPlace& place);

// Those rows, as the rank's own part of the buffer.
ExpertRows part_of_rows(const ExpertRows& rows, const Plan& plan, const Buffer& buffer,
                        const RankPlace& place);

}  // namespace simrun
