#pragma once

#include <string>
#include <vector>

#include "tests/cli/run_program.h"

namespace simrun {

// `simrun --serve` on a port of its own, until the object ends.
class ServingSimrun {
 public:
  explicit ServingSimrun(const std::string& config = "");
  ~ServingSimrun();
  ServingSimrun(const ServingSimrun&) = delete;
  ServingSimrun& operator=(const ServingSimrun&) = delete;

  int port() const { return port_; }
  int stop(int signal);  // its exit code

 private:
  int process_ = -1;
  int port_ = 0;
};

struct HttpReply {
  int status = 0;  // 0: the connection ended without one
  std::string head, body;
};

// Sends the bytes as they are and reads until the connection ends, 20 seconds at most.
HttpReply send_bytes(int port, const std::string& bytes, const std::string& address = "127.0.0.1");

// Connections on which nothing is said.
class SilentConnections {
 public:
  SilentConnections(int port, int count);
  ~SilentConnections();
  SilentConnections(const SilentConnections&) = delete;
  SilentConnections& operator=(const SilentConnections&) = delete;

 private:
  std::vector<int> sockets_;
};

// Whether anything listens there.
bool accepts_connections(int port, const std::string& address);

// A request as the page makes it.
std::string page_request(int port);
std::string estimate_request(int port, const std::string& body);

}  // namespace simrun
