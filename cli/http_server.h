#pragma once

#include <atomic>
#include <functional>
#include <string>

namespace simrun {

struct HttpAnswer {
  int status = 200;
  std::string type = "application/json";
  std::string body;
};

// One page and what it asks.
struct HttpSite {
  std::string page;  // of GET /, as HTML
  // Of POST /estimate, on several threads at once; `is_ending`: the server waits for what is under way, and
  // no more.
  std::function<HttpAnswer(const std::string& body, const std::atomic<bool>& is_ending)> estimate;
};

// Why this program can serve nothing, or "".
std::string http_refusal();

// Serves `site` on 127.0.0.1 until SIGINT or SIGTERM comes; `port` 0: any that is free. `listening` is told
// the port once requests are answered. What is under way when a signal comes gets a second more; where that
// is not enough this does not return and the program exits with 0. Returns "", or why nothing was served.
//
// Whoever connects gets a second to begin, 5 to ask, 64 KiB for the body and 16 KiB for the rest. Refused is
// what names another host (a page elsewhere whose name was made to mean this machine), what another page's
// script sends, and every path and method but the two. No file is read.
std::string serve_http(int port, const HttpSite& site, const std::function<void(int)>& listening);

}  // namespace simrun
