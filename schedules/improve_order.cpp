#include "schedules/improve_order.h"

#include <algorithm>
#include <limits>
#include <unordered_set>

namespace simrun {

namespace {

using Times = std::vector<std::int64_t>;

std::uint64_t scramble(std::uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

std::uint64_t place_hash(std::size_t rank, std::size_t index, Pass pass) {
  return scramble((rank << 48U) ^ (index << 24U) ^ (static_cast<std::uint64_t>(pass.kind) << 16U) ^
                  pass.lane);
}

bool is_backward(OpKind kind) { return kind == OpKind::backward || kind == OpKind::backward_input; }

// One pass of rank `rank` goes from index `from` to index `to`; those between close up.
struct Move {
  std::size_t rank = 0, from = 0, to = 0;
  std::size_t first() const { return std::min(from, to); }
  std::size_t last() const { return std::max(from, to); }
};

class OrderImprover {
 public:
  OrderImprover(const SearchModel& model, const PassOrder& start, const ImproveOptions& options);
  Improvement run();

 private:
  std::int64_t evaluate();
  bool guarded();
  void find_tails();
  std::vector<OrderEvaluator::Place> longest_path();
  std::vector<Move> moves();
  void add_moves(std::vector<Move>& found, std::size_t rank, std::size_t first, std::size_t last) const;
  bool allowed(const Move& move);
  std::int64_t estimate(const Move& move);
  void shift_window(const Move& move);
  std::uint64_t hash_after(const Move& move) const;
  void apply(const Move& move);
  void count_alive(std::size_t rank);
  bool step();
  std::int64_t duration(Pass pass) const { return model_.lanes[pass.lane].times.of(pass.kind); }
  std::int64_t arrival(Pass pass, std::size_t k) const;
  std::int64_t tail_behind(Pass pass, std::size_t k) const;

  const SearchModel& model_;
  const ImproveOptions& options_;
  OrderEvaluator evaluator_;
  std::vector<OrderEvaluator> guards_;
  PassOrder order_;
  Improvement best_;
  std::uint64_t hash_ = 0;
  std::unordered_set<std::uint64_t> visited_;
  std::uint64_t random_;
  std::int64_t makespan_ = 0;
  // Of the order at hand.
  std::vector<Times> tails_;                          // by rank: from the start of a pass to the end
  std::vector<std::vector<std::size_t>> microbatch_;  // by rank: which of its kind and lane
  std::vector<std::vector<std::size_t>> forward_at_, backward_at_;  // by lane and microbatch: index
  std::vector<std::size_t> lane_place_;                             // of a lane among those of its rank
  std::vector<std::vector<int>> alive_;                             // by rank, before each pass
  std::vector<std::vector<std::int16_t>> lacking_;  // by rank, before each pass, 2 per lane: F lacking a
                                                    // backward, I lacking W
  // Of the move at hand: the passes between its ends as they will be.
  std::vector<Pass> window_;
  std::vector<std::size_t> window_microbatch_;
  std::vector<std::int16_t> window_lacking_;
  Times window_head_;
};

OrderImprover::OrderImprover(const SearchModel& model, const PassOrder& start, const ImproveOptions& options)
    : model_(model), options_(options), evaluator_(model), order_(start), random_(options.seed) {
  for (const ImproveGuard& guard : options.guards) guards_.emplace_back(*guard.model);
  const std::size_t ranks = order_.size();
  tails_.resize(ranks);
  microbatch_.resize(ranks);
  alive_.resize(ranks);
  lacking_.resize(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    tails_[r].resize(order_[r].size());
    microbatch_[r].resize(order_[r].size());
    for (std::size_t i = 0; i < order_[r].size(); ++i) hash_ += place_hash(r, i, order_[r][i]);
  }
  lane_place_.resize(model.lanes.size());
  for (const std::vector<int>& lanes : model.lanes_of)
    for (std::size_t c = 0; c < lanes.size(); ++c) lane_place_[static_cast<std::size_t>(lanes[c])] = c;
  for (const ScheduleLane& lane : model.lanes) {
    forward_at_.emplace_back(static_cast<std::size_t>(lane.microbatches));
    backward_at_.emplace_back(static_cast<std::size_t>(lane.microbatches));
  }
  for (std::size_t r = 0; r < ranks; ++r) count_alive(r);
}

void OrderImprover::count_alive(std::size_t rank) {
  const PassList& passes = order_[rank];
  const std::size_t lanes = model_.lanes_of[rank].size();
  alive_[rank].assign(passes.size() + 1, 0);
  lacking_[rank].assign((passes.size() + 1) * 2 * lanes, 0);
  for (std::size_t i = 0; i < passes.size(); ++i) {
    std::int16_t* now = &lacking_[rank][i * 2 * lanes];
    std::int16_t* next = now + 2 * lanes;
    std::copy(now, next, next);
    std::int16_t* own = next + 2 * lane_place_[passes[i].lane];
    const OpKind kind = passes[i].kind;
    if (kind == OpKind::forward) ++own[0];
    if (is_backward(kind)) --own[0];
    if (kind == OpKind::backward_input) ++own[1];
    if (kind == OpKind::backward_weight) --own[1];
    const int change = kind == OpKind::forward ? 1 : kind == OpKind::backward_input ? 0 : -1;
    alive_[rank][i + 1] = alive_[rank][i] + change;
  }
}

std::int64_t OrderImprover::evaluate() {
  ++best_.evaluations;
  const std::int64_t makespan = evaluator_.run(order_).makespan;
  if (makespan < 0) return makespan;
  std::vector<std::size_t> forwards(model_.lanes.size()), backwards(model_.lanes.size());
  for (std::size_t r = 0; r < order_.size(); ++r)
    for (std::size_t i = 0; i < order_[r].size(); ++i) {
      const Pass pass = order_[r][i];
      if (pass.kind == OpKind::backward_weight) continue;
      const bool forward = pass.kind == OpKind::forward;
      const std::size_t k = forward ? forwards[pass.lane]++ : backwards[pass.lane]++;
      microbatch_[r][i] = k;
      (forward ? forward_at_ : backward_at_)[pass.lane][k] = i;
    }
  return makespan;
}

bool OrderImprover::guarded() {
  for (std::size_t g = 0; g < guards_.size(); ++g)
    if (guards_[g].run(order_).makespan > options_.guards[g].makespan) return false;
  return true;
}

// When the input of a pass is there.
std::int64_t OrderImprover::arrival(Pass pass, std::size_t k) const {
  if (pass.kind == OpKind::backward_weight) return 0;
  const bool forward = pass.kind == OpKind::forward;
  const ScheduleLane& lane = model_.lanes[pass.lane];
  const int from = forward ? lane.previous : lane.next;
  if (from < 0) return 0;
  const auto f = static_cast<std::size_t>(from);
  const auto rank = static_cast<std::size_t>(model_.lanes[f].rank);
  const std::size_t i = (forward ? forward_at_ : backward_at_)[f][k];
  return evaluator_.starts()[rank][i] + duration(order_[rank][i]) +
         (forward ? lane.forward_delay : lane.backward_delay);
}

// The longest path that its result starts on another rank or lane, from the end of the pass.
std::int64_t OrderImprover::tail_behind(Pass pass, std::size_t k) const {
  if (pass.kind == OpKind::backward_weight) return 0;
  const bool forward = pass.kind == OpKind::forward;
  const ScheduleLane& lane = model_.lanes[pass.lane];
  const int to = forward ? lane.next : lane.previous;
  if (to < 0) return 0;
  const auto t = static_cast<std::size_t>(to);
  const ScheduleLane& receiver = model_.lanes[t];
  const std::size_t i = (forward ? forward_at_ : backward_at_)[t][k];
  return tails_[static_cast<std::size_t>(receiver.rank)][i] +
         (forward ? receiver.forward_delay : receiver.backward_delay);
}

void OrderImprover::find_tails() {
  const std::vector<OrderEvaluator::Place>& reached = evaluator_.reached();
  for (std::size_t n = reached.size(); n-- > 0;) {
    const auto r = static_cast<std::size_t>(reached[n].rank);
    const auto i = static_cast<std::size_t>(reached[n].index);
    const Pass pass = order_[r][i];
    const std::int64_t behind = i + 1 < order_[r].size() ? tails_[r][i + 1] : 0;
    tails_[r][i] = duration(pass) + std::max(behind, tail_behind(pass, microbatch_[r][i]));
  }
}

std::vector<OrderEvaluator::Place> OrderImprover::longest_path() {
  std::vector<OrderEvaluator::Place> path;
  std::vector<std::size_t> firsts;
  for (std::size_t r = 0; r < order_.size(); ++r)
    if (!order_[r].empty() && evaluator_.starts()[r][0] == 0 && tails_[r][0] == makespan_)
      firsts.push_back(r);
  std::size_t rank = firsts[scramble(random_++) % firsts.size()];
  std::size_t index = 0;
  for (;;) {
    path.push_back({static_cast<int>(rank), static_cast<int>(index)});
    const Pass pass = order_[rank][index];
    const std::int64_t rest = tails_[rank][index] - duration(pass);
    if (rest == 0) return path;
    const bool on = index + 1 < order_[rank].size() && tails_[rank][index + 1] == rest;
    const bool away = tail_behind(pass, microbatch_[rank][index]) == rest;
    if (on && (!away || scramble(random_++) % 2 == 0)) {
      ++index;
      continue;
    }
    const ScheduleLane& lane = model_.lanes[pass.lane];
    const bool forward = pass.kind == OpKind::forward;
    const auto to = static_cast<std::size_t>(forward ? lane.next : lane.previous);
    index = (forward ? forward_at_ : backward_at_)[to][microbatch_[rank][index]];
    rank = static_cast<std::size_t>(model_.lanes[to].rank);
  }
}

constexpr std::size_t reach = 12;  // passes at either end of a run that are tried

void OrderImprover::add_moves(std::vector<Move>& found, std::size_t rank, std::size_t first,
                              std::size_t last) const {
  for (std::size_t i = last - std::min(reach, last - first); i < last; ++i)
    if (order_[rank][i] != order_[rank][last]) found.push_back({rank, i, last});
  for (std::size_t i = first + 1; i <= std::min(last, first + reach); ++i)
    if (order_[rank][i] != order_[rank][first] && !(i == last && i == first + 1))
      found.push_back({rank, i, first});
}

std::vector<Move> OrderImprover::moves() {
  const std::vector<OrderEvaluator::Place> path = longest_path();
  std::vector<Move> found;
  std::size_t begin = 0;
  for (std::size_t n = 1; n <= path.size(); ++n) {
    if (n < path.size() && path[n].rank == path[n - 1].rank && path[n].index == path[n - 1].index + 1)
      continue;
    if (n - begin > 1)
      add_moves(found, static_cast<std::size_t>(path[begin].rank),
                static_cast<std::size_t>(path[begin].index), static_cast<std::size_t>(path[n - 1].index));
    begin = n;
  }
  return found;
}

void OrderImprover::shift_window(const Move& move) {
  const PassList& passes = order_[move.rank];
  const auto at = [](std::size_t i) { return static_cast<std::ptrdiff_t>(i); };
  window_.assign(passes.begin() + at(move.first()), passes.begin() + at(move.last()) + 1);
  if (move.from < move.to)
    std::rotate(window_.begin(), window_.begin() + 1, window_.end());
  else
    std::rotate(window_.begin(), window_.end() - 1, window_.end());
}

// Also leaves the window as it will be.
bool OrderImprover::allowed(const Move& move) {
  shift_window(move);
  const std::size_t lanes = model_.lanes_of[move.rank].size();
  const std::int16_t* before = &lacking_[move.rank][move.first() * 2 * lanes];
  std::vector<std::int16_t>& lacking = window_lacking_;
  lacking.assign(before, before + 2 * lanes);
  int alive = alive_[move.rank][move.first()];
  for (const Pass pass : window_) {
    const std::size_t own = 2 * lane_place_[pass.lane];
    if (pass.kind == OpKind::forward) {
      ++lacking[own];
      if (++alive > model_.memory_limit) return false;
    } else if (pass.kind == OpKind::backward_weight) {
      if (--lacking[own + 1] < 0) return false;
      --alive;
    } else {
      if (--lacking[own] < 0) return false;
      if (pass.kind == OpKind::backward)
        --alive;
      else
        ++lacking[own + 1];
    }
  }
  return true;
}

// The longest path through a pass of the window, if nothing outside it moved. REQUIRES: allowed(move).
std::int64_t OrderImprover::estimate(const Move& move) {
  const std::size_t first = move.first();
  const std::size_t r = move.rank;
  window_microbatch_.assign(window_.size(), 0);
  window_head_.assign(window_.size(), 0);
  std::int64_t now = first == 0 ? 0 : evaluator_.starts()[r][first - 1] + duration(order_[r][first - 1]);
  for (std::size_t w = 0; w < window_.size(); ++w) {
    // The n-th of its kind and lane in the window keeps the microbatch of the n-th before the move.
    std::size_t skip = static_cast<std::size_t>(
        std::count(window_.begin(), window_.begin() + static_cast<std::ptrdiff_t>(w), window_[w]));
    std::size_t i = first;
    while (order_[r][i] != window_[w] || skip-- > 0) ++i;
    window_microbatch_[w] = microbatch_[r][i];
    window_head_[w] = std::max(now, arrival(window_[w], window_microbatch_[w]));
    now = window_head_[w] + duration(window_[w]);
  }
  std::int64_t longest = 0;
  std::int64_t behind = move.last() + 1 < order_[r].size() ? tails_[r][move.last() + 1] : 0;
  for (std::size_t w = window_.size(); w-- > 0;) {
    behind = duration(window_[w]) + std::max(behind, tail_behind(window_[w], window_microbatch_[w]));
    longest = std::max(longest, window_head_[w] + behind);
  }
  return longest;
}

std::uint64_t OrderImprover::hash_after(const Move& move) const {
  std::uint64_t hash = hash_;
  for (std::size_t w = 0; w < window_.size(); ++w) {
    hash -= place_hash(move.rank, move.first() + w, order_[move.rank][move.first() + w]);
    hash += place_hash(move.rank, move.first() + w, window_[w]);
  }
  return hash;
}

void OrderImprover::apply(const Move& move) {
  shift_window(move);
  hash_ = hash_after(move);
  std::copy(window_.begin(), window_.end(),
            order_[move.rank].begin() + static_cast<std::ptrdiff_t>(move.first()));
  count_alive(move.rank);
}

// Takes the best move to an order not seen before; false if there is none.
bool OrderImprover::step() {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  std::vector<Move> best;
  for (const Move& move : moves()) {
    if (!allowed(move) || visited_.count(hash_after(move)) != 0) continue;
    const std::int64_t longest = estimate(move);
    if (longest < least) best.clear();
    if (longest <= least) best.push_back(move);
    least = std::min(least, longest);
  }
  if (best.empty()) return false;
  const Move move = best[scramble(random_++) % best.size()];
  apply(move);
  visited_.insert(hash_);
  const std::int64_t makespan = evaluate();
  if (makespan < 0 || !guarded()) {  // the lists wait for each other, or it is slow elsewhere: take it back
    apply({move.rank, move.to, move.from});
    evaluate();
  } else {
    makespan_ = makespan;
  }
  find_tails();
  return true;
}

Improvement OrderImprover::run() {
  makespan_ = evaluate();
  find_tails();
  best_.order = order_;
  best_.makespan = makespan_;
  std::uint64_t best_hash = hash_;
  std::int64_t improved = best_.evaluations;
  while (best_.evaluations < options_.evaluations && best_.makespan > options_.stop_at) {
    const bool moved = step();
    if (makespan_ < best_.makespan) {
      best_.order = order_;
      best_.makespan = makespan_;
      best_hash = hash_;
      improved = best_.evaluations;
    }
    if (moved && best_.evaluations - improved < options_.restart) continue;
    if (!moved && hash_ == best_hash) break;
    order_ = best_.order;
    hash_ = best_hash;
    improved = best_.evaluations;
    for (std::size_t r = 0; r < order_.size(); ++r) count_alive(r);
    makespan_ = evaluate();
    find_tails();
  }
  return std::move(best_);
}

}  // namespace

Improvement improve_order(const SearchModel& model, const PassOrder& start, const ImproveOptions& options) {
  return OrderImprover(model, start, options).run();
}

}  // namespace simrun
