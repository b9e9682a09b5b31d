#pragma once

#include <optional>
#include <stdexcept>

#include "configs/diagnostics.h"

namespace simrun {

// What `make` makes; nothing where the sizes do not divide, or times are beyond measure.
template <typename Make>
auto made_if_divisible(const Make& make) -> std::optional<decltype(make())> {
  try {
    return make();
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  } catch (const ConfigError&) {
    return std::nullopt;
  } catch (const std::range_error&) {
    return std::nullopt;
  }
}

}  // namespace simrun
