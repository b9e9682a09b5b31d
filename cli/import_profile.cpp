#include "cli/import_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

#include "configs/diagnostics.h"
#include "configs/limits.h"
#include "configs/measured_config.h"
#include "schedules/timeline.h"
#include "sim/attention_cost.h"
#include "sim/kernel_cost.h"
#include "sim/measured_cost.h"
#include "traces/imported_timeline.h"

namespace simrun {
namespace {

// Shares of the datasheet's peak that no GPU goes below or above, and a factor that no efficiency explains.
constexpr double least_peak_share = 0.01, most_peak_share = 1.1, most_slowdown = 10;

struct KindSeconds {
  double predicted = 0, measured = 0;
  double factor() const { return measured / predicted; }
};
using KindTable = std::map<Opcode, KindSeconds>;

// Work and predicted seconds of what a rate stands for.
struct RateWork {
  double work = 0, seconds = 0;
};
struct RateWorks {
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, RateWork> products;
  std::map<std::pair<std::int64_t, std::int64_t>, RateWork> attention, attention_backward;
  std::map<std::string, RateWork> kernels;
};

const RankTimeline* with_lanes(const Timeline& timeline, std::int32_t pipeline_rank) {
  const auto rank = std::ranges::find_if(timeline.ranks, [&](const RankTimeline& of) {
    return of.pipeline_rank == pipeline_rank && !of.lanes.empty();
  });
  return rank == timeline.ranks.end() ? nullptr : &*rank;
}

// Which instructions of a kind a profile has rates for.
enum class Rated : std::uint8_t { all, some, none };

class ProfileBuilder {
 public:
  explicit ProfileBuilder(const ImportedBeside& beside) : beside_(beside) {}

  void count() {
    const std::vector<std::int32_t> pipeline_ranks = pipeline_ranks_of(beside_.plan, beside_.run);
    for (std::size_t r = 0; r < pipeline_ranks.size(); ++r) {
      const RankTimeline* const rank = with_lanes(beside_.predicted, pipeline_ranks[r]);
      if (rank == nullptr) continue;
      for (const ImportedKernel& kernel : beside_.run.ranks[r].kernels)
        if (kernel.kind.opcode)
          kinds_[*kernel.kind.opcode].measured +=
              std::max(static_cast<double>(kernel.duration_ns) * 1e-9 - drawn_launch(), 0.0);
      count_predicted(*rank);
    }
    for (const auto& [opcode, of] : kinds_)
      if (of.predicted > 0 && of.measured <= 0) missing_.emplace_back(to_string(opcode));
    std::erase_if(kinds_, [](const auto& of) {
      return is_communication(of.first) || of.second.predicted <= 0 || of.second.measured <= 0;
    });
  }

  const KindTable& kinds() const { return kinds_; }
  const std::vector<std::string>& missing() const { return missing_; }

  // Behind measured_section().
  Rated rated(Opcode kind) const {
    const auto of = unrated_.find(kind);
    if (of == unrated_.end()) return Rated::all;
    return of->second < instructions_.at(kind).size() ? Rated::some : Rated::none;
  }

  // Why these rates are not the job's; "" where they may be.
  std::string fault() const {
    if (kinds_.empty()) return "the trace has no kernel of any kind that the job has";
    const auto products = kinds_.find(Opcode::gemm);
    double work = 0, seconds = 0;
    for (const auto& [sizes, rate] : works_.products) {
      work += rate.work;
      seconds += rate.seconds;
    }
    if (products == kinds_.end() || work <= 0 || seconds <= 0) return "";
    double peak = 0;
    for (const auto& [type, flops] : beside_.plan.cluster.gpu.peak_flops) peak = std::max(peak, flops);
    const double share = peak > 0 ? work / seconds / peak : 0;
    const bool is_slow = share < least_peak_share && products->second.factor() > most_slowdown;
    if (peak <= 0 || (!is_slow && share <= most_peak_share)) return "";
    return fmt::format(
        "the job's matrix products would run at {:.3g} % of the datasheet's peak by this trace", 100 * share);
  }

  // By the kinds that were measured.
  std::string measured_section() {
    for (const auto& [kind, instructions] : instructions_)
      if (const auto of = kinds_.find(kind); of != kinds_.end())
        for (const auto& [instruction, count] : instructions)
          if (!add_work(*instruction, of->second.factor(), static_cast<double>(count))) ++unrated_[kind];
    std::string text = "measured:\n";
    text += section({"products", "GFLOP/s", limits::measured_flops}, works_.products, [](const auto& sizes) {
      return fmt::format("{}x{}x{}", std::get<0>(sizes), std::get<1>(sizes), std::get<2>(sizes));
    });
    const auto two = [](const auto& sizes) { return fmt::format("{}x{}", sizes.first, sizes.second); };
    text += section({"attention", "GFLOP/s", limits::measured_flops}, works_.attention, two);
    text +=
        section({"attention_backward", "GFLOP/s", limits::measured_flops}, works_.attention_backward, two);
    text += section({"kernels", "GB/s", limits::measured_bandwidth}, works_.kernels,
                    [](const std::string& name) { return name; });
    return text;
  }

