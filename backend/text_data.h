#pragma once

#include <cstdint>
#include <string>

#include "schedules/plan.h"

namespace simrun {

// A text whose bytes are the tokens (a vocabulary of 256).
class TextData {
 public:
  static constexpr std::int64_t vocabulary = 256;

  explicit TextData(std::string bytes) : bytes_(std::move(bytes)) {}

  // Token number `position` of a sample, which is a stretch of `length` + 1 bytes of the text: the labels are
  // one byte behind the tokens. It begins at a random byte, drawn by the sample's number in the whole run, so
  // that every layout, and a run that goes on behind another, reads the same.
  // REQUIRES: length < size(), 0 <= position <= length.
  std::int64_t token(std::uint64_t seed, std::int64_t sample, std::int64_t position,
                     std::int64_t length) const;
  std::string digest() const;  // SHA-256
  std::int64_t size() const { return static_cast<std::int64_t>(bytes_.size()); }

 private:
  std::string bytes_;
};

// Why a plan cannot be trained on it, with the config key; empty if it can.
std::string text_refusal(const Plan& plan, const TextData& text);

}  // namespace simrun
