#include "backend/processes/stall_waves.h"

#include <algorithm>
#include <utility>

namespace simrun {

void StallWaves::tell(int process, Answer answer) {
  answers_[static_cast<std::size_t>(process)].last = std::move(answer);
}

std::optional<std::int64_t> StallWaves::begin() {
  if (under_way_ || stalled_) return {};
  if (!all_idle_and_arrived() || waits().waits.empty()) {
    quiet_at_ = -1;
    return {};
  }
  under_way_ = true;
  return ++wave_;
}

void StallWaves::answer(std::int64_t wave, int process, Answer answer) {
  if (!under_way_ || wave != wave_) return;
  answers_[static_cast<std::size_t>(process)] = {std::move(answer), wave};
  const bool complete =
      std::all_of(answers_.begin(), answers_.end(), [&](const Process& of) { return of.wave == wave; });
  if (!complete) return;
  under_way_ = false;
  const bool quiet = all_idle_and_arrived() && !waits().waits.empty();
  stalled_ = quiet && quiet_at_ == sent();
  quiet_at_ = quiet ? sent() : -1;
}

void StallWaves::forget() {
  answers_.assign(answers_.size(), {});
  under_way_ = false;
  quiet_at_ = -1;
}

RankWaits StallWaves::waits(const std::vector<int>& without) const {
  RankWaits all;
  for (std::size_t process = 0; process < answers_.size(); ++process) {
    if (std::find(without.begin(), without.end(), static_cast<int>(process)) != without.end()) continue;
    const RankWaits& ranks = answers_[process].last.ranks;
    all.waits.insert(all.waits.end(), ranks.waits.begin(), ranks.waits.end());
    all.ended.insert(all.ended.end(), ranks.ended.begin(), ranks.ended.end());
  }
  return all;
}

bool StallWaves::all_idle_and_arrived() const {
  std::int64_t under_way = 0;
  for (const Process& process : answers_) {
    if (!process.last.idle) return false;
    under_way += process.last.sent - process.last.delivered;
  }
  return under_way == 0;
}

std::int64_t StallWaves::sent() const {
  std::int64_t sum = 0;
  for (const Process& process : answers_) sum += process.last.sent;
  return sum;
}

}  // namespace simrun
