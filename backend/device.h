#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/operations.h"

namespace simrun {

// How arriving elements join those that are there.
enum class Combine : std::uint8_t { assign, add, maximum };

class Transport;

// One communication instruction of a rank. `of`: what the rank would say that it is doing ("entry 3 (...)").
struct ExchangeCall {
  const Instruction& what;
  const std::vector<Argument>& inputs;
  const std::vector<Argument>& outputs;
  std::int32_t microbatch = 0;
  std::string of;
};

// Communication of a device's own (NCCL), in place of messages (backend/exchange.h).
class DeviceExchange {
 public:
  virtual ~DeviceExchange() = default;
  DeviceExchange() = default;
  DeviceExchange(const DeviceExchange&) = delete;
  DeviceExchange& operator=(const DeviceExchange&) = delete;
  virtual void run(const ExchangeCall& call) = 0;
};

// The device seam: memory and kernels of one rank. The executor (backend/rank_run.h) knows order, memory and
// partners and nothing of arithmetic; a device knows arithmetic (backend/operations.h) and nothing of the
// rest. One object per rank, used by one thread at a time.
class Device {
 public:
  virtual ~Device() = default;
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Why it cannot run an instruction, as a clause ("has no kernel for ..."); empty if it can. Asked of every
  // instruction before any runs.
  virtual std::string refusal(const Plan& plan, const Instruction& what) const = 0;

  // Bytes of an element as this device stores it.
  virtual std::int64_t element_bytes(Dtype dtype) const = 0;
  // `cleared`: all zero.
  virtual void* allocate(std::int64_t bytes, bool cleared) = 0;
  virtual void release(void* memory, std::int64_t bytes) = 0;
  // Memory of the node that is not the device's: the host's, or in its place a drive's. Not counted. A device
  // whose refusals leave no plan with any need not have it.
  virtual void* allocate_outside(std::int64_t /*bytes*/, bool /*cleared*/) { return nullptr; }
  virtual void release_outside(void* /*memory*/) {}
  // Most bytes that were allocated at once, by its own count.
  virtual std::int64_t peak_bytes() const = 0;

  virtual void run(const KernelCall& call) = 0;

  // How long its kernels take, where that is not the calling thread's own time: worked_ns() waits for those
  // that were asked for since begin_work() and tells the nanoseconds that they took, each with its launch,
  // copies and clearing of memory not counted. Negative: the calling thread does the work.
  virtual void begin_work() {}
  virtual std::int64_t worked_ns() { return -1; }

  // Asked once, before anything runs, on all ranks: what does the rank's communication; nullptr: messages. It
  // may use the transport to find its partners, and ends before the device.
  virtual std::unique_ptr<DeviceExchange> connect(const Plan&, const RankPlace&, Transport&) {
    return nullptr;
  }

  // A part of an argument's part, packed in row-major order, and back. Payloads may be empty on a device
  // without memory. A device whose ranks share a process may pass handles instead of elements: what was
  // packed is unpacked once, by a device of the same kind.
  virtual std::vector<std::byte> pack(const Argument& from, const TensorPart& part) = 0;
  virtual void unpack(const std::vector<std::byte>& payload, const Argument& to, const TensorPart& part,
                      Combine combine) = 0;
  // The same as numbers, for initial values, comparison and the loss; none from a device without memory.
  virtual std::vector<double> values(const Argument& from, const TensorPart& part) = 0;
  // Of a tensor of indices.
  virtual std::vector<std::int64_t> indices(const Argument&, const TensorPart&) { return {}; }
  virtual void set_values(const std::vector<double>& values, const Argument& to, const TensorPart& part) = 0;
};

}  // namespace simrun
