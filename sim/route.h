#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace simrun {

using LinkIndex = std::uint32_t;

// Directed links in the order that bytes pass them. Up to six, which nearly all routes have at most, lie in
// the list itself: a large run has millions of these lists.
class LinkList {
 public:
  LinkList() = default;
  LinkList(std::initializer_list<LinkIndex> links) {
    for (const LinkIndex link : links) push_back(link);
  }
  LinkList(const LinkList& other)
      : far_(other.far_ ? std::make_unique<std::vector<LinkIndex>>(*other.far_) : nullptr),
        near_(other.near_),
        size_(other.size_) {}
  LinkList(LinkList&&) noexcept = default;
  LinkList& operator=(const LinkList& other) { return *this = LinkList(other); }
  LinkList& operator=(LinkList&&) noexcept = default;
  ~LinkList() = default;

  std::size_t size() const { return size_; }
  const LinkIndex* data() const { return far_ ? far_->data() : near_.data(); }
  const LinkIndex* begin() const { return data(); }
  const LinkIndex* end() const { return data() + size_; }
  LinkIndex operator[](std::size_t place) const { return data()[place]; }
  LinkIndex front() const { return data()[0]; }
  LinkIndex back() const { return data()[size_ - 1]; }

  void push_back(LinkIndex link) {
    if (size_ == near_.size()) far_ = std::make_unique<std::vector<LinkIndex>>(near_.begin(), near_.end());
    if (size_ < near_.size())
      near_[size_] = link;
    else
      far_->push_back(link);
    ++size_;
  }
  template <class Predicate>
  void remove_if(const Predicate& is_removed) {
    LinkList kept;
    for (const LinkIndex link : *this)
      if (!is_removed(link)) kept.push_back(link);
    *this = std::move(kept);
  }
  bool operator==(const LinkList& other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }

 private:
  std::unique_ptr<std::vector<LinkIndex>> far_;  // all of them, if there are more
  std::array<LinkIndex, 6> near_{};
  std::uint32_t size_ = 0;
};

// The links of a flow, and the time of its first byte.
struct Route {
  LinkList link;
  double latency_s = 0;
  std::span<const LinkIndex> links() const& { return {link.data(), link.size()}; }
  std::span<const LinkIndex> links() const&& = delete;  // of a route that is gone
  std::size_t count() const { return link.size(); }
  void add(LinkIndex next) { link.push_back(next); }
  template <class Predicate>
  void remove_if(const Predicate& is_removed) {
    link.remove_if(is_removed);
  }
};

}  // namespace simrun
