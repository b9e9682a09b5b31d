#pragma once

#include <cstdint>
#include <vector>

#include "schedules/timeline.h"
#include "sim/carried_traffic.h"
#include "sim/topology.h"

namespace simrun {

// Bytes over a link in equal slices of a time that is not known beforehand: slices double in length when it
// grows past the last.
class ByteHistogram {
 public:
  void add(Picoseconds start, Picoseconds end, double bytes);  // evenly; start <= end
  // Bytes in `slices` equal slices of [0, end).
  std::vector<double> resampled(std::size_t slices, Picoseconds end) const;

 private:
  static constexpr std::size_t size = 2048;
  void double_width();
  Picoseconds width_ = 1 << 20;  // about a microsecond
  std::vector<double> bytes_;    // grows to `size`
};

// Share of the bandwidth in use in equal slices of the step.
std::vector<float> utilisation(const ByteHistogram& bytes, double bandwidth, Picoseconds step);

// What went over every link of a topology during a run.
class LinkMeter {
 public:
  struct Link {
    double bytes = 0;
    Picoseconds busy = 0, contended = 0;
  };

  // `recorded`: links of which the use over time is kept.
  LinkMeter(LinkIndex links, const std::vector<bool>& recorded);
  void record_only(const std::vector<bool>& recorded);  // before anything was recorded

  // A flow of a transfer, or several alike, begins or ends to move bytes over the link. In order of time per
  // link; contended while flows of more than one transfer do.
  void begin(const CarriedLink& link, Index transfer, Picoseconds at);
  void end(const CarriedLink& link, Index transfer, Picoseconds at);
  void move(LinkIndex link, double bytes, Picoseconds start, Picoseconds end);
  // Whole transfers of an exchange that nobody shares its links with, or notices there, in no order of time.
  void add_alone(LinkIndex link, double bytes, Picoseconds busy);
  // When some of these were moved: for the use over time only.
  void record(LinkIndex link, double bytes, Picoseconds start, Picoseconds end) {
    if (records(link)) histograms_[histogram_of_[link]].add(start, end, bytes);
  }

  bool records(LinkIndex link) const { return !recorded_.empty() && recorded_[link]; }
  const Link& at(LinkIndex link) const { return links_[link]; }
  // Share of the bandwidth in use in equal slices of the step; empty if not recorded.
  std::vector<float> utilisation(LinkIndex link, double bandwidth, Picoseconds step) const;

 private:
  struct TransferFlows {
    Index transfer = 0, flows = 0;
  };
  struct Presence {
    std::vector<TransferFlows> transfers;  // those with flows
    Index several = 0;                     // flows that stand for more than one transfer each
    Picoseconds since = 0;
  };
  void account(LinkIndex link, Picoseconds at);

  std::vector<Link> links_;
  std::vector<Presence> presence_;
  std::vector<bool> recorded_;
  std::vector<Index> histogram_of_;  // into histograms_
  std::vector<ByteHistogram> histograms_;
};

}  // namespace simrun
