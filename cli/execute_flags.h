#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace simrun {

// What --execute and the flags that go with it say. Unset: not given.
struct ExecuteFlags {
  bool execute = false;
  std::optional<std::string> device;  // cpu (default), null, cuda
  std::optional<std::string> dtype;   // f64, f32 (default), bf16: of the CPU's numbers
  bool reference = false;             // compare with one rank however large that is (default: if it is small)
  bool no_reference = false;          // do not
  std::optional<int> steps;           // optimizer steps (default 2: the second differs from the first)
  std::optional<std::uint64_t> seed;
  std::optional<double> learning_rate;
  std::optional<std::string> data;        // a text to train on; unset: random tokens
  std::optional<std::string> load, save;  // checkpoints
  std::optional<int> save_every;          // steps; unset: behind the last one
};

}  // namespace simrun
