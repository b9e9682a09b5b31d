#include "validation/cell_words.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>
#include <vector>

#include "validation/link_text.h"
#include "validation/text_pattern.h"

namespace simrun {
namespace {

// Letters and digits alone, in lower case: "Interleaved 1F1B" is interleaved1f1b.
std::string squeezed(const std::string& text) {
  std::string letters;
  for (const char c : lower_case(text))
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) letters += c;
  return letters;
}

bool holds(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// A part of a squeezed cell and the word that it stands for; the first that the cell holds counts.
using Spellings = std::vector<std::pair<std::string_view, const char*>>;

std::optional<std::string> first_held(const std::string& letters, const Spellings& spellings) {
  for (const auto& [part, word] : spellings)
    if (holds(letters, part)) return word;
  return std::nullopt;
}

std::optional<std::string> equal_to(const std::string& letters, const Spellings& spellings) {
  for (const auto& [whole, word] : spellings)
    if (letters == whole) return word;
  return std::nullopt;
}

const Spellings switches{{"1", "1"},       {"yes", "1"},  {"y", "1"},       {"true", "1"}, {"on", "1"},
                         {"enabled", "1"}, {"0", "0"},    {"no", "0"},      {"n", "0"},    {"false", "0"},
                         {"off", "0"},     {"none", "0"}, {"disabled", "0"}};

std::optional<std::string> attention_word(const std::string& letters) {
  static const Spellings kernels{
      {"flash", "1"}, {"2", "1"},     {"3", "1"},        {"fa1", "1"},         {"fa2", "1"},
      {"fa3", "1"},   {"sdpa", "1"},  {"fa4", "1"},      {"flex", "1"},        {"flexattention", "1"},
      {"cudnn", "1"}, {"fused", "1"}, {"xformers", "1"}, {"memefficient", "1"}};
  if (const auto known = equal_to(letters, switches)) return known;
  if (letters.starts_with("flash")) return "1";
  if (letters.starts_with("no") || holds(letters, "unfused")) return "0";
  return equal_to(letters, kernels);
}

// Types that write_precision() reads keep what stands beside them: "fp8-cs" names a recipe.
std::optional<std::string> precision_word(const std::string& cell, const std::string& letters) {
  constexpr std::array<std::string_view, 3> kept{"nvfp4", "fp8", "bf16"};
  static const Spellings others{{"float4", "nvfp4"},  {"fp4", "nvfp4"},  {"float8", "fp8"},
                                {"bfloat16", "bf16"}, {"fp16", "fp16"},  {"float16", "fp16"},
                                {"half", "fp16"},     {"tf32", "tf32"},  {"fp32", "fp32"},
                                {"float32", "fp32"},  {"single", "fp32"}};
  if (holds(letters, "mxfp4")) return std::nullopt;
  // Of what adapters stand beside; products are in a wider type.
  if (holds(letters, "nf4") || holds(letters, "4bit")) return "";
  if (std::ranges::any_of(kept, [&](std::string_view part) { return holds(letters, part); }))
    return lower_case(cell);
  if (const auto named = first_held(letters, others)) return named;
  if (letters == "amp" || letters.starts_with("mixed") || letters == "16bit") return "";
  return std::nullopt;
}

// The first word of a cell, in lower case: "no" of "No recompute", "non" of "non-uniform".
std::string first_word(const std::string& cell) {
  const std::string lower = lower_case(cell);
  const auto end =
      std::ranges::find_if(lower, [](char c) { return std::isalpha(static_cast<unsigned char>(c)) == 0; });
  return {lower.begin(), end};
}

bool denies(const std::string& cell) {
  const std::string word = first_word(cell);
  return word == "no" || word == "none" || word == "without";
}

std::optional<std::string> recompute_word(const std::string& cell, const std::string& letters) {
  static const Spellings spellings{{"selective", "selective"},
                                   {"full", "full"},
                                   {"uniform", "full"},
                                   {"block", "full"},
                                   {"everylayer", "full"}};
  static const Spellings wholes{{"activationcheckpointing", "full"},
                                {"gradientcheckpointing", "full"},
                                {"activationrecomputation", "full"},
                                {"activationrecompute", "full"},
                                {"recomputation", "full"},
                                {"recompute", "full"},
                                {"checkpointing", "full"},
                                {"ac", "full"},
                                {"sac", "selective"}};
  if (const auto known = equal_to(letters, switches)) return *known == "1" ? "full" : "none";
  if (first_word(cell) == "not") return std::nullopt;  // of "not full" some may be left
  const bool denies_full = letters.starts_with("nofull") || letters.starts_with("withoutfull");
  if (denies_full && holds(letters, "selective")) return "selective";
  if (denies(cell)) return "none";
  if (const auto named = first_held(letters, spellings)) return named;
  return equal_to(letters, wholes);
}

std::optional<std::string> sharding_word(const std::string& cell, const std::string& letters) {
  static const Spellings parts{{"hybridshardzero2", "2"}, {"hybridshard", "hsdp, fsdp"},
                               {"hsdp", "hsdp, fsdp"},    {"shardgradop", "2"},
                               {"fullshard", "fsdp"},     {"noshard", "0"},
                               {"fullysharded", "fsdp"},  {"fsdp", "fsdp"}};
  static const Spellings wholes{{"none", "0"},    {"no", "0"},
                                {"ddp", "0"},     {"hybrid", "hsdp, fsdp"},
                                {"dp", "0"},      {"distributedoptimizer", "1"},
                                {"distopt", "1"}, {"usedistributedoptimizer", "1"}};
  if (denies(cell) && letters != "no" && letters != "none")
    return first_held(letters, {{"shard", "0"}, {"fsdp", "0"}, {"zero", "0"}});
  // PyTorch's FSDP that gathers weights once a step.
  const bool keeps_weights = holds(letters, "zero2") || holds(letters, "gradop") || letters == "2fsdp" ||
                             holds(letters, "reshardafterforwardfalse");
  const bool is_other = holds(letters, "hsdp") || holds(letters, "hybrid") || holds(letters, "zero3");
  if (keeps_weights && !is_other && holds(letters, "fsdp")) return "2";
  if (const auto named = first_held(letters, parts)) return named;
  if (const auto named = equal_to(letters, wholes)) return named;
  std::string number = letters;
  for (const std::string_view before : {"deepspeed", "zero", "stage", "z"})
    if (number.starts_with(before)) number.erase(0, before.size());
  const bool is_stage = !number.empty() && number.front() >= '0' && number.front() <= '3' &&
                        (number.size() == 1 || !is_digit(number[1]));
  return is_stage ? std::optional(number.substr(0, 1)) : std::nullopt;
}

// The loader's own names stand for themselves (configs/load_schedule.cpp).
std::optional<std::string> schedule_word(const std::string& letters) {
  static const Spellings loaded{{"zbauto", "zb_auto"},
                                {"loopedbfs", "looped_bfs"},
                                {"breadthfirst", "looped_bfs"},
                                {"hanayo", "hanayo"},
                                {"interleavedzb", "interleaved_zb"},
                                {"vhalf", "v_half"},
                                {"vmin", "v_min"},
                                {"vauto", "v_auto"},
                                {"chimera", "chimera"},
                                {"bpipe", "bpipe"},
                                {"interleaved1f1boverlap", "interleaved_1f1b_overlap"},
                                {"groupedinterleaved1f1b", "grouped_interleaved_1f1b"}};
  static const Spellings parts{{"dualpipev", "dualpipe_v"},
                               {"dualpipe", "dualpipe"},
                               {"zbv", "zb_v"},
                               {"zerobubblev", "zb_v"},
                               {"zb2p", "zb2p"},
                               {"zbh2", "zb2p"},
                               {"zb1p", "zb1p"},
                               {"zbh1", "zb1p"},
                               {"zerobubble", "zb1p"},
                               {"gpipe", "gpipe"},
                               {"afab", "gpipe"},
                               {"allforwardallbackward", "gpipe"},
                               {"1f1b", "1f1b"},
                               {"pipedreamflush", "1f1b"},
                               {"dapple", "1f1b"}};
  if (const auto named = equal_to(letters, loaded)) return named;
  const auto denies = [&](const char* word) { return holds(letters, word); };
  if (std::ranges::any_of(
          std::array{"notinterleav", "noninterleav", "nointerleav", "withoutinterleav", "interleavingnot",
                     "interleavednot", "interleavingoff", "interleavedoff"},
          denies))
    return "1f1b";
  if (holds(letters, "interleav")) return "interleaved-1f1b";
  if (letters == "zb") return "zb1p";
  if (letters == "none" || letters == "no") return "";
  return first_held(letters, parts);
}

}  // namespace

bool is_blank_word(const std::string& cell) {
  constexpr std::array<std::string_view, 14> words{
      "n/a", "na",         "n.a.",         "-",         "--",       "\xE2\x80\x93", "\xE2\x80\x94",
      "?",   "not stated", "not reported", "not given", "unstated", "unspecified",  "unknown"};
  return std::ranges::find(words, lower_case(cell)) != words.end();
}

bool has_words(Column column) { return *accepted_words(column) != '\0'; }

std::optional<std::string> known_word(Column column, const std::string& cell) {
  const std::string letters = squeezed(cell);
  switch (column) {
    case Column::precision: {
      const std::string said = undenied(cell);
      const auto word = precision_word(said, squeezed(said));
      return word && !word->empty() ? word : precision_word(cell, letters);
    }
    case Column::sp: return equal_to(letters, switches);
    case Column::zero_stage: return sharding_word(cell, letters);
    case Column::recompute: return recompute_word(cell, letters);
    case Column::schedule: return schedule_word(letters);
    case Column::flash_attention: return attention_word(letters);
    default: return std::nullopt;
  }
}

const char* accepted_words(Column column) {
  switch (column) {
    case Column::precision: return "bf16, fp16, fp32, tf32, fp8, mxfp8, nvfp4";
    case Column::sp: return "yes, no";
    case Column::zero_stage: return "0, 1, 2, 3, fsdp, hsdp, full_shard, shard_grad_op, ddp";
    case Column::recompute: return "none, selective, full";
    case Column::schedule:
      return "1f1b, interleaved-1f1b, gpipe, zb-1p, zb-2p, zb-v, dualpipe, dualpipe-v, looped-bfs, hanayo, "
             "chimera, bpipe";
    case Column::flash_attention: return "yes, no, flash, unfused";
    default: return "";
  }
}

}  // namespace simrun
