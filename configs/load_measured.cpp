// What simrun --calibrate measured: kernels of a device, exchanges of a cluster.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <tuple>

#include "configs/limits.h"
#include "configs/load_sections.h"

namespace simrun {
namespace {

constexpr IntegerRange extents = {1, 100'000'000};

constexpr std::array exchange_names{"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send"};

// "64x128x32" as `count` numbers; empty if it is not that.
std::vector<std::int64_t> sizes_in(const std::string& key, std::size_t count) {
  std::vector<std::int64_t> sizes;
  for (std::size_t begin = 0; begin <= key.size();) {
    const std::size_t end = std::min(key.find('x', begin), key.size());
    const Parsed<std::int64_t> size = parse_integer(key.substr(begin, end - begin), extents);
    if (!size.value) return {};
    sizes.push_back(*size.value);
    begin = end + 1;
  }
  return sizes.size() == count ? sizes : std::vector<std::int64_t>{};
}

// Keys that are sizes, each with a quantity; `example` shows what they look like.
struct SizedQuantity {
  std::vector<std::int64_t> sizes;
  double value = 0;
};
struct SizedKeys {
  std::string path;
  std::size_t count = 0;
  std::string example;
};
std::vector<SizedQuantity> read_sized(const ConfigNode* node, const SizedKeys& keys, Reading& reading) {
  std::vector<SizedQuantity> read;
  if (node == nullptr) return read;
  SectionReader section(reading, node, keys.path);
  if (section.is_no_map()) return read;
  for (const ConfigNode& child : node->children) {
    const std::vector<std::int64_t> sizes = sizes_in(child.key, keys.count);
    if (sizes.empty()) {
      section.ignore({child.key});
      reading.problems.push_back(
          {child.key_position,
           fmt::format("{} in '{}' is not {} sizes", in_quotes(child.key), keys.path, keys.count),
           fmt::format("for example {}.", keys.example)});
      continue;
    }
    read.push_back({sizes, section.quantity(child.key, Unit::flops_per_second, limits::measured_flops)});
  }
  std::sort(read.begin(), read.end(),
            [](const SizedQuantity& a, const SizedQuantity& b) { return a.sizes < b.sizes; });
  section.finish();
  return read;
}

std::vector<MeasuredKernels::Attention> read_attention(SectionReader& section, const std::string& key,
                                                       Reading& reading) {
  std::vector<MeasuredKernels::Attention> read;
  const SizedKeys keys{section.path_of(key), 2, "512x64: 20 GFLOP/s (512 tokens, 64 of a head)"};
  for (const SizedQuantity& of : read_sized(section.section(key), keys, reading))
    read.push_back({of.sizes[0], of.sizes[1], of.value});
  return read;
}

std::vector<MeasuredExchange> read_exchanges(const ConfigNode* node, const std::string& path,
                                             Reading& reading) {
  std::vector<MeasuredExchange> read;
  SectionReader section(reading, node, path);
  if (node == nullptr || section.is_no_map()) return read;
  for (const ConfigNode& child : node->children) {
    const ConfigNode* const of = section.section(child.key);
    const Parsed<std::int64_t> ranks = parse_integer(child.key, {2, 1'000'000});
    if (!ranks.value) {
      reading.problems.push_back({child.key_position,
                                  fmt::format("{} in '{}' is no number of ranks", in_quotes(child.key), path),
                                  "for example 2: {latency: 10 us, bandwidth: 2 GB/s}."});
      continue;
    }
    SectionReader exchange(reading, of, section.path_of(child.key));
    if (exchange.is_no_map()) continue;
    MeasuredExchange measured{*ranks.value, 0, 0};
    measured.latency_s = exchange.quantity("latency", Unit::seconds, limits::latency);
    measured.bandwidth = exchange.quantity("bandwidth", Unit::bytes_per_second, limits::measured_bandwidth);
    exchange.finish();
    read.push_back(measured);
  }
  std::sort(read.begin(), read.end(),
            [](const MeasuredExchange& a, const MeasuredExchange& b) { return a.ranks < b.ranks; });
  section.finish();
  return read;
}

}  // namespace

MeasuredKernels read_measured_kernels(const ConfigNode* node, const std::string& path, Reading& reading) {
  MeasuredKernels measured;
  if (node == nullptr) return measured;
  SectionReader section(reading, node, path);
  if (section.is_no_map()) return measured;
  const SizedKeys products{section.path_of("products"), 3, "512x512x64: 30 GFLOP/s (m x n x k)"};
  for (const SizedQuantity& of : read_sized(section.section("products"), products, reading))
    measured.products.push_back({of.sizes[0], of.sizes[1], of.sizes[2], of.value});
  measured.attention = read_attention(section, "attention", reading);
  measured.attention_backward = read_attention(section, "attention_backward", reading);
  const ConfigNode* const kernels = section.section("kernels");
  SectionReader rates(reading, kernels, section.path_of("kernels"));
  for (const char* name : measured_kernel_names) {
    if (rates.has(name))
      measured.kernels[name] = rates.quantity(name, Unit::bytes_per_second, limits::measured_bandwidth);
    rates.ignore({name});
  }
  rates.finish();
  section.finish();
  return measured;
}

MeasuredExchanges read_measured_exchanges(const ConfigNode* node, Reading& reading) {
  MeasuredExchanges measured;
  if (node == nullptr) return measured;
  SectionReader section(reading, node, "cluster.measured");
  if (section.is_no_map()) return measured;
  for (const char* name : exchange_names) {
    std::vector<MeasuredExchange> read =
        read_exchanges(section.section(name), section.path_of(name), reading);
    if (!read.empty()) measured[name] = std::move(read);
  }
  section.finish();
  return measured;
}

}  // namespace simrun
