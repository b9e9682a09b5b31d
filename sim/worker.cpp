#include "sim/worker.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <exception>
#include <list>
#include <new>
#include <thread>
#include <utility>

namespace simrun {

namespace {

constexpr std::size_t stack_bytes = std::size_t{512} << 20;
constexpr std::size_t kept_error_bytes = 16384;
constexpr std::size_t told_error_lines = 8;

[[noreturn]] void fail(const std::string& what, int error) {
  throw WorkerError(what + ": " + std::strerror(error));
}

class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }
  bool open() const { return number_ >= 0; }
  void close() {
    if (open()) ::close(std::exchange(number_, -1));
  }

 private:
  int number_;
};

struct Pipe {
  Descriptor read_end, write_end;
};

Pipe new_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) fail("no pipe to a worker process", errno);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

// Signals stay blocked while a child is born: a handler of the parent must not run in it.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_{};
};

// --- In the child ---

// What a child sends: this, then `size` bytes (of the result, or the exception's text).
enum class Outcome : std::int32_t {
  returned,
  range_error,
  bad_alloc,
  invalid_argument,
  logic_error,
  worker_error,
  other_exception
};
struct Reply {
  Outcome outcome = Outcome::returned;
  std::uint64_t size = 0;
};

struct Job {
  const std::function<std::string()>* task = nullptr;
  Outcome outcome = Outcome::returned;
  std::string bytes;
};

void set_failure(Job& job, Outcome outcome, const char* text) {
  job.outcome = outcome;
  job.bytes = text;
}

// What a child writes to of its parent's memory is copied page by page, its free memory too: the thread's
// memory comes from pages of its own, where jemalloc gives it.
void take_new_pages() {
  using Mallctl = int(const char*, void*, std::size_t*, void*, std::size_t);
  auto* const mallctl = reinterpret_cast<Mallctl*>(dlsym(RTLD_DEFAULT, "mallctl"));
  unsigned arena = 0;
  std::size_t size = sizeof arena;
  if (mallctl != nullptr && mallctl("arenas.create", &arena, &size, nullptr, 0) == 0)
    mallctl("thread.arena", nullptr, nullptr, &arena, sizeof arena);
}

void* run_job(void* argument) {
  Job& job = *static_cast<Job*>(argument);
  take_new_pages();
  try {
    job.bytes = (*job.task)();
  } catch (const std::range_error& error) {
    set_failure(job, Outcome::range_error, error.what());
  } catch (const WorkerError& error) {
    set_failure(job, Outcome::worker_error, error.what());
  } catch (const std::bad_alloc& error) {
    set_failure(job, Outcome::bad_alloc, error.what());
  } catch (const std::invalid_argument& error) {
    set_failure(job, Outcome::invalid_argument, error.what());
  } catch (const std::logic_error& error) {
    set_failure(job, Outcome::logic_error, error.what());
  } catch (const std::exception& error) {
    set_failure(job, Outcome::other_exception, error.what());
  } catch (...) {
    set_failure(job, Outcome::other_exception, "a worker's task threw something that is no std::exception");
  }
  return nullptr;
}

void run_on_large_stack(Job& job) {
  pthread_attr_t attributes;
  pthread_t thread{};
  pthread_attr_init(&attributes);
  int error = pthread_attr_setstacksize(&attributes, stack_bytes);
  if (error == 0) error = pthread_create(&thread, &attributes, run_job, &job);
  if (error == 0) error = pthread_join(thread, nullptr);
  if (error == 0) return;
  const std::string text = std::string("a worker process got no stack of 512 MiB: ") + std::strerror(error);
  set_failure(job, Outcome::worker_error, text.c_str());
}

bool write_all(int descriptor, const char* bytes, std::size_t size) {
  while (size > 0) {
    const ssize_t written = write(descriptor, bytes, size);
    if (written < 0 && errno != EINTR) return false;
    if (written <= 0) continue;
    bytes += written;
    size -= static_cast<std::size_t>(written);
  }
  return true;
}

