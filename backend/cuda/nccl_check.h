#pragma once

#include <string>

namespace simrun::cuda {

// Makes a communicator of this process alone on GPU 0, runs every call that a plan can become, and compares
// what comes out. Says what went wrong; empty: nothing.
std::string check_nccl();

}  // namespace simrun::cuda
