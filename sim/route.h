#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>

namespace simrun {

using LinkIndex = std::uint32_t;

// Directed links in the order that bytes pass them. The first eight, which nearly all routes have at most,
// lie in the list itself.
class LinkList {
 public:
  LinkList() = default;
  LinkList(std::initializer_list<LinkIndex> links) {
    for (const LinkIndex link : links) push_back(link);
  }
  LinkList(const LinkList& other) : near_(other.near_), size_(other.size_) {
    if (other.far_ != nullptr) copy_far(other);
  }
  LinkList& operator=(const LinkList& other) {
    if (this == &other) return *this;
    near_ = other.near_;
    size_ = other.size_;
    far_ = nullptr;
    if (other.far_ != nullptr) copy_far(other);
    return *this;
  }
  LinkList(LinkList&&) noexcept = default;
  LinkList& operator=(LinkList&&) noexcept = default;
  ~LinkList() = default;

  std::size_t size() const { return size_; }
  const LinkIndex* data() const { return far_ == nullptr ? near_.data() : far_.get(); }
  const LinkIndex* begin() const { return data(); }
  const LinkIndex* end() const { return data() + size_; }
  LinkIndex operator[](std::size_t place) const { return data()[place]; }
  LinkIndex front() const { return data()[0]; }
  LinkIndex back() const { return data()[size_ - 1]; }

  void push_back(LinkIndex link) {
    if (far_ == nullptr && size_ < near_.size())
      near_[size_] = link;
    else
      push_back_far(link);
    ++size_;
  }
  template <class Predicate>
  void remove_if(const Predicate& is_removed) {
    LinkIndex* const links = far_ == nullptr ? near_.data() : far_.get();
    size_ = static_cast<std::uint32_t>(std::remove_if(links, links + size_, is_removed) - links);
  }
  bool operator==(const LinkList& other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }

 private:
  static constexpr std::uint32_t far_capacity = 256;
  void copy_far(const LinkList& other) {
    far_ = std::make_unique<LinkIndex[]>(far_capacity);
    std::copy_n(other.far_.get(), size_, far_.get());
  }
  void push_back_far(LinkIndex link) {
    if (far_ == nullptr) {
      far_ = std::make_unique<LinkIndex[]>(far_capacity);
      std::copy_n(near_.data(), size_, far_.get());
    }
    far_[size_] = link;
  }
  std::array<LinkIndex, 8> near_{};
  std::unique_ptr<LinkIndex[]> far_;
  std::uint32_t size_ = 0;
};

// The links of a flow, and the time of its first byte.
struct Route {
  LinkList link;
  double latency_s = 0;
  std::span<const LinkIndex> links() const { return {link.data(), link.size()}; }
  std::size_t count() const { return link.size(); }
};

}  // namespace simrun
