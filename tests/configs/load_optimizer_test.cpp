#include <catch2/catch.hpp>

#include "tests/configs/small_job.h"

// What an optimizer keeps, and in which types.
namespace simrun {
namespace {

std::string with_optimizer(const std::string& keys) {
  return test::edited("cluster:", "optimizer: {" + keys + "}\ncluster:");
}

}  // namespace

TEST_CASE("types of an optimizer's state are those of mixed precision training unless written") {
  const OptimizerConfig plain = test::load(test::small_job).optimizer;
  CHECK(plain.main_params_dtype == Dtype::fp32);
  CHECK(plain.main_grads_dtype == Dtype::fp32);
  CHECK(plain.grad_reduce_dtype == Dtype::fp32);
  // DeepSeek-V3's technical report, section 3.3.2: moments in bf16, main weights and gradients in fp32.
  const OptimizerConfig deepseek =
      test::load(with_optimizer("exp_avg_dtype: bf16, exp_avg_sq_dtype: bf16")).optimizer;
  CHECK(deepseek.exp_avg_dtype == Dtype::bf16);
  CHECK(deepseek.exp_avg_sq_dtype == Dtype::bf16);
  CHECK(deepseek.main_params_dtype == Dtype::fp32);
  const OptimizerConfig pure =
      test::load(with_optimizer("main_params_dtype: none, main_grads_dtype: bf16")).optimizer;
  CHECK_FALSE(pure.main_params_dtype.has_value());
  CHECK(pure.grad_reduce_dtype == Dtype::bf16);  // gradients are reduced as they are kept
}

TEST_CASE("the numbers of an update are those of large language models unless written") {
  const UpdateNumbers plain = test::load(test::small_job).optimizer.numbers;
  CHECK(plain.lr == 1e-3);
  CHECK(plain.adam_beta2 == 0.95);
  CHECK(plain.weight_decay == 0.1);
  // Decay is part of sgd's gradient and no habit of it.
  CHECK(test::load(with_optimizer("name: sgd")).optimizer.numbers.weight_decay == 0);
  CHECK(test::load(with_optimizer("name: adafactor")).optimizer.numbers.weight_decay == 0);
  const UpdateNumbers written =
      test::load(with_optimizer("lr: 3.0e-4, adam_beta1: 0.8, adam_eps: 1.0e-5, weight_decay: 0"))
          .optimizer.numbers;
  CHECK(written == UpdateNumbers{3e-4, 0.8, 0.95, 1e-5, 0});
}

TEST_CASE("the effective config of every optimizer is read back as the same job") {
  for (const char* keys :
       {"name: adam", "name: adamw, zero_stage: 3", "name: sgd", "name: adafactor",
        "name: muon, exp_avg_dtype: bf16", "name: sgd, sgd_momentum: 0",
        "lr: 3.0e-4, adam_beta1: 0.8, adam_beta2: 0.99, adam_eps: 1.0e-5, weight_decay: 0",
        "name: muon, lr: 0.02, muon_momentum: 0.9", "name: sgd, lr: 0.1, weight_decay: 1.0e-4",
        "main_params_dtype: none, main_grads_dtype: bf16, grad_reduce_dtype: fp32",
        "exp_avg_dtype: fp8, exp_avg_sq_dtype: uint8, main_params_dtype: fp16, grad_reduce_dtype: fp8"}) {
    CAPTURE(keys);
    const LoadedJob first = load_job_text(with_optimizer(keys), "job.yaml", test::with_presets());
    const LoadedJob again = load_job_text(first.effective_yaml, "job.yaml", test::with_presets());
    CHECK(again.job.optimizer == first.job.optimizer);
    CHECK(again.effective_yaml.find("optimizer:") != std::string::npos);
    CHECK(again.job.config_sha256 == first.job.config_sha256);
  }
}

TEST_CASE("an optimizer that is misspelt, or a type that it has nothing of, is refused") {
  const std::vector<std::pair<const char*, const char*>> wrong = {
      {"name: adamm", "did you mean 'adam'?"},
      {"name: lion", "'lion' for 'optimizer.name' is not supported yet"},
      {"exp_avg_dtype: bf61", "did you mean 'bf16'?"},
      {"main_params_dtype: bf16", "'none' keeps none"},
      {"sgd_momentum: 0.9", "unknown key 'sgd_momentum'"},
      {"name: sgd, exp_avg_sq_dtype: bf16", "sgd keeps no such second moment"},
      {"name: adafactor, exp_avg_dtype: bf16", "adafactor keeps no first moment"},
      {"name: moun", "did you mean 'muon'?"},
      {"name: sgd, sgd_momentum: 0, exp_avg_dtype: bf16", "sgd keeps no first moment"},
      {"name: sgd, adam_beta1: 0.9", "unknown key 'adam_beta1'"},
      {"name: adafactor, adam_eps: 1.0e-8", "unknown key 'adam_eps'"},
      {"muon_momentum: 0.9", "unknown key 'muon_momentum'"},
      {"adam_beta2: 1", "must be from 0 to 0.999999"},
      {"lr: -1", "must be from 0 to 1000, not '-1'"},
      {"lr: many", "must be a number such as 0.1"},
      {"lr: 1001", "must be from 0 to 1000"},
      {"weight_decai: 0", "did you mean 'weight_decay'?"},
      {"name: sgd, sgd_momentum: 1", "must be from 0 to 0.999"}};
  for (const auto& [keys, message] : wrong) {
    CAPTURE(keys);
    CHECK_THAT(test::refusal(with_optimizer(keys)), Catch::Contains(message));
  }
  CHECK_THAT(test::refusal(test::edited(with_optimizer("main_params_dtype: fp16"), "bf16", "fp32")),
             Catch::Contains("fp32 weights have no copy in a narrower type"));
}

}  // namespace simrun
