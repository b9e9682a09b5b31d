#include "tests/serve/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>

namespace simrun {
namespace {

int connected_socket(int port, const std::string& address) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval patience{20, 0};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  inet_pton(AF_INET, address.c_str(), &to.sin_addr);
  if (connect(socket, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) return socket;
  close(socket);
  return -1;
}

}  // namespace

ServingSimrun::ServingSimrun(const std::string& config) {
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  process_ = fork();
  REQUIRE(process_ >= 0);
  if (process_ == 0) {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    setenv("SIMRUN_CONFIGS", SIMRUN_SOURCE_DIR "/configs", 1);
    execl(SIMRUN_PROGRAM, SIMRUN_PROGRAM, "--serve", "--port", "0", config.empty() ? nullptr : config.c_str(),
          nullptr);
    _exit(127);
  }
  close(ends[1]);
  std::string line;
  for (char c = 0; ::read(ends[0], &c, 1) == 1 && c != '\n';) line += c;
  close(ends[0]);
  const std::string start = "http://127.0.0.1:";
  INFO(line);
  REQUIRE(line.starts_with(start));
  port_ = std::stoi(line.substr(start.size()));
}

ServingSimrun::~ServingSimrun() {
  if (process_ > 0) stop(SIGKILL);
}

int ServingSimrun::stop(int signal) {
  kill(process_, signal);
  int status = 0;
  waitpid(process_, &status, 0);
  process_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

HttpReply send_bytes(int port, const std::string& bytes, const std::string& address) {
  HttpReply reply;
  const int socket = connected_socket(port, address);
  if (socket < 0) return reply;
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t count = send(socket, &bytes[sent], bytes.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) break;  // it has heard enough
    sent += static_cast<std::size_t>(count);
  }
  shutdown(socket, SHUT_WR);
  std::array<char, 65536> buffer{};
  std::string text;
  for (ssize_t count = 0; (count = recv(socket, buffer.data(), buffer.size(), 0)) > 0;)
    text.append(buffer.data(), static_cast<std::size_t>(count));
  close(socket);
  const std::size_t end = text.find("\r\n\r\n");
  if (!text.starts_with("HTTP/1.1 ") || end == std::string::npos) return reply;
  reply.status = std::atoi(&text[9]);
  reply.head = text.substr(0, end + 2);
  reply.body = text.substr(end + 4);
  return reply;
}

SilentConnections::SilentConnections(int port, int count) {
  for (int i = 0; i < count; ++i) sockets_.push_back(connected_socket(port, "127.0.0.1"));
}

SilentConnections::~SilentConnections() {
  for (const int socket : sockets_) close(socket);
}

bool accepts_connections(int port, const std::string& address) {
  const int socket = connected_socket(port, address);
  if (socket >= 0) close(socket);
  return socket >= 0;
}

std::string page_request(int port) {
  return "GET / HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port) + "\r\n\r\n";
}

std::string estimate_request(int port, const std::string& body) {
  const std::string host = "127.0.0.1:" + std::to_string(port);
  return "POST /estimate HTTP/1.1\r\nHost: " + host + "\r\nOrigin: http://" + host +
         "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
         body;
}

}  // namespace simrun
