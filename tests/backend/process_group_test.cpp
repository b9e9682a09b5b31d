#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "backend/processes/group.h"
#include "tests/backend/memory_link.h"

// Ranks over several processes: they run like ranks of one, and whatever goes wrong ends all of them with one
// text. The processes here are threads that exchange frames in memory; tests/processes.cmake has real ones.
namespace simrun {
namespace {

using std::chrono::milliseconds;
using Outcomes = std::vector<ProcessGroup::Outcome>;

constexpr ProcessGroup::Limits quick{milliseconds(5), milliseconds(10'000), milliseconds(300)};

// One thread per process; `work` says what each runs.
Outcomes run_processes(int processes, const std::function<ProcessGroup::Work(int)>& work,
                       const ProcessGroup::Limits& limits = quick, FrameNetwork* network = nullptr) {
  FrameNetwork own(processes);
  FrameNetwork& frames = network == nullptr ? own : *network;
  Outcomes outcomes(static_cast<std::size_t>(processes));
  std::vector<std::thread> threads;
  for (int process = 0; process < processes; ++process)
    threads.emplace_back([&, process] {
      ProcessGroup group([&] { return frames.link(process); }, nullptr, limits);
      outcomes[static_cast<std::size_t>(process)] = group.run(work(process));
      group.leave();
    });
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

ProcessGroup::Work work_of(std::int64_t ranks, const std::function<void(std::int64_t, Transport&)>& body) {
  return {.ranks = ranks, .agreement = "plan A", .body = body, .collect = [] {
            return std::vector<std::byte>{};
          }};
}

void check_failure(const Outcomes& outcomes, FailureKind kind, const std::string& text) {
  for (const ProcessGroup::Outcome& outcome : outcomes) {
    CHECK(outcome.failure.text == text);
    CHECK(outcome.failure.kind == kind);
  }
}

}  // namespace

TEST_CASE("every rank of every process reaches every other, and process 0 gets what each has collected") {
  constexpr std::int64_t ranks = 6;
  std::atomic<int> received = 0;
  const Outcomes outcomes = run_processes(3, [&](int process) {
    ProcessGroup::Work work = work_of(ranks, [&](std::int64_t rank, Transport& transport) {
      for (std::int64_t to = 0; to < ranks; ++to)
        for (const std::int64_t turn : {0, 1}) transport.send(to, {9, 4}, {100 * rank + turn, {}});
      for (std::int64_t from = 0; from < ranks; ++from)
        for (const std::int64_t turn : {0, 1})
          received += transport.receive(from, {9, 4}, "a test").elements == 100 * from + turn ? 1 : 0;
    });
    work.collect = [process] { return std::vector<std::byte>(static_cast<std::size_t>(process + 1)); };
    return work;
  });
  check_failure(outcomes, FailureKind::none, "");
  CHECK(received == 2 * ranks * ranks);
  REQUIRE(outcomes[0].collected.size() == 3);
  for (std::size_t process = 0; process < 3; ++process)
    CHECK(outcomes[0].collected[process].size() == process + 1);
  CHECK(outcomes[1].collected.empty());
}

TEST_CASE("processes run one thing after another, and what process 0 shares between reaches all") {
  FrameNetwork network(3);
  std::vector<std::string> got(3);
  std::atomic<int> ran = 0;
  std::vector<std::thread> threads;
  for (int process = 0; process < 3; ++process)
    threads.emplace_back([&, process] {
      ProcessGroup group([&] { return network.link(process); }, nullptr, quick);
      std::string& all = got[static_cast<std::size_t>(process)];
      for (int turn = 0; turn < 4; ++turn) {
        const ProcessGroup::Outcome outcome =
            group.run(work_of(6, [&](std::int64_t rank, Transport& transport) {
              transport.send((rank + 1) % 6, {0, 0}, {turn, {}});
              ran += transport.receive((rank + 5) % 6, {0, 0}, "a turn").elements == turn ? 1 : 0;
            }));
        all += outcome.failure.text;
        all += group.share(process == 0 ? std::to_string(turn) : "");
      }
      group.leave();
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(ran == 4 * 6);
  CHECK(got == std::vector<std::string>{"0123", "0123", "0123"});
}

TEST_CASE("a plan whose ranks do not divide among the processes runs in none of them") {
  std::atomic<int> ran = 0;
  const auto body = [&](std::int64_t, Transport&) { ++ran; };
  check_failure(run_processes(3, [&](int) { return work_of(8, body); }), FailureKind::disagreement,
                "the plan has 8 ranks, which 3 processes cannot have equal numbers of; 1, 2, 4 or 8 can");
  check_failure(run_processes(3, [&](int) { return work_of(2, body); }), FailureKind::disagreement,
                "the plan has 2 ranks, which 3 processes cannot have equal numbers of; 1 or 2 can");
  CHECK(ran == 0);
}

TEST_CASE("a process that is about to run another plan is named before any rank starts") {
  std::atomic<int> ran = 0;
  const Outcomes outcomes = run_processes(4, [&](int process) {
    ProcessGroup::Work work = work_of(8, [&](std::int64_t, Transport&) { ++ran; });
    if (process == 2) work.agreement = "plan B";
    return work;
  });
  const std::string pid = std::to_string(this_process().pid);
  check_failure(outcomes, FailureKind::disagreement,
                "process 2 (ranks 4-5, pid " + pid + ") runs plan B, process 0 plan A");
  CHECK(ran == 0);
}

TEST_CASE("a rank that throws ends the ranks of all processes with its words") {
  for (const std::int64_t thrower : {0, 5}) {
    const Outcomes outcomes = run_processes(3, [&](int) {
      return work_of(6, [&](std::int64_t rank, Transport& transport) {
        if (rank == thrower) throw std::runtime_error("the disk is full");
        transport.receive(thrower, {0, 0}, "the gradient sum");
      });
    });
    check_failure(outcomes, FailureKind::crash, "rank " + std::to_string(thrower) + ": the disk is full");
  }
}

TEST_CASE("a deadlock over processes is noticed and says who waits for whom in what") {
  const auto start = std::chrono::steady_clock::now();
  const Outcomes outcomes = run_processes(2, [&](int) {
    return work_of(4, [&](std::int64_t rank, Transport& transport) {
      if (rank == 1) return;
      transport.send((rank + 1) % 4, {0, 0}, {1, {}});  // a message under way is no deadlock, but it arrives
      if (rank == 3) transport.receive(2, {0, 0}, "entry 1");
      transport.receive((rank + 2) % 4 == 1 ? 1 : (rank + 2) % 4, {7, 0}, "entry 2");
    });
  });
  check_failure(outcomes, FailureKind::disagreement,
                "no rank can go on: rank 0 waits for rank 2 in entry 2; rank 2 waits for rank 0 in entry 2; "
                "rank 3 waits for rank 1, which has ended, in entry 2");
  CHECK(std::chrono::steady_clock::now() - start < milliseconds(10'000));
}

TEST_CASE("slow ranks and messages that are long under way are no deadlock") {
  FrameNetwork network(2);
  network.delay = milliseconds(60);  // twelve beats
  const Outcomes outcomes = run_processes(
      2,
      [&](int) {
        return work_of(2, [&](std::int64_t rank, Transport& transport) {
          for (std::int64_t turn = 0; turn < 4; ++turn) {
            if (turn % 2 == rank) std::this_thread::sleep_for(milliseconds(20));
            transport.send(1 - rank, {0, turn}, {turn, {}});
            transport.receive(1 - rank, {0, turn}, "a turn");
          }
        });
      },
      quick, &network);
  check_failure(outcomes, FailureKind::none, "");
}

TEST_CASE("a process that falls silent is missed, and so is process 0") {
  for (const int silent : {0, 1}) {
    FrameNetwork network(3);
    ProcessGroup::Limits limits = quick;
    limits.silence = milliseconds(400);
    const Outcomes outcomes = run_processes(
        3,
        [&](int process) {
          return work_of(3, [&, process](std::int64_t rank, Transport& transport) {
            if (rank != silent) transport.send(silent, {1, 0}, {rank, {}});
            if (rank == silent) {  // when all run
              for (const std::int64_t other : {1, 2})
                transport.receive((rank + other) % 3, {1, 0}, "a start");
              network.cut_off(process);
            }
            transport.receive((rank + 1) % 3, {0, 0}, "entry 1");
          });
        },
        limits, &network);
    for (int process = 0; process < 3; ++process) {
      if (process == silent) continue;
      const RunFailure& failure = outcomes[static_cast<std::size_t>(process)].failure;
      CAPTURE(silent, process, failure.text);
      CHECK(failure.kind == FailureKind::crash);
      const std::string who = std::to_string(silent);
      CHECK(failure.text.find("process " + who + " (rank " + who + ", pid ") == 0);
      CHECK(failure.text.find("has not been heard of for 0.4 s; ") != std::string::npos);
      CHECK(failure.text.find(" waits for rank ") != std::string::npos);
      CHECK(failure.text == outcomes[2].failure.text);
    }
  }
}

TEST_CASE("of a lost process the message does not tell what its ranks once waited for") {
  FrameNetwork network(2);
  ProcessGroup::Limits limits = quick;
  limits.silence = milliseconds(400);
  const Outcomes outcomes = run_processes(
      2,
      [&](int) {
        return work_of(4, [&](std::int64_t rank, Transport& transport) {
          if (rank == 0) {
            std::this_thread::sleep_for(milliseconds(100));  // twenty beats: their waits are known by now
            network.cut_off(1);
          }
          transport.receive((rank + 2) % 4, {0, 0}, rank == 0 ? "entry 2" : "entry 1");
        });
      },
      limits, &network);
  const std::string pid = std::to_string(this_process().pid);
  CHECK(outcomes[0].failure.text ==
        "process 1 (ranks 2-3, pid " + pid +
            ") has not been heard of for 0.4 s; rank 0 waits for rank 2 in entry 2; rank 1 waits for rank 3 "
            "in entry 1");
}

TEST_CASE("a rank that computes on while its run has failed does not keep its process") {
  FrameNetwork network(2);
  std::atomic<bool> gave_up = false;
  std::string last_words;
  std::vector<std::thread> threads;
  for (int process = 0; process < 2; ++process)
    threads.emplace_back([&, process] {
      ProcessGroup group([&] { return network.link(process); },
                         [&](const RunFailure& failure, bool speaks) {
                           if (!gave_up) last_words = failure.text + (speaks ? ", aloud" : "");
                           gave_up = true;  // a program would end here
                         },
                         quick);
      group.run(work_of(2, [&](std::int64_t rank, Transport& transport) {
        if (rank == 1) {
          transport.receive(0, {0, 0}, "a start");
          throw std::runtime_error("the disk is full");
        }
        transport.send(1, {0, 0}, {0, {}});
        while (!gave_up) std::this_thread::sleep_for(milliseconds(1));
      }));
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(last_words == "rank 1: the disk is full, aloud");
}

}  // namespace simrun
