#include "sim/timeline_bytes.h"

#include <concepts>
#include <cstddef>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace simrun {

namespace {

// The structs that are more than plain bytes, each with all of its members: a structured binding that misses
// one does not compile.
template <class T, class Struct>
concept EitherConst = std::same_as<std::remove_const_t<T>, Struct>;

void visit_members(EitherConst<Lane> auto& lane, auto&& visit) {
  auto& [stream, intervals] = lane;
  visit(stream, intervals);
}

void visit_members(EitherConst<HeldPart> auto& part, auto&& visit) {
  auto& [name, level, bytes] = part;
  visit(name, level, bytes);
}

void visit_members(EitherConst<HeldMemory> auto& held, auto&& visit) {
  auto& [live, allocated, reserved, device, parts] = held;
  visit(live, allocated, reserved, device, parts);
}

void visit_members(EitherConst<RankTimeline> auto& rank, auto&& visit) {
  auto& [pipeline_rank, device, multiplicity, totals, peak, host, nvme, held, lanes, passes, memory] = rank;
  visit(pipeline_rank, device, multiplicity, totals, peak, host, nvme, held, lanes, passes, memory);
}

void visit_members(EitherConst<LinkTimeline> auto& link, auto&& visit) {
  auto& [name, bandwidth, multiplicity, bytes, busy, contended, utilisation] = link;
  visit(name, bandwidth, multiplicity, bytes, busy, contended, utilisation);
}

void visit_members(EitherConst<Timeline> auto& timeline, auto&& visit) {
  auto& [step, first_step, engine, reason, bound, provenance, instructions, communication, ranks, links] =
      timeline;
  visit(step, first_step, engine, reason, bound, provenance, instructions, communication, ranks, links);
}

template <class T>
constexpr bool is_plain = std::is_trivially_copyable_v<T>;

class Writer {
 public:
  template <class T>
  void write(const T& value) {
    if constexpr (is_plain<T>)
      append(&value, sizeof value);
    else
      visit_members(value, [this](const auto&... members) { (write(members), ...); });
  }
  void write(const std::string& text) { write_elements(text); }
  template <class T>
  void write(const std::optional<T>& value) {
    write(value.has_value());
    if (value) write(*value);
  }
  template <class T>
  void write(const std::vector<T>& values) {
    write_elements(values);
  }
  std::string take() { return std::move(bytes_); }

 private:
  template <class Elements>
  void write_elements(const Elements& elements) {
    write(elements.size());
    if constexpr (is_plain<typename Elements::value_type>)
      append(elements.data(), elements.size() * sizeof *elements.data());
    else
      for (const auto& element : elements) write(element);
  }
  void append(const void* bytes, std::size_t size) { bytes_.append(static_cast<const char*>(bytes), size); }

  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(const std::string& bytes) : next_(bytes.data()), left_(bytes.size()) {}

  template <class T>
  void read(T& value) {
    if constexpr (is_plain<T>)
      take(&value, sizeof value, 1);
    else
      visit_members(value, [this](auto&... members) { (read(members), ...); });
  }
  template <class T>
  void read(std::optional<T>& value) {
    bool has_value = false;
    read(has_value);
    value.reset();
    if (has_value) read(value.emplace());
  }
  void read(std::string& text) { read_elements(text); }
  template <class T>
  void read(std::vector<T>& values) {
    read_elements(values);
  }
  void require_end() const {
    if (left_ != 0) throw std::runtime_error("the bytes of a timeline are too many");
  }

 private:
  template <class Elements>
  void read_elements(Elements& elements) {
    using Element = typename Elements::value_type;
    std::size_t size = 0;
    read(size);
    require(size, is_plain<Element> ? sizeof(Element) : 1);
    elements.resize(size);
    if constexpr (is_plain<Element>)
      take(elements.data(), sizeof(Element), size);
    else
      for (Element& element : elements) read(element);
  }
  void require(std::size_t count, std::size_t each) const {
    if (count > left_ / each) throw std::runtime_error("the bytes of a timeline are cut short");
  }
  void take(void* to, std::size_t each, std::size_t count) {
    require(count, each);
    if (count == 0) return;
    std::memcpy(to, next_, each * count);
    next_ += each * count;
    left_ -= each * count;
  }

  const char* next_;
  std::size_t left_;
};

}  // namespace

std::string to_bytes(const Timeline& timeline) {
  Writer writer;
  writer.write(timeline);
  return writer.take();
}

Timeline timeline_from_bytes(const std::string& bytes) {
  Reader reader(bytes);
  Timeline timeline;
  reader.read(timeline);
  reader.require_end();
  return timeline;
}

}  // namespace simrun
