#include "backend/text_data.h"

#include <fmt/format.h>

#include <algorithm>

#include "configs/sha256.h"
#include "models/philox.h"

namespace simrun {
namespace {

// -1: the plan has no such dimension.
std::int64_t size_of(const Plan& plan, const char* name) {
  const auto at = std::find(plan.dimension_names.begin(), plan.dimension_names.end(), name);
  const auto index = static_cast<std::size_t>(at - plan.dimension_names.begin());
  return index < plan.dimension_sizes.size() ? plan.dimension_sizes[index] : -1;
}

bool reads_text_alone(const Plan& plan) {
  for (const Segment& segment : plan.segments)
    for (const Instruction& what : segment.instructions)
      if (what.opcode == Opcode::input &&
          ((what.label != "tokens" && what.label != "labels") || what.constants.size() > 1 ||
           (!what.constants.empty() && what.constants[0] > 1)))
        return false;
  return true;
}

}  // namespace

std::int64_t TextData::token(std::uint64_t seed, std::int64_t sample, std::int64_t position,
                             std::int64_t length) const {
  const RandomStream stream(seed, "place in the text", 0);
  const std::uint64_t random = std::uint64_t{stream.word(2 * sample)} << 32 | stream.word(2 * sample + 1);
  const auto begin = static_cast<std::int64_t>(random % static_cast<std::uint64_t>(size() - length));
  return static_cast<unsigned char>(bytes_[static_cast<std::size_t>(begin + position)]);
}

std::string TextData::digest() const { return sha256(bytes_); }

std::string text_refusal(const Plan& plan, const TextData& text) {
  if (!reads_text_alone(plan))
    return "the model reads more than one text (another stack's, or tokens further ahead), and a text is all "
           "that there is: model.num_nextn_predict_layers, model.mtp_num_layers or model.model_type";
  const std::int64_t vocabulary = size_of(plan, "vocab");
  if (vocabulary < TextData::vocabulary)
    return fmt::format(
        "the tokens of a text are its bytes, {} of them, and the vocabulary has {}: model.vocab_size",
        TextData::vocabulary, std::max<std::int64_t>(vocabulary, 0));
  if (text.size() <= plan.job.seq_length)
    return fmt::format("a sample is {} bytes long and the text has {}: training.seq_length",
                       plan.job.seq_length + 1, text.size());
  return "";
}

}  // namespace simrun
