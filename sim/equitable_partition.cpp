#include "sim/equitable_partition.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

namespace simrun {

namespace {

// Neighbours of every vertex, one behind the other.
class Adjacency {
 public:
  Adjacency(std::size_t vertices, const std::function<void(const SeeEdge&)>& visit)
      : first_(vertices + 1, 0) {
    visit([&](GraphEdge edge) {
      ++first_[edge.first];
      ++first_[edge.second];
    });
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    neighbours_.resize(first_.back());
    visit([&](GraphEdge edge) {  // from the ends of the lists to their beginnings
      neighbours_[--first_[edge.first]] = edge.second;
      neighbours_[--first_[edge.second]] = edge.first;
    });
  }
  std::span<const Index> of(Index vertex) const {
    return {neighbours_.data() + first_[vertex], first_[vertex + 1] - first_[vertex]};
  }

 private:
  std::vector<Index> first_;
  std::vector<Index> neighbours_;
};

class Refiner {
 public:
  // Colours and neighbours of millions are not there at the same time.
  Refiner(std::vector<std::uint64_t> colours, const std::function<void(const SeeEdge&)>& visit)
      : class_of_(colours.size()), edges_to_(colours.size(), 0) {
    order_.resize(colours.size());
    place_.resize(colours.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(), [&](Index a, Index b) { return colours[a] < colours[b]; });
    for (Index i = 0; i < order_.size(); ++i) {
      if (i == 0 || colours[order_[i]] != colours[order_[i - 1]]) add_class(i);
      ++classes_.back().size;
      class_of_[order_[i]] = static_cast<Index>(classes_.size() - 1);
      place_[order_[i]] = i;
    }
    colours = {};
    adjacency_.emplace(order_.size(), visit);
  }

  std::vector<Index> refine() {
    while (!splitters_.empty()) {
      const Index splitter = splitters_.back();
      splitters_.pop_back();
      classes_[splitter].queued = false;
      split_by(splitter);
    }
    return std::move(class_of_);
  }

 private:
  struct Class {
    Index first = 0, size = 0;  // in order_
    bool queued = true;
  };
  using Part = std::pair<Index, Index>;  // begins and ends in uneven_

  void add_class(Index first) {
    splitters_.push_back(static_cast<Index>(classes_.size()));
    classes_.push_back({first, 0});
  }

  // Sets vertices of a class apart that have other edges to the splitter than the rest.
  void split_by(Index splitter) {
    touched_.clear();
    const auto [first, size] = std::pair(classes_[splitter].first, classes_[splitter].size);
    for (Index i = first; i < first + size; ++i)
      for (const Index to : adjacency_->of(order_[i])) {
        if (classes_[class_of_[to]].size == 1) continue;
        if (edges_to_[to]++ == 0) touched_.push_back(to);
      }
    sort_those_that_split();
    for (Index begin = 0; begin < uneven_.size();) {
      const Index of = class_of_[uneven_[begin]];
      Index end = begin;
      while (end < uneven_.size() && class_of_[uneven_[end]] == of) ++end;
      split(of, {begin, end});
      begin = end;
    }
    for (const Index vertex : touched_) edges_to_[vertex] = 0;
  }

  // Into uneven_, by class and edges: the touched ones of classes of which some are not, or otherwise.
  void sort_those_that_split() {
    tallies_.resize(classes_.size());
    for (const Index vertex : touched_) {
      Tally& tally = tallies_[class_of_[vertex]];
      if (tally.touched++ == 0) tally.edges = edges_to_[vertex];
      tally.uneven = tally.uneven || tally.edges != edges_to_[vertex];
    }
    uneven_.clear();
    for (const Index vertex : touched_) {
      const Index of = class_of_[vertex];
      if (tallies_[of].uneven || tallies_[of].touched < classes_[of].size) uneven_.push_back(vertex);
    }
    for (const Index vertex : touched_) tallies_[class_of_[vertex]] = {};
    std::sort(uneven_.begin(), uneven_.end(), [&](Index a, Index b) {
      return std::tuple(class_of_[a], edges_to_[a], a) < std::tuple(class_of_[b], edges_to_[b], b);
    });
  }

  void split(Index of, Part touched) {
    parts_.clear();
    for (Index i = touched.first; i < touched.second; ++i) {
      if (i == touched.first || edges_to_[uneven_[i]] != edges_to_[uneven_[i - 1]]) parts_.emplace_back(i, i);
      ++parts_.back().second;
    }
    const Index untouched = classes_[of].size - (touched.second - touched.first);
    if (untouched == 0 && parts_.size() == 1) return;
    // The largest part keeps the class's number.
    const auto largest = std::max_element(parts_.begin(), parts_.end(), [](const Part& a, const Part& b) {
      return a.second - a.first < b.second - b.first;
    });
    const bool rest_stays = untouched >= largest->second - largest->first;
    const Part staying = rest_stays ? Part{0, 0} : *largest;
    for (const Part& part : parts_)
      if (part != staying) move_out(of, {uneven_.data() + part.first, uneven_.data() + part.second});
    if (rest_stays || untouched == 0) return;
    rest_.clear();
    for (Index i = classes_[of].first; i < classes_[of].first + classes_[of].size; ++i)
      if (edges_to_[order_[i]] == 0) rest_.push_back(order_[i]);
    move_out(of, {rest_.data(), rest_.data() + rest_.size()});
  }

  // Makes a class of these vertices at the end of the one that they are in.
  void move_out(Index of, std::pair<const Index*, const Index*> vertices) {
    const auto size = static_cast<Index>(vertices.second - vertices.first);
    const Index first = classes_[of].first + classes_[of].size - size;
    Index to = first;
    for (const Index* vertex = vertices.first; vertex != vertices.second; ++vertex) {
      const Index other = order_[to], hole = place_[*vertex];
      order_[hole] = other;
      place_[other] = hole;
      order_[to] = *vertex;
      place_[*vertex] = to++;
    }
    classes_[of].size -= size;
    add_class(first);
    classes_.back().size = size;
    for (const Index* vertex = vertices.first; vertex != vertices.second; ++vertex)
      class_of_[*vertex] = static_cast<Index>(classes_.size() - 1);
  }

  std::optional<Adjacency> adjacency_;
  std::vector<Index> order_, place_;  // vertices, class by class; and where each is
  std::vector<Class> classes_;
  std::vector<Index> class_of_;
  std::vector<Index> splitters_;
  std::vector<Index> edges_to_;  // the present splitter
  std::vector<Index> touched_, uneven_, rest_;
  struct Tally {
    Index edges = 0;  // of the first one
    Index touched = 0;
    bool uneven = false;
  };
  std::vector<Tally> tallies_;  // by class
  std::vector<Part> parts_;
};

}  // namespace

std::vector<Index> equitable_classes(std::vector<std::uint64_t> colours,
                                     const std::function<void(const SeeEdge&)>& visit) {
  return Refiner(std::move(colours), visit).refine();
}

}  // namespace simrun
