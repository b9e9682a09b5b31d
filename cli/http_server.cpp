#include "cli/http_server.h"

#ifdef SIMRUN_HAS_HTTPLIB

#include <fmt/format.h>
#include <httplib.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <optional>
#include <semaphore>
#include <thread>

namespace simrun {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t largest_body = std::size_t{64} << 10;
constexpr std::size_t largest_request = largest_body + (std::size_t{16} << 10);
constexpr std::chrono::seconds time_to_begin{1};  // browsers open connections that they may never use
constexpr std::chrono::seconds time_to_ask{5};
constexpr std::chrono::seconds time_to_take_the_answer{5};
constexpr std::chrono::milliseconds time_to_hang_up{300};
constexpr std::chrono::seconds time_to_end{1};
constexpr std::size_t threads = 32;  // connections that are looked at, not estimates at once
constexpr std::ptrdiff_t waiting_connections = 64;
constexpr int backlog = 128;  // more wait here, in the kernel

// A connection with an end in time and in bytes, whatever the other side does: httplib's own limits hold per
// read and per line.
class LimitedConnection : public httplib::Stream {
 public:
  explicit LimitedConnection(socket_t socket) : socket_(socket), reads_until_(Clock::now() + time_to_begin) {}

  bool is_readable() const override { return at_ < filled_ || waited(POLLIN, reads_until_); }
  bool is_writable() const override { return waited(POLLOUT, Clock::now() + time_to_take_the_answer); }

  ssize_t read(char* to, std::size_t size) override {
    if (at_ == filled_ && !fill()) return -1;
    const std::size_t count = std::min(size, filled_ - at_);
    std::memcpy(to, &buffer_[at_], count);
    at_ += count;
    return static_cast<ssize_t>(count);
  }

  ssize_t write(const char* bytes, std::size_t size) override {
    if (!writes_until_) writes_until_ = Clock::now() + time_to_take_the_answer;
    if (!waited(POLLOUT, *writes_until_)) return -1;
    return send(socket_, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  // Lets the other side read the answer before the connection ends, however much of what it sent was not
  // looked at.
  void hang_up() {
    shutdown(socket_, SHUT_WR);
    const Clock::time_point until = Clock::now() + time_to_hang_up;
    while (waited(POLLIN, until) && recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT) > 0) continue;
    shutdown(socket_, SHUT_RDWR);
    close(socket_);
  }

  void get_remote_ip_and_port(std::string& ip, int& port) const override { unnamed(ip, port); }
  void get_local_ip_and_port(std::string& ip, int& port) const override { unnamed(ip, port); }
  socket_t socket() const override { return socket_; }

 private:
  static void unnamed(std::string& ip, int& port) {
    ip = "127.0.0.1";
    port = 0;
  }

  bool waited(short events, Clock::time_point until) const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd watched{socket_, events, 0};
    return left > 0 && poll(&watched, 1, static_cast<int>(left)) > 0;
  }

  bool fill() {
    if (taken_ >= largest_request || !waited(POLLIN, reads_until_)) return false;
    const ssize_t count = recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (taken_ == 0) reads_until_ = Clock::now() + time_to_ask;
    at_ = 0;
    filled_ = count > 0 ? static_cast<std::size_t>(count) : 0;
    taken_ += filled_;
    return filled_ > 0;
  }

  socket_t socket_;
  Clock::time_point reads_until_;
  std::optional<Clock::time_point> writes_until_;
  std::array<char, 4096> buffer_{};
  std::size_t at_ = 0, filled_ = 0, taken_ = 0;
};

// httplib's threads with an end to what waits for them: beyond it connections wait to be accepted.
class BoundedPool : public httplib::TaskQueue {
 public:
  void enqueue(std::function<void()> task) override {
    places_.acquire();
    pool_.enqueue([this, task = std::move(task)] {
      task();
      places_.release();
    });
  }
  void shutdown() override { pool_.shutdown(); }

 private:
  httplib::ThreadPool pool_{threads};
  std::counting_semaphore<waiting_connections> places_{waiting_connections};
};

class LocalServer : public httplib::Server {
 public:
  // Behind the bind. httplib's own 5 connections make the sixth of a moment wait a second or three.
  void lengthen_backlog() const { ::listen(svr_sock_, backlog); }

