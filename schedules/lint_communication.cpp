#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "schedules/lint_checks.h"

// Every SEND has its RECV and every cross-stage collective all its ranks, and the plan cannot deadlock: under
// rendezvous an exchange completes when all its ranks have come to it, so with the ranks' issue orders as
// edges the exchanges must have a topological order. Replaying the issue lists finds it (Kahn) or the ranks
// that wait for each other.
namespace simrun {
namespace {

constexpr std::size_t most_ends = std::size_t{1} << 26;  // what a hostile file may make this remember

constexpr std::int64_t most_bytes = std::int64_t{1} << 60;

// One rank's end of one exchange.
struct End {
  std::uint64_t exchange = 0;  // channel and microbatch
  Index program = 0;
  Index entry = 0;
  Index instruction = 0;
};

struct Exchanges {
  std::vector<End> ends;           // sorted by exchange, then program
  std::vector<std::size_t> first;  // of each exchange's ends; one more at the end
  std::vector<std::vector<std::size_t>>
      order;  // by program: its exchanges (indices into `first`) in issue order
  std::vector<std::vector<std::size_t>> order_end;  // by program: the same, as indices into `ends`
  std::size_t size() const { return first.size() - 1; }
};

// Exchanges along an axis of the own mesh are alike on all ranks of the stage and cannot cross others.
bool crosses_stages(const Plan& plan, const Instruction& what) {
  if (!is_communication(what.opcode)) return false;
  const Communication& communication = plan.communications[what.communication];
  if (communication.channel == no_index) return false;
  if (what.opcode == Opcode::send || what.opcode == Opcode::recv)
    return communication.peer.pipeline_rank >= 0;
  return !communication.group.pipeline_ranks.empty();
}

std::vector<std::vector<Index>> crossing_instructions(const Plan& plan) {
  std::vector<std::vector<Index>> crossing(plan.segments.size());
  for (std::size_t segment = 0; segment < plan.segments.size(); ++segment) {
    const std::vector<Instruction>& instructions = plan.segments[segment].instructions;
    for (Index i = 0; i < instructions.size(); ++i)
      if (crosses_stages(plan, instructions[i])) crossing[segment].push_back(i);
  }
  return crossing;
}

Exchanges collect(const Plan& plan, StepOf step) {
  const std::vector<std::vector<Index>> crossing = crossing_instructions(plan);
  Exchanges exchanges;
  for (Index p = 0; p < plan.programs.size(); ++p) {
    const Program& program = plan.programs[p];
    for (Index e = 0; e < program.entries.size(); ++e) {
      const Entry& entry = program.entries[e];
      if (!runs_in(entry, step)) continue;
      if (exchanges.ends.size() > most_ends) break;
      for (const Index i : crossing[entry.segment]) {
        const Instruction& what = plan.segments[entry.segment].instructions[i];
        const std::int32_t microbatch = program.bindings[entry.first_binding + what.binding].microbatch;
        const std::uint64_t channel = plan.communications[what.communication].channel;
        exchanges.ends.push_back({channel << 32 | static_cast<std::uint32_t>(microbatch), p, e, i});
      }
    }
  }
  std::vector<End>& ends = exchanges.ends;
  std::sort(ends.begin(), ends.end(), [](const End& a, const End& b) {
    return std::tie(a.exchange, a.program, a.entry, a.instruction) <
           std::tie(b.exchange, b.program, b.entry, b.instruction);
  });
  exchanges.order_end.resize(plan.programs.size());
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (i == 0 || ends[i].exchange != ends[i - 1].exchange) exchanges.first.push_back(i);
    exchanges.order_end[ends[i].program].push_back(i);
  }
  exchanges.first.push_back(ends.size());
  exchanges.order.resize(plan.programs.size());
  return exchanges;
}

// Puts each program's ends into issue order and notes which exchange each belongs to.
void order_by_issue(Exchanges& exchanges) {
  std::vector<std::size_t> exchange_of(exchanges.ends.size());
  for (std::size_t x = 0; x < exchanges.size(); ++x)
    std::fill(exchange_of.begin() + static_cast<std::ptrdiff_t>(exchanges.first[x]),
              exchange_of.begin() + static_cast<std::ptrdiff_t>(exchanges.first[x + 1]), x);
  for (std::size_t p = 0; p < exchanges.order_end.size(); ++p) {
    std::vector<std::size_t>& issue = exchanges.order_end[p];
    std::sort(issue.begin(), issue.end(), [&](std::size_t a, std::size_t b) {
      const End& x = exchanges.ends[a];
      const End& y = exchanges.ends[b];
      return std::tie(x.entry, x.instruction) < std::tie(y.entry, y.instruction);
    });
    for (const std::size_t end : issue) exchanges.order[p].push_back(exchange_of[end]);
  }
}

const Instruction& instruction(const Plan& plan, const End& end) {
  const Entry& entry = plan.programs[end.program].entries[end.entry];
  return plan.segments[entry.segment].instructions[end.instruction];
}

std::string name_of(const Plan& plan, const End& end) {
  return fmt::format("{}, {}", place(plan, plan.programs[end.program], end.entry),
                     to_string(instruction(plan, end).opcode));
}

// Of the transferred payload; views count, which own no bytes. -1 where it varies over ranks or is absurd.
std::int64_t payload_bytes(const Plan& plan, const std::vector<Index>& buffers) {
  std::int64_t bytes = 0;
  for (const Index index : buffers) {
    const Buffer& buffer = plan.buffers[index];
    for (const BufferDim& dim : buffer.dims)
      if (dim.table >= 0) return -1;
    bytes += buffer.stored_bytes();
    if (bytes > most_bytes) return -1;
  }
  return bytes;
}

std::string transfer_error(const Plan& plan, const End& send, const End& recv) {
  const Communication& there = plan.communications[instruction(plan, send).communication];
  const Communication& here = plan.communications[instruction(plan, recv).communication];
  if (std::cmp_not_equal(there.peer.pipeline_rank, recv.program) ||
      std::cmp_not_equal(here.peer.pipeline_rank, send.program))
    return fmt::format("{} and {} do not name each other as peers", name_of(plan, send), name_of(plan, recv));
  const std::int64_t sent = payload_bytes(plan, instruction(plan, send).inputs);
  const std::int64_t received = payload_bytes(plan, instruction(plan, recv).outputs);
  if (sent >= 0 && received >= 0 && sent != received)
    return fmt::format("{} sends {} bytes, but {} expects {}", name_of(plan, send), sent, name_of(plan, recv),
                       received);
  return "";
}

// "" or what is wrong with the ends [first, last) of one exchange.
std::string exchange_error(const Plan& plan, const End* first, const End* last) {
  const Instruction& what = instruction(plan, *first);
  if (what.opcode == Opcode::send || what.opcode == Opcode::recv) {
    if (last - first == 1)
      return fmt::format("{} on channel {} has no {}", name_of(plan, *first), first->exchange >> 32,
                         what.opcode == Opcode::send ? "RECV" : "SEND");
    const End* send = what.opcode == Opcode::send ? first : first + 1;
    const End* recv = what.opcode == Opcode::send ? first + 1 : first;
    if (last - first > 2 || instruction(plan, *send).opcode != Opcode::send ||
        instruction(plan, *recv).opcode != Opcode::recv || send->program == recv->program)
      return fmt::format("{} and {} are not one SEND and one RECV on channel {}", name_of(plan, *first),
                         name_of(plan, *(last - 1)), first->exchange >> 32);
    return transfer_error(plan, *send, *recv);
  }
  std::vector<std::int32_t> ranks = plan.communications[what.communication].group.pipeline_ranks;
  for (const End* end = first; end < last; ++end) {
    const Instruction& other = instruction(plan, *end);
    if (other.opcode != what.opcode || plan.communications[other.communication].group.pipeline_ranks != ranks)
      return fmt::format("{} and {} differ on channel {}", name_of(plan, *first), name_of(plan, *end),
                         first->exchange >> 32);
  }
  std::sort(ranks.begin(), ranks.end());
  const bool all_there =
      std::equal(ranks.begin(), ranks.end(), first, last,
                 [](std::int32_t rank, const End& end) { return std::cmp_equal(rank, end.program); });
  if (!all_there)
    return fmt::format("{} on channel {} is not run exactly once by each of its {} pipeline ranks",
                       name_of(plan, *first), first->exchange >> 32, ranks.size());
  return "";
}

// Follows who waits for whom from one stuck rank until a rank comes again.
std::string describe_deadlock(const Plan& plan, const Exchanges& exchanges,
                              const std::vector<std::size_t>& next) {
  std::size_t rank = 0;
  while (next[rank] == exchanges.order[rank].size()) ++rank;
  std::vector<std::size_t> path;
  while (std::find(path.begin(), path.end(), rank) == path.end()) {
    path.push_back(rank);
    const std::size_t exchange = exchanges.order[rank][next[rank]];
    for (std::size_t i = exchanges.first[exchange]; i < exchanges.first[exchange + 1]; ++i) {
      const std::size_t other = exchanges.ends[i].program;
      if (exchanges.order[other][next[other]] == exchange) continue;
      rank = other;
      break;
    }
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), rank));
  std::string sentence = "deadlock:";
  for (std::size_t i = 0; i < path.size(); ++i) {
    const End& end = exchanges.ends[exchanges.order_end[path[i]][next[path[i]]]];
    sentence += fmt::format("{} {} waits for pipeline rank {}", i == 0 ? "" : ";", name_of(plan, end),
                            path[(i + 1) % path.size()]);
  }
  return sentence;
}

