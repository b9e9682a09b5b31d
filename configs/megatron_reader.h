#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "configs/config_node.h"
#include "configs/megatron_words.h"

namespace simrun {

// Flags as they are given, and the tree of a job that is made of them. What is wrong with a flag is reported
// once, whoever asks for it.
class MegatronReader {
 public:
  MegatronReader(std::string file, MegatronWords words, std::vector<Diagnostic> problems);

  bool is_given(const std::string& flag) const { return find(flag) != nullptr; }
  bool is_on(const std::string& flag);                      // of a switch
  std::optional<ShellWord> value(const std::string& flag);  // of a flag with one value
  std::vector<ShellWord> values(const std::string& flag);   // of one with a list
  std::string word(const std::string& flag, const std::string& fallback);
  std::optional<std::int64_t> number(const std::string& flag);  // 1 to 10^7; what the loader refuses is none
  bool was_reported(const std::string& flag) const { return reported_.contains(flag); }
  SourcePosition position_of(const std::string& flag) const;  // the file, where it is not given
  const std::vector<GivenFlag>& flags() const { return words_.flags; }
  const std::string& program() const { return words_.program; }

  void problem(const SourcePosition& at, std::string message, std::string hint = "");
  void put(const std::string& path, const std::string& text, const SourcePosition& at);
  void put_default(const std::string& path, const std::string& text) { put(path, text, {file_, 0, 0}); }
  void put_list(const std::string& path, const std::vector<ShellWord>& words, const SourcePosition& at);
  void drop(const std::string& path);

  const std::string& file() const { return file_; }
  const ConfigNode& tree() const { return root_; }
  ConfigNode take_tree();  // without its empty sections
  std::vector<Diagnostic> take_problems() { return std::move(problems_); }

 private:
  const GivenFlag* find(const std::string& flag) const;
  bool is_sound(const GivenFlag& flag, const ShellWord* word);

  std::string file_;
  MegatronWords words_;
  std::vector<Diagnostic> problems_;
  std::set<std::string> reported_;  // flags
  ConfigNode root_;
};

// Each puts a part of the job.
void import_megatron_model(MegatronReader& flags);
void import_megatron_experts(MegatronReader& flags);
void import_megatron_precision(MegatronReader& flags);
void import_megatron_parallelism(MegatronReader& flags);
void import_megatron_optimizer(MegatronReader& flags);
void import_megatron_recompute(MegatronReader& flags);

}  // namespace simrun
