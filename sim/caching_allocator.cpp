#include "sim/caching_allocator.h"

#include <algorithm>
#include <cassert>

namespace simrun {

namespace {

constexpr std::int64_t mib = 1 << 20;
constexpr std::int64_t smallest_block = 512;
constexpr std::int64_t largest_small_request = mib;
constexpr std::int64_t small_segment = 2 * mib, large_segment = 20 * mib;
constexpr std::int64_t smallest_own_segment = 10 * mib, large_rounding = 2 * mib;
// Where an expandable segment of a pool begins: behind any that could be mapped before.
constexpr std::int64_t address_range = std::int64_t{1} << 50;

std::int64_t rounded_up(std::int64_t bytes, std::int64_t to) { return (bytes + to - 1) / to * to; }

std::int64_t segment_bytes(std::int64_t bytes) {
  if (bytes <= largest_small_request) return small_segment;
  return bytes < smallest_own_segment ? large_segment : rounded_up(bytes, large_rounding);
}

}  // namespace

CachingAllocator::Block CachingAllocator::add_node(const Node& node) {
  if (unused_.empty()) {
    blocks_.push_back(node);
    return static_cast<Block>(blocks_.size() - 1);
  }
  const Block block = unused_.back();
  unused_.pop_back();
  blocks_[block] = node;
  return block;
}

void CachingAllocator::insert_free(Block block) {
  FreeBlocks& free = free_blocks(blocks_[block].pool);
  free.insert(std::ranges::lower_bound(free, key_of(block)), key_of(block));
}

void CachingAllocator::erase_free(Block block) {
  FreeBlocks& free = free_blocks(blocks_[block].pool);
  free.erase(std::ranges::lower_bound(free, key_of(block)));
}

// `right` becomes part of `left`; neither is among the free blocks.
void CachingAllocator::join(Block left, Block right) {
  blocks_[left].bytes += blocks_[right].bytes;
  const Block next = blocks_[right].next;
  blocks_[left].next = next;
  if (next != 0) blocks_[next].previous = left;
  Block& last = last_[static_cast<int>(blocks_[left].pool)];
  if (last == right) last = left;
  unused_.push_back(right);
}

void CachingAllocator::give_back_free_segments() {
  for (const Block block : free_segments_) {
    const Node& segment = blocks_[block];
    erase_free(block);
    reserved_ -= segment.bytes;
    Block& last = last_[static_cast<int>(segment.pool)];
    if (last == block) last = 0;
    unused_.push_back(block);
  }
  free_segments_.clear();
}

CachingAllocator::Block CachingAllocator::new_segment(std::int64_t bytes, Pool pool) {
  const std::int64_t segment = segment_bytes(bytes);
  if (reserved_ > rules_.capacity - segment) give_back_free_segments();
  reserved_ += segment;
  const Block block = add_node({segment, next_address_, 0, 0, pool, false});
  next_address_ += segment;
  return block;
}

// A block of at least `bytes` at the end of the pool's segment, where nothing free is large enough.
CachingAllocator::Block CachingAllocator::grown_segment(std::int64_t bytes, Pool pool) {
  Block& last = last_[static_cast<int>(pool)];
  const std::int64_t page = pool == Pool::small ? small_segment : large_segment;
  const bool extends = last != 0 && blocks_[last].free;
  const std::int64_t there = extends ? blocks_[last].bytes : 0;
  const std::int64_t mapped = rounded_up(bytes - there, page);
  reserved_ += mapped;
  if (extends) {
    erase_free(last);
    free_segments_.erase(last);
    blocks_[last].bytes += mapped;
    blocks_[last].free = false;
    return last;
  }
  const std::int64_t address =
      last != 0 ? blocks_[last].address + blocks_[last].bytes : address_range * (pool == Pool::small ? 1 : 2);
  const Block block = add_node({mapped, address, last, 0, pool, false});
  if (last != 0) blocks_[last].next = block;
  last = block;
  return block;
}

void CachingAllocator::split(Block block, std::int64_t bytes) {
  const Node whole = blocks_[block];
  const std::int64_t rest = whole.bytes - bytes;
  const bool any_rest = whole.pool == Pool::small || rules_.expandable_segments;
  if (any_rest ? rest < smallest_block : rest <= largest_small_request) return;
  const Block behind = add_node({rest, whole.address + bytes, block, whole.next, whole.pool, true});
  blocks_[block].bytes = bytes;
  blocks_[block].next = behind;
  if (whole.next != 0) blocks_[whole.next].previous = behind;
  Block& last = last_[static_cast<int>(whole.pool)];
  if (last == block) last = behind;
  insert_free(behind);
}

CachingAllocator::Block CachingAllocator::allocate(std::int64_t bytes) {
  bytes = rounded_up(std::max<std::int64_t>(bytes, 1), smallest_block);
  const Pool pool = bytes <= largest_small_request ? Pool::small : Pool::large;
  FreeBlocks& free = free_blocks(pool);
  const auto found = std::ranges::lower_bound(free, FreeBlock{bytes, 0, 0});
  Block block = 0;
  if (found != free.end()) {
    block = std::get<2>(*found);
    free.erase(found);
    if (is_whole_segment(block)) free_segments_.erase(block);
    blocks_[block].free = false;
  } else {
    block = rules_.expandable_segments ? grown_segment(bytes, pool) : new_segment(bytes, pool);
  }
  split(block, bytes);
  allocated_ += blocks_[block].bytes;
  peak_allocated_ = std::max(peak_allocated_, allocated_);
  peak_reserved_ = std::max(peak_reserved_, reserved_);
  return block;
}

void CachingAllocator::release(Block block) {
  assert(block != 0 && !blocks_[block].free && "a block is freed once");
  allocated_ -= blocks_[block].bytes;
  const auto take = [&](Block neighbour) {
    if (neighbour == 0 || !blocks_[neighbour].free) return false;
    erase_free(neighbour);
    return true;
  };
  if (const Block next = blocks_[block].next; take(next)) join(block, next);
  if (const Block previous = blocks_[block].previous; take(previous)) {
    join(previous, block);
    block = previous;
  }
  blocks_[block].free = true;
  insert_free(block);
  if (is_whole_segment(block)) free_segments_.insert(block);
}

}  // namespace simrun