void prove_progress(const Plan& plan, const Exchanges& exchanges, Findings& findings) {
  std::vector<std::size_t> next(plan.programs.size(), 0);
  std::vector<std::size_t> missing(exchanges.size());  // ranks that have not come to it
  for (std::size_t x = 0; x < missing.size(); ++x) missing[x] = exchanges.first[x + 1] - exchanges.first[x];
  std::vector<std::size_t> complete;
  const auto arrive = [&](std::size_t rank) {
    if (next[rank] == exchanges.order[rank].size()) return;
    const std::size_t exchange = exchanges.order[rank][next[rank]];
    if (--missing[exchange] == 0) complete.push_back(exchange);
  };
  for (std::size_t rank = 0; rank < next.size(); ++rank) arrive(rank);
  while (!complete.empty()) {
    const std::size_t exchange = complete.back();
    complete.pop_back();
    for (std::size_t i = exchanges.first[exchange]; i < exchanges.first[exchange + 1]; ++i) {
      const std::size_t rank = exchanges.ends[i].program;
      ++next[rank];
      arrive(rank);
    }
  }
  for (std::size_t rank = 0; rank < next.size(); ++rank)
    if (next[rank] < exchanges.order[rank].size())
      return findings.add(describe_deadlock(plan, exchanges, next));
}

}  // namespace

void check_communication(const Plan& plan, StepOf step, Findings& findings) {
  Exchanges exchanges = collect(plan, step);
  if (exchanges.ends.size() > most_ends) return findings.add("the plan has more than 2^26 ends of transfers");
  bool matched = true;
  for (std::size_t x = 0; x < exchanges.size() && !findings.full(); ++x) {
    const End* ends = exchanges.ends.data();
    const std::string error = exchange_error(plan, ends + exchanges.first[x], ends + exchanges.first[x + 1]);
    if (error.empty()) continue;
    findings.add(error);
    matched = false;
  }
  if (!matched || findings.full()) return;  // the replay needs every partner
  order_by_issue(exchanges);
  prove_progress(plan, exchanges, findings);
}

}  // namespace simrun
