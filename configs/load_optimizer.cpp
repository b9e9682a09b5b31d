// What an optimizer keeps per parameter, and in which types.
#include "configs/load_optimizer.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "configs/limits.h"

namespace simrun {
namespace {

Dtype dtype_named(const std::string& name, Dtype otherwise) {
  for (const Dtype dtype : {Dtype::fp32, Dtype::fp16, Dtype::bf16, Dtype::fp8, Dtype::uint8})
    if (name == to_string(dtype)) return dtype;
  return otherwise;
}

constexpr std::array rule_names{"adam", "adamw", "sgd", "adafactor", "muon"};

// In WordRule::refused the sentence that says why.
std::string not_kept(const OptimizerConfig& optimizer, const char* what) {
  return std::string(rule_names[static_cast<std::size_t>(optimizer.name)]) + " keeps no " + what;
}

// A moment's type, or, where the rule keeps no such moment, nothing but the default.
Dtype moment_type(SectionReader& section, const OptimizerConfig& optimizer, const char* key, bool is_kept) {
  WordRule rule{{"fp32", "bf16", "fp16", "fp8", "uint8"}, {"nvfp4", "int8"}};
  if (!is_kept) {
    const std::string why =
        not_kept(optimizer, key == std::string("exp_avg_dtype") ? "first moment" : "such second moment");
    for (const std::string& word : rule.accepted) rule.refused[word] = why;
    rule.accepted = {"fp32"};
    rule.refused.erase("fp32");
  }
  return dtype_named(section.word(key, rule, "fp32"), Dtype::fp32);
}

// `ignores`: after a rule that was refused.
void read_numbers(SectionReader& section, OptimizerConfig& optimizer, bool ignores) {
  UpdateNumbers& numbers = optimizer.numbers;
  const UpdateRule rule = optimizer.name;
  const bool uses_adam = rule == UpdateRule::adam || rule == UpdateRule::adamw || rule == UpdateRule::muon;
  numbers.lr = section.real("lr", limits::learning_rate, numbers.lr);
  numbers.weight_decay =
      section.real("weight_decay", limits::weight_decay, uses_adam ? numbers.weight_decay : 0.0);
  if (uses_adam && !ignores) {
    numbers.adam_beta1 = section.real("adam_beta1", limits::decay_rate, numbers.adam_beta1);
    numbers.adam_beta2 = section.real("adam_beta2", limits::decay_rate, numbers.adam_beta2);
    numbers.adam_eps = section.real("adam_eps", limits::epsilon, numbers.adam_eps);
  }
  if (rule == UpdateRule::muon)
    numbers.muon_momentum = section.real("muon_momentum", limits::decay_rate, numbers.muon_momentum);
}

}  // namespace

void read_update_rule(SectionReader& section, OptimizerConfig& optimizer) {
  const WordRule rules{{rule_names.begin(), rule_names.end()}, {"lamb", "lion", "shampoo", "soap"}};
  const std::string name = section.word("name", rules, "adam");
  const auto found = std::find(rule_names.begin(), rule_names.end(), name);
  if (found != rule_names.end()) optimizer.name = static_cast<UpdateRule>(found - rule_names.begin());
  if (optimizer.name == UpdateRule::sgd)
    optimizer.sgd_momentum = section.real("sgd_momentum", limits::probability, 0.9);
  else if (name.empty())
    section.ignore({"sgd_momentum", "adam_beta1", "adam_beta2", "adam_eps", "muon_momentum"});
  read_numbers(section, optimizer, name.empty());
}

void read_state_types(SectionReader& section, Dtype precision, OptimizerConfig& optimizer) {
  WordRule main_params{{"fp32", "fp16", "none"}};
  main_params.refused["bf16"] = "bf16 main parameters would be the weights once more: 'none' keeps none";
  if (precision == Dtype::fp32 || precision == Dtype::tf32) {
    main_params.accepted = {"fp32", "none"};
    main_params.refused["fp16"] = "fp32 weights have no copy in a narrower type";
  }
  const std::string main_type = section.word("main_params_dtype", main_params, "fp32");
  optimizer.main_params_dtype.reset();
  if (main_type != "none") optimizer.main_params_dtype = dtype_named(main_type, Dtype::fp32);
  const std::string gradients = section.word("main_grads_dtype", {{"fp32", "bf16", "fp16"}, {"fp8"}}, "fp32");
  optimizer.main_grads_dtype = dtype_named(gradients, Dtype::fp32);

  const UpdateRule rule = optimizer.name;
  const bool first = rule == UpdateRule::sgd ? optimizer.sgd_momentum > 0 : rule != UpdateRule::adafactor;
  const bool second = rule != UpdateRule::sgd && rule != UpdateRule::adafactor;
  optimizer.exp_avg_dtype = moment_type(section, optimizer, "exp_avg_dtype", first);
  optimizer.exp_avg_sq_dtype = moment_type(section, optimizer, "exp_avg_sq_dtype", second);
  const std::string reduced =
      section.word("grad_reduce_dtype", {{"fp32", "bf16", "fp16", "fp8"}, {"int8", "fp4"}},
                   to_string(optimizer.main_grads_dtype));
  optimizer.grad_reduce_dtype = dtype_named(reduced, optimizer.main_grads_dtype);
}

}  // namespace simrun
