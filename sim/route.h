#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace simrun {

using LinkIndex = std::uint32_t;

// Room for the links of a route: eight, which nearly all routes have at most, and 256 where the ninth is
// written to.
class LinkRoom {
 public:
  LinkRoom() = default;
  LinkRoom(const LinkRoom& other) : near_(other.near_) { copy_far(other); }
  LinkRoom& operator=(const LinkRoom& other) {
    if (this == &other) return *this;
    near_ = other.near_;
    far_ = nullptr;
    copy_far(other);
    return *this;
  }
  LinkRoom(LinkRoom&&) noexcept = default;
  LinkRoom& operator=(LinkRoom&&) noexcept = default;
  ~LinkRoom() = default;

  LinkIndex* data() { return far_ == nullptr ? near_.data() : far_.get(); }
  const LinkIndex* data() const { return far_ == nullptr ? near_.data() : far_.get(); }
  LinkIndex& operator[](std::size_t place) { return data()[place]; }
  LinkIndex operator[](std::size_t place) const { return data()[place]; }
  LinkIndex front() const { return data()[0]; }
  void make_room(std::size_t place) {
    if (far_ != nullptr || place < near_.size()) return;
    far_ = std::make_unique<LinkIndex[]>(most);
    std::copy(near_.begin(), near_.end(), far_.get());
  }

  static constexpr std::size_t most = 256;

 private:
  void copy_far(const LinkRoom& other) {
    if (other.far_ == nullptr) return;
    far_ = std::make_unique<LinkIndex[]>(most);
    std::copy_n(other.far_.get(), most, far_.get());
  }
  std::array<LinkIndex, 8> near_{};
  std::unique_ptr<LinkIndex[]> far_;
};

// Directed links in the order that bytes pass them, and the time of the first byte.
struct Route {
  LinkRoom link;
  std::uint8_t count = 0;
  double latency_s = 0;

  std::span<const LinkIndex> links() const { return {link.data(), count}; }
  void add(LinkIndex next) {
    link.make_room(count);
    link[count++] = next;
  }
  template <class Predicate>
  void remove_if(const Predicate& is_removed) {
    LinkIndex* const first = link.data();
    count = static_cast<std::uint8_t>(std::remove_if(first, first + count, is_removed) - first);
  }
};

}  // namespace simrun
