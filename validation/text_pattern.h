#pragma once

#include <optional>
#include <string>

namespace simrun {

// What `pattern` captured where `text` holds it: "" without '{}', '{#}' and '{text}'. Nothing where it does
// not. Case does not count. '*' stands for any characters, '{}' for a run of letters, digits and _.+-, '{#}'
// for a number, '{text}' for all up to a blank, a quotation mark or ';'. What follows a '=' in front stands
// for itself, with its case.
std::optional<std::string> matched(const std::string& pattern, const std::string& text);

// Likewise, but not where the text denies it: "no DeepEP", "without MoE A2A overlap", "LoRA: none", "A2A
// overlap is off". What denies may be part of a pattern.
std::optional<std::string> said(const std::string& pattern, const std::string& text);

// The text without the words that it denies: "bf16 (no FP8)" is "bf16 (no )".
std::string undenied(const std::string& text);

}  // namespace simrun
