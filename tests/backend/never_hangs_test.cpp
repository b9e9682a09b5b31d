#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "backend/execute.h"
#include "backend/thread_fabric.h"
#include "schedules/compile.h"
#include "tests/backend/tiny_jobs.h"

// Ranks as threads end, whatever happens, and their bits do not depend on who is first.
namespace simrun {
namespace {

// Every message leaves late, by a time that the seed and the rank's messages so far decide.
class LateTransport final : public Transport {
 public:
  LateTransport(Transport& through, std::uint32_t seed) : through_(through), random_(seed) {}
  void send(std::int64_t to, const MessageTag& tag, Message message) override {
    loiter();
    through_.send(to, tag, std::move(message));
  }
  Message receive(std::int64_t from, const MessageTag& tag, const std::string& waiting_for) override {
    loiter();
    return through_.receive(from, tag, waiting_for);
  }

 private:
  void loiter() {
    if (random_() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random_() % 300));
  }
  Transport& through_;
  std::minstd_rand random_;
};

// The child's words through a pipe; it may not return into the test.
template <class Body>
std::string in_child_process(Body body) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const std::string words = body();
    const bool is_told = write(ends[1], words.data(), words.size()) == static_cast<ssize_t>(words.size());
    _exit(is_told ? 0 : 1);
  }
  close(ends[1]);
  std::string words;
  char buffer[256];
  for (ssize_t count = 0; (count = read(ends[0], buffer, sizeof buffer)) > 0;)
    words.append(buffer, static_cast<std::size_t>(count));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  return words;
}

}  // namespace

TEST_CASE("ten runs with ranks that are late at random have the same bits", "[long]") {
  const Plan plan = compile(tiny_job(
      {.model = tiny_llama,
       .parallelism =
           "{tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2, sequence_parallel: true}",
       .optimizer = "{zero_stage: 1, overlap_grad_reduce: true}",
       .gpus = 8}));
  ExecuteOptions options;
  options.steps = 2;
  const Execution prompt = execute(plan, options);
  REQUIRE(prompt.failure == "");
  for (std::uint32_t run = 0; run < 10; ++run) {
    options.around_transport = [&](Transport& through, std::int64_t rank) -> std::unique_ptr<Transport> {
      return std::make_unique<LateTransport>(through, 1 + run * 64 + static_cast<std::uint32_t>(rank));
    };
    const Execution late = execute(plan, options);
    CAPTURE(run);
    REQUIRE(late.failure == "");
    CHECK(late.loss == prompt.loss);
    CHECK(compare(late.gradients, prompt.gradients, 0).error == 0);
    CHECK(compare(late.parameters, prompt.parameters, 0).error == 0);
  }
}

TEST_CASE("threads that cannot be started are told of, and the ranks that were started end") {
  const std::string words = in_child_process([]() -> std::string {
    // Limits do not bind root.
    if (geteuid() == 0 && setuid(65534) != 0) return "skipped";
    const rlimit three{3, 3};
    if (setrlimit(RLIMIT_NPROC, &three) != 0) return "skipped";
    ThreadFabric fabric(16, std::chrono::minutes(1));
    return fabric.run([](std::int64_t rank, Transport& transport) {
      transport.receive((rank + 1) % 16, {0, 0}, "entry 1");
    });
  });
  CAPTURE(words);
  if (words == "skipped") return;
  CHECK(words.find(": no thread can be started for it beside ") != std::string::npos);
  CHECK(words.find("Resource temporarily unavailable") != std::string::npos);
}

TEST_CASE("a rank that runs out of memory is a crash, and one that disagrees is a disagreement") {
  ThreadFabric hungry(2, std::chrono::minutes(1));
  hungry.run([](std::int64_t rank, Transport& transport) {
    if (rank == 1) throw std::bad_alloc();
    transport.receive(1, {0, 0}, "entry 1");
  });
  CHECK(hungry.state().failure.kind == FailureKind::crash);
  CHECK(hungry.state().failure.text == "rank 1: std::bad_alloc");
  ThreadFabric stuck(1, std::chrono::minutes(1));
  stuck.run([](std::int64_t, Transport& transport) { transport.receive(0, {0, 0}, "entry 1"); });
  CHECK(stuck.state().failure.kind == FailureKind::disagreement);
}

}  // namespace simrun
