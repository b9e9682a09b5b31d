#include <algorithm>
#include <cmath>

#include "backend/byte_stream.h"
#include "backend/observations.h"
#include "backend/parameter_values.h"

// What the ranks of one process have told, as bytes for process 0, which puts all together. Not the sums:
// losses and rows add there in the order in which they would in one process.
namespace simrun {

void ParameterValues::write(ByteWriter& writer) const {
  writer.number(replica_difference_);
  writer.number(static_cast<std::int64_t>(tensors_.size()));
  for (const auto& [id, tensor] : tensors_) {
    writer.number(id);
    writer.numbers(tensor.values);
    std::vector<std::uint8_t> known(tensor.known.begin(), tensor.known.end());
    writer.numbers(known);
  }
}

void ParameterValues::merge(ByteReader& reader) {
  const auto note = [&](double difference) {
    if (std::isnan(difference) || difference > replica_difference_) replica_difference_ = difference;
  };
  note(reader.number<double>());
  const auto count = reader.number<std::int64_t>();
  for (std::int64_t t = 0; t < count; ++t) {
    Tensor& tensor = tensors_.at(reader.number<Index>());
    const auto values = reader.numbers<double>();
    const auto known = reader.numbers<std::uint8_t>();
    if (values.empty()) continue;
    tensor.values.resize(values.size());
    tensor.known.resize(values.size());
    double largest = 0, apart = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (known[i] == 0) continue;
      largest = std::max(largest, std::abs(values[i]));
      if (tensor.known[i] && !(std::abs(values[i] - tensor.values[i]) <= apart))
        apart = std::abs(values[i] - tensor.values[i]);
      tensor.values[i] = values[i];
      tensor.known[i] = true;
    }
    note(largest > 0 ? apart / largest : apart);
  }
}

namespace {

struct RecordedRow {
  RowsKey key;
  std::int64_t rows = 0;
};

void write(const RecordedRows& recorded, ByteWriter& writer) {
  std::vector<RecordedRow> rows;
  for (const auto& [key, count] : recorded) rows.push_back({key, count});
  writer.numbers(rows);
}

void merge_into(RecordedRows& recorded, ByteReader& reader) {
  for (const RecordedRow& row : reader.numbers<RecordedRow>()) recorded.emplace(row.key, row.rows);
}

}  // namespace

std::vector<std::byte> Observations::to_bytes() const {
  ByteWriter writer;
  writer.number(static_cast<std::int64_t>(loss_parts_.size()));
  for (const auto& [step, share] : loss_parts_) {
    writer.number(step);
    writer.number(share);
  }
  gradients_.write(writer);
  parameters_.write(writer);
  write(rows_.of_first_step, writer);
  write(rows_.of_further_steps, writer);
  for (const ParameterValues& moment : moments_) moment.write(writer);
  return writer.take();
}

void Observations::merge(const std::vector<std::byte>& bytes) {
  ByteReader reader(bytes);
  const auto parts = reader.number<std::int64_t>();
  for (std::int64_t part = 0; part < parts; ++part) {
    const auto step = reader.number<std::int64_t>();
    loss_parts_.emplace_back(step, reader.number<double>());
  }
  gradients_.merge(reader);
  parameters_.merge(reader);
  merge_into(rows_.of_first_step, reader);
  merge_into(rows_.of_further_steps, reader);
  for (ParameterValues& moment : moments_) moment.merge(reader);
}

}  // namespace simrun
