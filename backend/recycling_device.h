#pragma once

#include <memory>

#include "backend/device.h"

namespace simrun {

// A device of the host's memory that keeps what is released for the next buffer of the same size, as the
// allocators of training frameworks do: a timed step then does not pay for fresh pages. Counts as the device
// itself would.
std::unique_ptr<Device> recycling(std::unique_ptr<Device> device);

}  // namespace simrun