 private:
  // One request per connection.
  bool process_and_close_socket(socket_t socket) override {
    LimitedConnection connection(socket);
    bool is_closed = false;
    const bool is_answered = process_request(connection, /*close_connection=*/true, is_closed, nullptr);
    connection.hang_up();
    return is_answered;
  }
};

HttpAnswer refused(int status, const std::string& why) { return {status, "text/plain", why + "\n"}; }

bool names(const httplib::Request& request, const char* header, const std::string& before, int port) {
  if (request.get_header_value_count(header) != 1) return false;
  const std::string value = request.get_header_value(header);
  return value == fmt::format("{}127.0.0.1:{}", before, port) ||
         value == fmt::format("{}localhost:{}", before, port);
}

// Before a body is read.
std::optional<HttpAnswer> refusal_of(const httplib::Request& request, int port) {
  if (!names(request, "Host", "", port)) return refused(403, "this server is for this machine alone");
  if (request.has_header("Origin") && !names(request, "Origin", "http://", port))
    return refused(403, "another page's script may not ask here");
  const bool is_page = request.path == "/", is_estimate = request.path == "/estimate";
  if (!is_page && !is_estimate) return refused(404, "there is / and /estimate");
  if (request.method != (is_page ? "GET" : "POST"))
    return refused(405, is_page ? "/ takes GET" : "/estimate takes POST");
  if (request.has_header("Range")) return refused(416, "answers come whole");
  if (is_page) return {};
  if (request.get_header_value("Content-Type") != "application/json")
    return refused(415, "/estimate takes application/json");
  if (request.has_header("Content-Encoding") || request.has_header("Transfer-Encoding"))
    return refused(415, "/estimate takes a body as it is, in one piece");
  if (!request.has_header("Content-Length")) return refused(411, "the body's Content-Length is missing");
  return {};
}

// As a provider, whose bytes httplib does not compress: over loopback that takes longer than it saves.
void set(httplib::Response& response, HttpAnswer answer) {
  response.status = answer.status;
  const auto body = std::make_shared<const std::string>(std::move(answer.body));
  response.set_content_provider(body->size(), answer.type + "; charset=utf-8",
                                [body](std::size_t from, std::size_t size, httplib::DataSink& sink) {
                                  return sink.write(&(*body)[from], size);
                                });
}

void route(LocalServer& server, const HttpSite& site, int port, const std::atomic<bool>& is_ending) {
  server.set_default_headers({{"Cache-Control", "no-store"},
                              {"X-Content-Type-Options", "nosniff"},
                              {"Referrer-Policy", "no-referrer"},
                              {"Cross-Origin-Resource-Policy", "same-origin"},
                              {"Content-Security-Policy",
                               "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
                               "img-src data:; connect-src 'self'; "
                               "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"}});
  server.set_payload_max_length(largest_body);
  server.new_task_queue = [] { return std::make_unique<BoundedPool>().release(); };  // httplib deletes it
  server.set_pre_routing_handler([port](const httplib::Request& request, httplib::Response& response) {
    const std::optional<HttpAnswer> refusal = refusal_of(request, port);
    if (!refusal) return httplib::Server::HandlerResponse::Unhandled;
    set(response, *refusal);
    return httplib::Server::HandlerResponse::Handled;
  });
  server.Get("/", [&site](const httplib::Request&, httplib::Response& response) {
    set(response, {200, "text/html", site.page});
  });
  server.Post("/estimate", [&](const httplib::Request& request, httplib::Response& response) {
    set(response, site.estimate(request.body, is_ending));
  });
  // Not httplib's, which tells of the exception in a header.
  server.set_exception_handler(
      [](const httplib::Request&, httplib::Response& response, const std::exception_ptr&) {
        set(response, refused(500, "an internal error"));
      });
}

// How far the server is.
struct ServerEnd {
  std::atomic<bool> is_near = false;  // nothing new is begun
  std::atomic<bool> is_here = false;
};

// Ends the server at the first SIGINT or SIGTERM. They are blocked in every thread but are waited for in this
// one.
class StopSignals {
 public:
  StopSignals() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  ~StopSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // What is under way at the signal has a second more; behind it the program ends, and with it its workers.
  std::thread stopping(httplib::Server& server, ServerEnd& end) const {
    return std::thread([this, &server, &end] {
      int number = 0;
      sigwait(&signals_, &number);
      const auto wait_until = [](const auto& holds, std::chrono::milliseconds limit) {
        for (const Clock::time_point start = Clock::now(); !holds() && Clock::now() - start < limit;)
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
      };
      wait_until([&] { return server.is_running() || end.is_here; }, time_to_end);
      if (end.is_here) return;
      end.is_near = true;
      server.stop();
      wait_until([&] { return end.is_here.load(); }, time_to_end);
      if (!end.is_here) _exit(0);
    });
  }

 private:
  sigset_t signals_{}, before_{};
};

}  // namespace

std::string http_refusal() { return ""; }

std::string serve_http(int port, const HttpSite& site, const std::function<void(int)>& listening) {
  LocalServer server;
  // Not httplib's, which would share the port with another server.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  if (port == 0)
    port = server.bind_to_any_port("127.0.0.1");
  else if (!server.bind_to_port("127.0.0.1", port))
    port = -1;
  if (port < 0) return "the port cannot be had";
  server.lengthen_backlog();
  ServerEnd end;
  route(server, site, port, end.is_near);
  const StopSignals signals;
  std::thread stopping = signals.stopping(server, end);
  listening(port);
  const bool ended_well = server.listen_after_bind();
  end.is_here = true;
  pthread_kill(stopping.native_handle(), SIGTERM);  // where none has come
  stopping.join();
  return ended_well ? "" : "the connection to the port was lost";
}

}  // namespace simrun

#else

namespace simrun {

std::string http_refusal() {
  return "simrun was built without cpp-httplib 0.11 (Debian: libcpp-httplib-dev)";
}

std::string serve_http(int, const HttpSite&, const std::function<void(int)>&) { return http_refusal(); }

}  // namespace simrun

#endif
