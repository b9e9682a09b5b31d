#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <new>
#include <thread>

#include "sim/flow_engine.h"
#include "sim/worker.h"

// SimGrid's; here without its headers.
extern "C" void simgrid_run_until(double date);

namespace simrun {

namespace {

using Task = std::function<std::string()>;

// The text of the WorkerError that a task ends in.
std::string death_of(const Task& task) {
  try {
    return "returned " + run_in_worker(task);
  } catch (const WorkerError& error) {
    return error.what();
  }
}

bool has_child() { return waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD; }

void sleep_long() { std::this_thread::sleep_for(std::chrono::minutes(5)); }

// Recurses until `depth` frames of more than 4 KiB lie on the stack.
int deep(int depth) {
  volatile char frame[4096];
  frame[0] = static_cast<char>(depth);
  return depth == 0 ? frame[0] : deep(depth - 1) + frame[0];
}

}  // namespace

TEST_CASE("a worker holds no file of the program open: what the program closes is closed") {
  const int file = open("/dev/null", O_RDONLY);
  CHECK(run_in_worker([=] { return fcntl(file, F_GETFD) < 0 ? "closed" : "open"; }) == "closed");
  CHECK(fcntl(file, F_GETFD) >= 0);  // here it stays
  close(file);
}

TEST_CASE("a worker returns the bytes of its task") {
  CHECK(run_in_worker([] { return std::string("result"); }) == "result");
  CHECK(run_in_worker([] { return std::string(); }).empty());
  CHECK(run_in_worker([] { return std::string("\0\n\xff", 3); }) == std::string("\0\n\xff", 3));
}

TEST_CASE("a worker returns 50 MB unchanged", "[long]") {
  const auto bytes = [] {
    std::string piece(251, '\0'), result;
    for (std::size_t i = 0; i < piece.size(); ++i) piece[i] = static_cast<char>(i * 7 % 251);
    while (result.size() < 50'000'000) result += piece;
    return result;
  };
  CHECK((run_in_worker(bytes) == bytes()));
}

TEST_CASE("a worker shares nothing back") {
  int value = 1;
  CHECK(run_in_worker([&] { return std::to_string(++value); }) == "2");
  CHECK(value == 1);
}

TEST_CASE("a worker's stack holds 400 MiB", "[long]") {
  CHECK(run_in_worker([] { return std::to_string(deep(100'000) != 1); }) == "1");  // 100,000 x 4 KiB
}

TEST_CASE("exceptions of a task keep their types and texts") {
  CHECK_THROWS_AS(run_in_worker([]() -> std::string { throw std::range_error("range"); }), std::range_error);
  CHECK_THROWS_WITH(run_in_worker([]() -> std::string { throw std::range_error("range"); }), "range");
  CHECK_THROWS_AS(run_in_worker([]() -> std::string { throw std::bad_alloc(); }), std::bad_alloc);
  CHECK_THROWS_AS(run_in_worker([]() -> std::string { throw std::invalid_argument("a"); }),
                  std::invalid_argument);
  CHECK_THROWS_AS(run_in_worker([]() -> std::string { throw std::logic_error("a"); }), std::logic_error);
  CHECK_THROWS_AS(run_in_worker([]() -> std::string { throw std::runtime_error("a"); }), std::runtime_error);
  CHECK_THROWS_WITH(run_in_worker([]() -> std::string { throw std::ios_base::failure("lost"); }),
                    Catch::Contains("lost"));
  CHECK_THROWS_AS(run_in_worker([]() -> std::string { throw 7; }), std::runtime_error);
#ifndef __SANITIZE_THREAD__  // it allows no fork in a fork
  CHECK_THROWS_AS(run_in_worker([] { return run_in_worker([]() -> std::string { std::abort(); }); }),
                  WorkerError);
#endif
}

TEST_CASE("a worker's death names what killed it and what it said last") {
  CHECK(death_of([]() -> std::string {
          std::cerr << "first\n\nlast words\n";
          std::abort();
        }) ==
        "a worker process was killed by SIGABRT; the last that it wrote to standard error:\n  first\n  last "
        "words");
  CHECK(death_of([]() -> std::string {
          std::raise(SIGKILL);
          return "";
        }) == "a worker process was killed by SIGKILL; it wrote nothing to standard error");
  CHECK(death_of([]() -> std::string { _exit(3); }) ==
        "a worker process exited with status 3 before it had a result; it wrote nothing to standard error");
  CHECK_THAT(death_of([]() -> std::string { _exit(0); }),
             Catch::Contains("exited with status 0 before it had a result"));
  CHECK_THAT(death_of([]() -> std::string {
               std::raise(SIGTERM);
               return "";
             }),
             Catch::Contains("SIGTERM"));
}

TEST_CASE("an assertion inside of SimGrid is a WorkerError with SimGrid's sentence and no backtrace") {
  const std::string text = death_of([]() -> std::string {
    FlowEngine engine;
    engine.wake(1);
    engine.run([](FlowNumber) {}, [] {});
    simgrid_run_until(0.5);
    return "";
  });
  CHECK_THAT(text, Catch::StartsWith("a worker process was killed by SIGABRT"));
  CHECK_THAT(text, Catch::EndsWith("but that's in the past already"));
}

TEST_CASE("a worker may write more to standard error than a pipe holds") {
  const auto shout = [] {
    for (int line = 0; line < 20'000; ++line) std::cerr << "line " << line << '\n';
  };
  CHECK(run_in_worker([&] {
          shout();
          return std::string(1'000'000, 'x');
        }).size() == 1'000'000);
  CHECK_THAT(death_of([&]() -> std::string {
               shout();
               std::abort();
             }),
             Catch::EndsWith("\n  line 19998\n  line 19999"));
}

TEST_CASE("a worker's standard output is not the user's, and its buffers are not flushed twice") {
  const std::string path = "/tmp/simrun_worker_output_" + std::to_string(getpid());
  std::fflush(stdout);
  const int kept = dup(STDOUT_FILENO);
  const int file = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  dup2(file, STDOUT_FILENO);
  std::fputs("once\n", stdout);  // in the buffer while the child is born
  run_in_worker([] {
    std::puts("from the child");
    std::fflush(stdout);
    return std::string();
  });
  death_of([]() -> std::string { std::exit(0); });
  std::fflush(stdout);
  dup2(kept, STDOUT_FILENO);
  close(kept);
  close(file);
  std::string text;
  std::getline(std::ifstream(path), text, '\0');
  std::remove(path.c_str());
  CHECK(text == "once\n");
}

TEST_CASE("a worker has the default reaction to signals") {
  const auto before = std::signal(SIGUSR1, [](int) {});
  CHECK_THAT(death_of([]() -> std::string {
               std::raise(SIGUSR1);
               return "";
             }),
             Catch::Contains("SIGUSR1"));
  std::signal(SIGUSR1, before);
}

TEST_CASE("16 tasks on 3 workers keep their order") {
  std::vector<Task> tasks;
  std::vector<std::string> expected;
  for (int i = 0; i < 16; ++i) {
    tasks.push_back([i] {
      std::this_thread::sleep_for(std::chrono::milliseconds((16 - i) % 5 * 3));
      return "result " + std::to_string(i);
    });
    expected.push_back("result " + std::to_string(i));
  }
  for (const std::size_t at_once : {3, 1, 0, 100}) CHECK(run_in_workers(tasks, at_once) == expected);
  CHECK(run_in_workers({}, 3).empty());
}

TEST_CASE("large results and much talk of several workers at once do not block them") {
  const std::vector<Task> tasks(6, [] {
    std::cerr << std::string(500'000, 'e');
    std::string result(5'000'000, 'r');
    std::cerr << std::string(500'000, 'f');
    return result;
  });
  for (const std::string& result : run_in_workers(tasks, 3)) CHECK(result.size() == 5'000'000);
}

TEST_CASE("the first task, in order, that fails throws, and those after it are stopped") {
  std::vector<Task> tasks(8, []() -> std::string {
    sleep_long();
    return "";
  });
  tasks[0] = [] { return std::string("fine"); };
  tasks[1] = []() -> std::string {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    throw std::range_error("the second task");
  };
  tasks[2] = []() -> std::string { throw std::invalid_argument("the third task, sooner"); };
  const auto start = std::chrono::steady_clock::now();
  CHECK_THROWS_WITH(run_in_workers(tasks, 8), "the second task");
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(30));
  CHECK_FALSE(has_child());
}

TEST_CASE("no worker stays behind as a zombie") {
  for (int i = 0; i < 20; ++i) run_in_worker([] { return std::string(); });
  death_of([]() -> std::string { std::abort(); });
  CHECK_FALSE(has_child());
}

TEST_CASE("a worker dies with its parent") {
  // The middle process starts a worker, which tells its number by a file and kills it; then the worker must
  // be gone.
  const std::string path = "/tmp/simrun_worker_number_" + std::to_string(getpid());
  const pid_t middle = fork();
  if (middle == 0) {
    run_in_worker([&path]() -> std::string {
      std::ofstream(path) << getpid() << std::flush;
      kill(getppid(), SIGKILL);
      sleep_long();
      return "";
    });
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(middle, &status, 0) == middle);
  CHECK(WIFSIGNALED(status));
  pid_t worker = 0;
  std::ifstream(path) >> worker;
  std::remove(path.c_str());
  REQUIRE(worker > 0);
  const auto gone = [worker] {
    std::string stat;
    std::getline(std::ifstream("/proc/" + std::to_string(worker) + "/stat"), stat);
    return stat.empty() || stat.find(") Z") != std::string::npos;
  };
  for (int i = 0; i < 500 && !gone(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(gone());
}

}  // namespace simrun
