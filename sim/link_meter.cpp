#include "sim/link_meter.h"

#include <algorithm>
#include <cmath>

namespace simrun {

namespace {
constexpr std::size_t slices = 256;  // of the step, in what is reported
}

void ByteHistogram::double_width() {
  for (std::size_t i = 0; 2 * i < bytes_.size(); ++i)
    bytes_[i] = bytes_[2 * i] + (2 * i + 1 < bytes_.size() ? bytes_[2 * i + 1] : 0);
  bytes_.resize((bytes_.size() + 1) / 2);
  width_ *= 2;
}

void ByteHistogram::add(Picoseconds start, Picoseconds end, double bytes) {
  while (static_cast<std::size_t>(end / width_) >= size) double_width();
  const auto first = static_cast<std::size_t>(start / width_), last = static_cast<std::size_t>(end / width_);
  if (last >= bytes_.size()) bytes_.resize(last + 1, 0);
  if (first == last) {
    bytes_[first] += bytes;
    return;
  }
  const double rate = bytes / static_cast<double>(end - start);
  for (std::size_t i = first; i <= last; ++i) {
    const Picoseconds from = std::max(start, static_cast<Picoseconds>(i) * width_);
    const Picoseconds to = std::min(end, static_cast<Picoseconds>(i + 1) * width_);
    bytes_[i] += rate * static_cast<double>(to - from);
  }
}

std::vector<double> ByteHistogram::resampled(std::size_t count, Picoseconds end) const {
  std::vector<double> sums(count, 0);
  const double per_slice = static_cast<double>(count) / static_cast<double>(std::max<Picoseconds>(end, 1));
  for (std::size_t i = 0; i < bytes_.size(); ++i) {
    if (bytes_[i] == 0) continue;
    // The last slot of the histogram may reach past the end: its bytes were moved before it.
    const double from = static_cast<double>(i) * static_cast<double>(width_) * per_slice;
    const double to = std::min(static_cast<double>(i + 1) * static_cast<double>(width_) * per_slice,
                               static_cast<double>(count));
    if (to <= from) continue;
    for (auto s = static_cast<std::size_t>(from); s < count && static_cast<double>(s) < to; ++s) {
      const double overlap =
          std::min(to, static_cast<double>(s + 1)) - std::max(from, static_cast<double>(s));
      sums[s] += bytes_[i] * overlap / (to - from);
    }
  }
  return sums;
}

LinkMeter::LinkMeter(LinkIndex links, const std::vector<bool>& recorded) : links_(links), presence_(links) {
  record_only(recorded);
}

void LinkMeter::record_only(const std::vector<bool>& recorded) {
  recorded_ = recorded;
  histogram_of_.assign(links_.size(), no_index);
  histograms_.clear();
  for (LinkIndex link = 0; link < recorded_.size(); ++link)
    if (recorded_[link]) {
      histogram_of_[link] = static_cast<Index>(histograms_.size());
      histograms_.emplace_back();
    }
}

void LinkMeter::account(LinkIndex link, Picoseconds at) {
  Presence& presence = presence_[link];
  if (!presence.transfers.empty()) links_[link].busy += at - presence.since;
  if (presence.transfers.size() > 1 || presence.several > 0) links_[link].contended += at - presence.since;
  presence.since = at;
}

void LinkMeter::begin(const CarriedLink& link, Index transfer, Picoseconds at) {
  account(link.link, at);
  Presence& presence = presence_[link.link];
  presence.several += link.several;
  const auto of = std::ranges::find(presence.transfers, transfer, &TransferFlows::transfer);
  if (of == presence.transfers.end())
    presence.transfers.push_back({transfer, link.flows});
  else
    of->flows += link.flows;
}

void LinkMeter::end(const CarriedLink& link, Index transfer, Picoseconds at) {
  account(link.link, at);
  Presence& presence = presence_[link.link];
  presence.several -= link.several;
  const auto of = std::ranges::find(presence.transfers, transfer, &TransferFlows::transfer);
  of->flows -= link.flows;
  if (of->flows == 0) presence.transfers.erase(of);
}

void LinkMeter::move(LinkIndex link, double bytes, Picoseconds start, Picoseconds end) {
  links_[link].bytes += bytes;
  if (histogram_of_[link] != no_index) histograms_[histogram_of_[link]].add(start, end, bytes);
}

void LinkMeter::add_alone(LinkIndex link, double bytes, Picoseconds busy) {
  links_[link].bytes += bytes;
  links_[link].busy += busy;
}

std::vector<float> LinkMeter::utilisation(LinkIndex link, double bandwidth, Picoseconds step) const {
  if (histogram_of_[link] == no_index) return {};
  return simrun::utilisation(histograms_[histogram_of_[link]], bandwidth, step);
}

std::vector<float> utilisation(const ByteHistogram& bytes, double bandwidth, Picoseconds step) {
  std::vector<float> shares;
  if (step <= 0) return shares;
  const double most = bandwidth * static_cast<double>(step) * 1e-12 / static_cast<double>(slices);
  for (const double moved : bytes.resampled(slices, step))
    shares.push_back(static_cast<float>(std::min(moved / most, 1.0)));
  return shares;
}

}  // namespace simrun
