#pragma once

#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace simrun {

// A worker process died or could not be started: what killed it and the last lines that it wrote to standard
// error.
class WorkerError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Runs `task` in a child process (on a thread with a 512 MiB stack: SimGrid's solver recurses along chains of
// flows) and returns the bytes that it returned. A std::range_error, std::bad_alloc, std::invalid_argument,
// std::logic_error or WorkerError of the task is thrown here with the same type and text, anything else as
// std::runtime_error; a death by signal or exit is a WorkerError. The child shares nothing back, its standard
// input and output are /dev/null, what it writes to standard error is kept for a WorkerError, and it never
// outlives the thread that called.
//
// `most_seconds`: of clock time until SIGALRM ends it; 0: as long as it takes.
std::string run_in_worker(const std::function<std::string()>& task, unsigned most_seconds = 0);

// The same for many tasks, at most `at_once` processes (0: one per processor) at a time; results in the order
// of tasks. The first task, in order, that failed throws, after the others were stopped. Those before it are
// waited for, so that it is the same one every time.
std::vector<std::string> run_in_workers(const std::vector<std::function<std::string()>>& tasks,
                                        std::size_t at_once, unsigned most_seconds = 0);

}  // namespace simrun
