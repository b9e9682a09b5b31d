#pragma once

#include <string>
#include <string_view>
#include <vector>

// Megatron-LM's command line: the names of its flags and what simrun makes of each.
namespace simrun {

// Whose names these are. Later commits generate most flags from dataclasses, under the same names.
inline constexpr const char* megatron_source =
    "github.com/NVIDIA/Megatron-LM, megatron/training/arguments.py";
inline constexpr const char* megatron_commit = "000c4ac24f61159c138b0975def722c65245983c";

// What becomes of a flag that is read.
//   read         it is part of a job
//   irrelevant   it changes no time and no memory of a step: data, logging, checkpoints, seeds
//   unmodelled   it changes kernels or their overlap in a way that simrun does not model; a job without it
//                is the nearest
//   unsupported  the job would be another one than simrun can describe
enum class FlagUse : std::uint8_t { read, irrelevant, unmodelled, unsupported, unknown };

struct FlagMeaning {
  FlagUse use = FlagUse::unknown;
  std::string why;   // unmodelled, unsupported: a clause
  std::string hint;  // unsupported, unknown: one suggestion, or ""
};

// `flag` with its dashes: --num-layers.
FlagMeaning meaning_of_megatron_flag(const std::string& flag);

// A flag whose value is the value of one key of a job, as it is written.
struct FlagKey {
  std::string_view flag;
  std::string_view path;  // dotted: model.num_layers
};
// Flags with one value, switches that stand for `true`, and flags with a list of words.
const std::vector<FlagKey>& megatron_value_keys();
const std::vector<FlagKey>& megatron_switch_keys();

}  // namespace simrun
