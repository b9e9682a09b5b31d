#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace simrun::cuda {

// Memory that instructions borrow, one after the other: blocks that are kept and lent again. All users are on
// one stream, so what the next instruction writes is no longer read by the one before.
class ScratchBlocks {
 public:
  using Allocate = std::function<void*(std::int64_t bytes)>;
  explicit ScratchBlocks(Allocate allocate) : allocate_(std::move(allocate)) {}

  // An instruction ends: all that was taken can be taken again.
  void restart() {
    for (Block& block : blocks_) block.taken = false;
  }
  // The smallest block that is large enough, or a new one.
  void* take(std::int64_t bytes) {
    Block* best = nullptr;
    for (Block& block : blocks_)
      if (!block.taken && block.bytes >= bytes && (best == nullptr || block.bytes < best->bytes))
        best = &block;
    if (best == nullptr) best = &blocks_.emplace_back(Block{allocate_(bytes), bytes});
    best->taken = true;
    return best->memory;
  }
  std::int64_t bytes() const {
    std::int64_t sum = 0;
    for (const Block& block : blocks_) sum += block.bytes;
    return sum;
  }
  template <class Free>
  void free_all(Free free) {
    for (const Block& block : blocks_) free(block.memory);
    blocks_.clear();
  }

 private:
  struct Block {
    void* memory = nullptr;
    std::int64_t bytes = 0;
    bool taken = false;
  };
  Allocate allocate_;
  std::vector<Block> blocks_;
};

}  // namespace simrun::cuda