 private:
  void count_predicted(const RankTimeline& rank) {
    const Program& program = beside_.plan.programs[static_cast<std::size_t>(rank.pipeline_rank)];
    std::map<std::pair<Index, Index>, std::int64_t> runs;
    for (const Lane& lane : rank.lanes)
      for (const Interval& interval : lane.intervals) {
        const Index segment = program.entries[interval.entry].segment;
        const Instruction& what = beside_.plan.segments[segment].instructions[interval.instruction];
        if (is_communication(what.opcode)) continue;
        kinds_[what.opcode].predicted += std::max(to_seconds(interval.duration) - launch(), 0.0);
        ++runs[{segment, interval.instruction}];
      }
    for (const auto& [place, count] : runs) {
      const Instruction& what = beside_.plan.segments[place.first].instructions[place.second];
      instructions_[what.opcode].emplace_back(&what, count);
    }
  }

  double launch() const { return beside_.plan.cluster.gpu.kernel_launch_s; }
  // simrun's own traces draw it as a part of the kernel.
  double drawn_launch() const { return beside_.run.origin == TraceOrigin::simrun ? launch() : 0; }

  // False: a profile has no rate for it, and it is predicted as before.
  bool add_work(const Instruction& what, double factor, double count) {
    const Plan& plan = beside_.plan;
    const double seconds = to_seconds(kernel_time(plan, what)) - plan.cluster.gpu.kernel_launch_s;
    RateWork* rate = nullptr;
    double work = 0;
    if (what.opcode == Opcode::gemm) {
      const GemmShape shape = gemm_shape(plan, what);
      rate = &works_.products[{shape.m, shape.n, shape.k}];
      work = kernel_work(plan, what).flops;
    } else if (what.opcode == Opcode::attention || what.opcode == Opcode::attention_backward) {
      if (what.function != Function::flash) return false;
      const AttentionShape shape = attention_shape(plan, what);
      auto& table = what.opcode == Opcode::attention ? works_.attention : works_.attention_backward;
      rate = &table[{shape.sequence, shape.head_dim}];
      work = kernel_work(plan, what).flops;
    } else {
      const std::string name = kernel_name(what);
      if (std::ranges::find(measured_kernel_names, name) == measured_kernel_names.end()) return false;
      rate = &works_.kernels[name];
      work = kernel_work(plan, what).bytes;
    }
    rate->work += work * count;
    rate->seconds += std::max(seconds, 0.0) * factor * count;
    return true;
  }

  struct Table {
    const char *key, *unit;
    RealRange limits;  // of what the loader takes
  };
  template <typename Works, typename Name>
  static std::string section(const Table& table, const Works& works, const Name& name) {
    std::string lines;
    for (const auto& [of, rate] : works) {
      const double per_second = rate.seconds > 0 ? rate.work / rate.seconds : 0;
      if (per_second < table.limits.least || per_second > table.limits.most) continue;
      lines += fmt::format("    {}: {:.6f} {}\n", name(of), per_second / 1e9, table.unit);
    }
    return lines.empty() ? "" : fmt::format("  {}:\n{}", table.key, lines);
  }

  const ImportedBeside& beside_;
  KindTable kinds_;
  std::vector<std::string> missing_;
  // Each once, and how often the ranks run it.
  std::map<Opcode, std::vector<std::pair<const Instruction*, std::int64_t>>> instructions_;
  std::map<Opcode, std::size_t> unrated_;  // of these
  RateWorks works_;
};

const char* rated_text(Rated rated) {
  switch (rated) {
    case Rated::all: return "";
    case Rated::some: return ", but for those that `measured` has no rates for";
    case Rated::none: return ", which `measured` has no rate for";
  }
  return "";
}

// The keys of `gpu` in the effective config, with where each comes from, but for what was measured before.
std::string gpu_keys(const std::string& effective_yaml) {
  std::istringstream lines(effective_yaml);
  std::string line, text;
  bool is_cluster = false, is_gpu = false, is_measured = false;
  while (std::getline(lines, line)) {
    const std::size_t indent = line.find_first_not_of(' ');
    if (indent == std::string::npos) continue;
    if (indent == 0) is_cluster = line.starts_with("cluster:");
    if (indent == 2) is_gpu = is_cluster && line.starts_with("  gpu:");
    if (indent == 4) is_measured = line.starts_with("    measured:");
    if (is_gpu && indent >= 4 && !is_measured) text += line.substr(4) + "\n";
  }
  return text;
}

}  // namespace

Profile gpu_profile(const LoadedJob& job, const ImportedBeside& beside) {
  ProfileBuilder builder(beside);
  builder.count();
  const ImportedRun& run = beside.run;
  std::string text = fmt::format(
      "# Written by simrun --import-trace --profile: {}, {} rank{}. Use it as gpu: THIS_FILE.\n"
      "# What each kind of kernel took in the trace by what was predicted for the job; `measured` has both "
      "in it.\n",
      run.device.empty() ? to_string(run.origin) : run.device, run.ranks.size(),
      run.ranks.size() == 1 ? "" : "s");
  const std::string measured = builder.measured_section();
  Profile profile;
  profile.missing = builder.missing();
  for (const auto& [opcode, kind] : builder.kinds()) {
    text += fmt::format("#   {:<22} {:.6g} s measured, {:.6g} s predicted: x {:.4f}{}\n", to_string(opcode),
                        kind.measured, kind.predicted, kind.factor(), rated_text(builder.rated(opcode)));
    if (builder.rated(opcode) != Rated::all) profile.unrated.emplace_back(to_string(opcode));
  }
  if (const std::string fault = builder.fault(); !fault.empty())
    throw ConfigError({{{run.ranks.front().path, 0, 0},
                        "--profile: " + fault,
                        "give the trace of one step of the job that --against names."}});
  text += gpu_keys(job.effective_yaml);
  profile.yaml = measured == "measured:\n" ? text : text + measured;
  return profile;
}

}  // namespace simrun
