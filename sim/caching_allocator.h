#pragma once

#include <cstdint>
#include <limits>
#include <set>
#include <tuple>
#include <vector>

namespace simrun {

struct CachingRules {
  bool expandable_segments = false;
  // Bytes that the device has for segments. Where one more would not fit, segments without a tensor are given
  // back first, as the real one does before it reports that memory is out.
  std::int64_t capacity = std::numeric_limits<std::int64_t>::max();
};

// PyTorch's caching allocator for one stream, as far as bytes go: it never returns freed memory to the device
// while there is room, so what it reserves depends on the order of sizes. Its rules (PyTorch,
// c10/cuda/CUDACachingAllocator.cpp, constants kMinBlockSize to kRoundLarge):
//
//   * a request is rounded up to 512 B; up to 1 MiB it comes from the small pool, else from the large one;
//   * it takes the smallest free block that holds it (of equals the lowest address);
//   * what is left of a block is split off if it is 512 B or more (small) or more than 1 MiB (large); else
//     the request has all of it, and that counts as allocated;
//   * where no free block holds it, a segment is taken from the device: 2 MiB for a small request, 20 MiB for
//     one below 10 MiB, else the request rounded up to 2 MiB;
//   * a freed block joins free neighbours of its segment.
//
// With expandable segments (PYTORCH_CUDA_ALLOC_CONF) each pool is one segment, which grows at its end by
// pages of 2 MiB (small) or 20 MiB (large), and any remainder of 512 B or more is split off.
class CachingAllocator {
 public:
  using Block = std::uint32_t;

  explicit CachingAllocator(CachingRules rules) : rules_(rules) {}

  Block allocate(std::int64_t bytes);  // of 0 bytes too: 512 B
  void release(Block block);           // each block once

  std::int64_t size(Block block) const { return blocks_[block].bytes; }  // what counts as allocated for it
  std::int64_t allocated() const { return allocated_; }
  std::int64_t reserved() const { return reserved_; }
  std::int64_t peak_allocated() const { return peak_allocated_; }
  std::int64_t peak_reserved() const { return peak_reserved_; }
  bool overflowed() const { return peak_reserved_ > rules_.capacity; }

 private:
  enum class Pool : std::uint8_t { small, large };
  struct Node {
    std::int64_t bytes = 0;
    std::int64_t address = 0;      // segments lie one behind the other in the order in which they are taken
    Block previous = 0, next = 0;  // in the segment; 0: none
    Pool pool = Pool::small;
    bool free = false;
  };
  // Bytes, address; ascending. There are few enough that moving them costs less than a tree's nodes.
  using FreeBlock = std::tuple<std::int64_t, std::int64_t, Block>;
  using FreeBlocks = std::vector<FreeBlock>;

  bool is_whole_segment(Block block) const {
    return blocks_[block].previous == 0 && blocks_[block].next == 0;
  }
  FreeBlocks& free_blocks(Pool pool) { return free_[static_cast<int>(pool)]; }
  FreeBlock key_of(Block block) const { return {blocks_[block].bytes, blocks_[block].address, block}; }
  void insert_free(Block block);
  void erase_free(Block block);
  Block add_node(const Node& node);
  void join(Block left, Block right);
  Block new_segment(std::int64_t bytes, Pool pool);
  Block grown_segment(std::int64_t bytes, Pool pool);
  void split(Block block, std::int64_t bytes);
  void give_back_free_segments();

  CachingRules rules_;
  std::vector<Node> blocks_{Node{}};  // 0 is none
  std::vector<Block> unused_;
  FreeBlocks free_[2];
  std::set<Block> free_segments_;  // of the free blocks those that are a segment each
  Block last_[2] = {0, 0};         // expandable: the block at the end of the pool's segment
  std::int64_t next_address_ = 0;
  std::int64_t allocated_ = 0, reserved_ = 0, peak_allocated_ = 0, peak_reserved_ = 0;
};

}  // namespace simrun