// Nothing of the parent's that could be heard or seen stays: handlers, blocked signals, terminal, core files.
void become_worker(pid_t parent, int errors) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it died before the line above
  struct sigaction default_action {};
  default_action.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction inherited {
    };  // what the user had us ignore (nohup, a script's background) stays ignored
    if (sigaction(number, nullptr, &inherited) == 0 && inherited.sa_handler != SIG_IGN)
      sigaction(number, &default_action, nullptr);
  }
  const int null = open("/dev/null", O_RDWR);
  dup2(null >= 0 ? null : errors, STDIN_FILENO);
  dup2(null >= 0 ? null : errors, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  if (null > STDERR_FILENO) close(null);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);
}

// Behind the three standard ones. Another thread's pipes and sockets, held here, would not end when it closes
// them.
void close_all_but(int kept) {
  const auto number = static_cast<unsigned>(kept);
  if (number > STDERR_FILENO + 1U) close_range(STDERR_FILENO + 1U, number - 1, 0);
  close_range(number + 1, ~0U, 0);
}

[[noreturn]] void work(const std::function<std::string()>& task, pid_t parent, const Descriptor& results,
                       const Descriptor& errors, unsigned most_seconds) {
  // From here on: a lock that another thread of the parent held is held for ever.
  if (most_seconds > 0) alarm(most_seconds);
  // Above the three standard ones, in case the parent has closed its own.
  const int result = fcntl(results.number(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  become_worker(parent, fcntl(errors.number(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  close_all_but(result);
  Job job{&task, Outcome::returned, {}};
  run_on_large_stack(job);
  const Reply reply{job.outcome, job.bytes.size()};
  std::array<char, sizeof reply> head{};
  std::memcpy(head.data(), &reply, sizeof reply);
  const bool sent =
      write_all(result, head.data(), head.size()) && write_all(result, job.bytes.data(), job.bytes.size());
  _exit(sent ? 0 : 1);  // no atexit handlers, no second flush of the parent's buffers
}

// --- In the parent ---

// A running child. Destroyed early, it kills it.
class Worker {
 public:
  Worker(const std::function<std::string()>& task, std::size_t number, unsigned most_seconds)
      : number_(number) {
    Pipe results = new_pipe();
    Pipe errors = new_pipe();
    const pid_t parent = getpid();
    const BlockedSignals blocked;
    process_ = fork();
    if (process_ < 0) fail("no worker process", errno);
    if (process_ == 0) work(task, parent, results.write_end, errors.write_end, most_seconds);
    results_ = std::move(results.read_end);
    errors_ = std::move(errors.read_end);
  }
  ~Worker() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    reap();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  std::size_t number() const { return number_; }  // of its task
  bool ended() const { return !results_.open() && !errors_.open(); }
  const Descriptor& results() const { return results_; }
  const Descriptor& errors() const { return errors_; }

  void read_results() { read_into(results_, received_); }
  void read_errors() {
    read_into(errors_, last_words_);
    if (last_words_.size() > 2 * kept_error_bytes)
      last_words_.erase(0, last_words_.size() - kept_error_bytes);
  }

  // After ended(). Throws what the task threw, or WorkerError.
  std::string take_result();

 private:
  static void read_into(Descriptor& from, std::string& to);
  int reap();
  std::string told_last_words() const;

  std::size_t number_;
  pid_t process_ = -1;
  Descriptor results_, errors_;
  std::string received_, last_words_;
};

void Worker::read_into(Descriptor& from, std::string& to) {
  std::array<char, 65536> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  const ssize_t size = read(from.number(), buffer.data(), buffer.size());
  if (size > 0) to.append(buffer.data(), static_cast<std::size_t>(size));
  if (size == 0) from.close();
  if (size < 0 && errno != EINTR) fail("a worker process cannot be read", errno);
}

// Its wait status; 0 if the program ignores SIGCHLD, in which case the system has reaped it.
int Worker::reap() {
  int status = 0;
  while (waitpid(process_, &status, 0) < 0 && errno == EINTR) continue;
  process_ = -1;
  return status;
}

// "Backtrace (displayed in actor maestro):" and "    ->  3# f in libx.so" of SimGrid, "    #3 0x7f in f" of
// sanitizers.
bool is_backtrace(const std::string& line) {
  if (line.starts_with("Backtrace ")) return true;
  const std::size_t sign = line.find('#');
  return sign != std::string::npos && sign > 0 && line.find_first_not_of(" ->0123456789") == sign;
}

// The last lines, without backtraces.
std::string Worker::told_last_words() const {
  std::vector<std::string> lines(1);
  for (const char c : last_words_) {
    if (c != '\n')
      lines.back() += c;
    else if (!lines.back().empty())
      lines.emplace_back();
  }
  std::erase_if(lines, [](const std::string& line) { return line.empty() || is_backtrace(line); });
  std::string told;
  for (std::size_t i = lines.size() - std::min(lines.size(), told_error_lines); i < lines.size(); ++i)
    told += "\n  " + lines[i];
  return told.empty() ? "; it wrote nothing to standard error"
                      : "; the last that it wrote to standard error:" + told;
}

[[noreturn]] void throw_as(Outcome outcome, const std::string& text) {
  switch (outcome) {
    case Outcome::range_error: throw std::range_error(text);
    case Outcome::bad_alloc: throw std::bad_alloc();
    case Outcome::invalid_argument: throw std::invalid_argument(text);
    case Outcome::logic_error: throw std::logic_error(text);
    case Outcome::worker_error: throw WorkerError(text);
    default: throw std::runtime_error(text);
  }
}

std::string signal_name(int number) {
  const char* name = sigabbrev_np(number);
  return name != nullptr ? std::string("SIG") + name : "signal " + std::to_string(number);
}

std::string Worker::take_result() {
  const int status = reap();
  if (WIFSIGNALED(status))
    throw WorkerError("a worker process was killed by " + signal_name(WTERMSIG(status)) + told_last_words());
  Reply reply;
  const bool replied = received_.size() >= sizeof reply;
  if (replied) std::memcpy(&reply, received_.data(), sizeof reply);
  if (!replied || received_.size() != sizeof reply + reply.size)
    throw WorkerError("a worker process exited with status " + std::to_string(WEXITSTATUS(status)) +
                      " before it had a result" + told_last_words());
  received_.erase(0, sizeof reply);
  if (reply.outcome != Outcome::returned) throw_as(reply.outcome, received_);
  return std::move(received_);
}

void read_what_came(std::list<Worker>& workers) {
  std::vector<pollfd> watched;
  for (const Worker& worker : workers)  // poll skips descriptors that are closed, -1
    for (const Descriptor* from : {&worker.results(), &worker.errors()})
      watched.push_back({from->number(), POLLIN, 0});
  if (poll(watched.data(), watched.size(), -1) < 0) {
    if (errno == EINTR) return;
    fail("worker processes cannot be watched", errno);
  }
  std::size_t i = 0;
  for (Worker& worker : workers) {
    if (watched[i++].revents != 0) worker.read_results();
    if (watched[i++].revents != 0) worker.read_errors();
  }
}

}  // namespace

std::vector<std::string> run_in_workers(const std::vector<std::function<std::string()>>& tasks,
                                        std::size_t at_once, unsigned most_seconds) {
  if (at_once == 0) at_once = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::string> results(tasks.size());
  std::size_t next = 0;
  std::size_t end = tasks.size();  // the first task known to fail
  std::exception_ptr failure;
  std::list<Worker> running;
  while (next < end || !running.empty()) {
    for (; next < end && running.size() < at_once; ++next)
      running.emplace_back(tasks[next], next, most_seconds);
    read_what_came(running);
    for (Worker& worker : running) {
      if (!worker.ended() || worker.number() >= end) continue;
      try {
        results[worker.number()] = worker.take_result();
      } catch (...) {
        failure = std::current_exception();
        end = worker.number();
      }
    }
    running.remove_if([end](const Worker& worker) { return worker.ended() || worker.number() >= end; });
  }
  if (failure) std::rethrow_exception(failure);
  return results;
}

std::string run_in_worker(const std::function<std::string()>& task, unsigned most_seconds) {
  return std::move(run_in_workers({task}, 1, most_seconds).front());
}

}  // namespace simrun
