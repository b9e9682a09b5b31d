#include <algorithm>
#include <catch2/catch.hpp>

#include "schedules/compile.h"
#include "tests/backend/checked_run.h"

// Workers and synchronous parameter servers compute what one rank does.
namespace simrun {

TEST_CASE("colocated servers, on all workers or on some, compute what one rank does") {
  for (const char* model : {tiny_gpt, tiny_llama})
    for (const char* servers : {"servers: 4", "servers: 2", "servers: 1", "servers: 3"})
      check_job(
          {.model = model, .optimizer = "{parameter_server: {" + std::string(servers) + "}}", .gpus = 4});
  check_job({.parallelism = "{tensor_model_parallel_size: 2}",
             .optimizer = "{overlap_grad_reduce: true, parameter_server: {servers: 2}}",
             .gpus = 4,
             .micro_batch_size = 2});
  check_job({.optimizer = "{overlap_param_gather: true, parameter_server: {servers: 2}}", .gpus = 2});
}

TEST_CASE("dedicated servers compute what one rank does") {
  for (const char* model : {tiny_gpt, tiny_llama}) {
    check_job(
        {.model = model, .optimizer = "{parameter_server: {servers: 1, placement: dedicated}}", .gpus = 3});
    check_job(
        {.model = model,
         .optimizer = "{overlap_grad_reduce: true, parameter_server: {servers: 2, placement: dedicated}}",
         .gpus = 6});
  }
  check_job(
      {.optimizer = "{overlap_param_gather: true, parameter_server: {servers: 3, placement: dedicated}}",
       .gpus = 5});
}

TEST_CASE("servers whose workers run ahead are refused by name") {
  for (const char* mode : {"mode: asynchronous", "mode: bounded_staleness, staleness: 1"}) {
    const std::vector<std::string> said =
        execution_refusals(compile(tiny_job({.optimizer = "{clip_grad: 0, parameter_server: {servers: 2, " +
                                                          std::string(mode) + "}}",
                                             .gpus = 4})),
                           ExecutionDevice::cpu_f64);
    CHECK(std::any_of(said.begin(), said.end(), [](const std::string& sentence) {
      return sentence.find("optimizer.parameter_server.mode: synchronous") != std::string::npos;
    }));
  }
}

}  // namespace simrun
