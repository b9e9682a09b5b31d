#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace simrun {

// A list whose copies share its elements, which never change: what alike operators of many layers have alike
// is there once, and is compared once.
template <typename T>
class SharedList {
 public:
  SharedList() = default;
  // From a vector, as if it were one.
  SharedList(std::vector<T> elements)  // NOLINT(google-explicit-constructor)
      : elements_(std::make_shared<const std::vector<T>>(std::move(elements))) {}
  SharedList(std::initializer_list<T> elements) : SharedList(std::vector<T>(elements)) {}

  std::size_t size() const { return elements_ ? elements_->size() : 0; }
  const T& operator[](std::size_t i) const { return (*elements_)[i]; }
  const T& front() const { return elements_->front(); }
  const T* begin() const { return elements_ ? elements_->data() : nullptr; }
  const T* end() const { return begin() + size(); }
  bool operator==(const SharedList& other) const {
    if (elements_ == other.elements_) return true;
    return elements_ && other.elements_ ? *elements_ == *other.elements_ : size() == other.size();
  }

 private:
  std::shared_ptr<const std::vector<T>> elements_;
};

}  // namespace simrun
