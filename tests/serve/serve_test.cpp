#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <map>
#include <thread>

#include "tests/cli/parsed_output.h"
#include "tests/serve/http_client.h"

// simrun --serve: the page, what it asks, and everything else that connects.
namespace simrun {
namespace {

// Dotted path -> text of every scalar; elements of lists by their number.
void add_scalars(const ConfigNode& node, const std::string& path,
                 std::map<std::string, std::string>& scalars) {
  if (node.kind == ConfigNode::Kind::scalar) scalars[path] = node.text;
  for (std::size_t i = 0; i < node.children.size(); ++i) {
    const ConfigNode& child = node.children[i];
    add_scalars(child, path + "." + (child.key.empty() ? std::to_string(i) : child.key), scalars);
  }
}

std::map<std::string, std::string> scalars_of(const ConfigNode& node) {
  std::map<std::string, std::string> scalars;
  add_scalars(node, "", scalars);
  return scalars;
}

ConfigNode estimated(int port, const std::string& body) {
  const HttpReply reply = send_bytes(port, estimate_request(port, body));
  CAPTURE(body);
  REQUIRE(reply.status == 200);
  return parsed_json(reply.body);
}

std::string first_problem(int port, const std::string& body) {
  const ConfigNode answer = parsed_json(send_bytes(port, estimate_request(port, body)).body);
  const ConfigNode& problems = member(answer, "problems");
  REQUIRE(!problems.children.empty());
  return member(problems.children.front(), "key").text + ": " +
         member(problems.children.front(), "message").text;
}

// The requests of a careless or hostile program, `number` of them in turn.
std::string bad_request(int port, int number) {
  const std::string host = "Host: 127.0.0.1:" + std::to_string(port) + "\r\n";
  const std::string noise(static_cast<std::size_t>(number % 700), static_cast<char>(1 + number % 255));
  switch (number % 12) {
    case 0: return noise;
    case 1: return "GET /../../../etc/passwd HTTP/1.1\r\n" + host + "\r\n";
    case 2: return "GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\n" + host + "\r\n";
    case 3: return "DELETE / HTTP/1.1\r\n" + host + "\r\n";
    case 4: return "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n";
    case 5: return "GET / HTTP/1.1\r\n" + host + "X: " + std::string(40'000, 'x') + "\r\n\r\n";
    case 6: return estimate_request(port, std::string(100'000, '{'));
    case 7: return estimate_request(port, std::string(60'000, '['));
    case 8: return estimate_request(port, noise);
    case 9:
      return "POST /estimate HTTP/1.1\r\n" + host +
             "Content-Type: application/json\r\nContent-Length: 18446744073709551615\r\n\r\n{}";
    case 10: return estimate_request(port, R"({"set":{"model.from":"/etc/passwd"}})");
    default:
      return "POST /estimate HTTP/1.1\r\n" + host +
             "Transfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\nffffffff\r\n";
  }
}

}  // namespace

TEST_CASE("the page is served whole, and a browser may neither keep it nor show it in another page") {
  const ServingSimrun server;
  const HttpReply page = send_bytes(server.port(), page_request(server.port()));
  CHECK(page.status == 200);
  CHECK(page.body.starts_with("<!DOCTYPE html>"));
  CHECK(page.body.ends_with("</html>\n"));
  CHECK(page.body.find("<!--") == std::string::npos);  // nothing was left to fill in
  CHECK(page.body.find("\"llama3-70b-64xh100\"") != std::string::npos);
  for (const char* header :
       {"Cache-Control: no-store\r\n", "X-Content-Type-Options: nosniff\r\n", "frame-ancestors 'none'"})
    CHECK(page.head.find(header) != std::string::npos);
}

TEST_CASE("an estimate says what --json prints of the same job, to the last digit") {
  const ServingSimrun server;
  const std::string job = GENERATE("tiny-4xa100", "llama3-70b-64xh100", "tiny-moe-8ranks");
  const ConfigNode answer = estimated(server.port(), "{\"base\":\"" + job + "\"}");
  const Ran ran = run_simrun_in_shell("--json " SIMRUN_SOURCE_DIR "/configs/jobs/" + job + ".yaml");
  const auto shown = scalars_of(member(answer, "summary"));
  CHECK(shown.size() > 50);
  CHECK(shown == scalars_of(parsed_json(ran.output)));
}

TEST_CASE("what the form sets is in the YAML, and simrun makes the same of that YAML") {
  const ServingSimrun server(tiny);
  const ConfigNode answer = estimated(
      server.port(),
      R"({"set":{"training.seq_length":"256","parallelism.tensor_model_parallel_size":"1","recompute.granularity":"full"}})");
  const std::string yaml = member(answer, "yaml").text;
  for (const char* line : {"seq_length: 256\n", "tensor_model_parallel_size: 1\n", "granularity: full\n"})
    CHECK(yaml.find(line) != std::string::npos);
  const Scratch scratch;
  const Ran ran = run_simrun_in_shell("--json " + scratch.write("tiny-4xa100.yaml", yaml));
  CHECK(ran.code == 0);
  CHECK(scalars_of(member(answer, "summary")) == scalars_of(parsed_json(ran.output)));
}

TEST_CASE("the form has the job's own values, and what the loader accepts in their place") {
  const ServingSimrun server(tiny);
  const ConfigNode answer = estimated(server.port(), "{}");
  std::map<std::string, const ConfigNode*> fields;
  for (const ConfigNode& field : member(answer, "form").children) fields[member(field, "key").text] = &field;
  const auto value = [&](const char* key) { return member(*fields.at(key), "value").text; };
  CHECK(value("model.hidden_size") == "256");
  CHECK(value("training.micro_batch_size") == "2");
  CHECK(value("parallelism.pipeline_schedule") == "1f1b");  // a default
  CHECK(value("cluster.from") == "dgx_a100");
  CHECK(value("model.from") == "");  // the job writes its model itself
  CHECK(number(*fields.at("optimizer.zero_stage"), "most") == 3);
  const std::vector<ConfigNode>& schedules =
      member(*fields.at("parallelism.pipeline_schedule"), "words").children;
  CHECK(std::ranges::find(schedules, "zb_h1", &ConfigNode::text) != schedules.end());
}

TEST_CASE("what the loader refuses comes back under its key, with its suggestion, and the form stays") {
  const ServingSimrun server(tiny);
  const ConfigNode answer =
      estimated(server.port(), R"({"set":{"training.precision":"bf61","training.global_batch_size":"7"}})");
  CHECK(answer.find("summary") == nullptr);
  CHECK(member(answer, "form").children.size() > 10);
  std::map<std::string, std::string> hints;
  for (const ConfigNode& problem : member(answer, "problems").children)
    hints[member(problem, "key").text] = member(problem, "hint").text;
  CHECK(hints.at("training.precision") == "did you mean 'bf16'?");
  CHECK(hints.at("training.global_batch_size").find("6 and 8") !=
        std::string::npos);  // 7 / (micro batch 2 x dp 1)
}

TEST_CASE("a request names no file: only presets, numbers and words of the config") {
  const ServingSimrun server(tiny);
  const std::string secret = "root:x:0";
  for (const char* set :
       {R"("model.from":"/etc/passwd")", R"("model.from":"../jobs/tiny-4xa100")",
        R"("cluster.from":"/etc/passwd")", R"("framework":"../../README")",
        R"("parallelism.pipeline_schedule":"/etc/passwd.csv")", R"("cluster.gpu":"/etc/passwd")",
        R"("moe.histogram":"passwd")", R"("training.documents":"passwd")", R"("model.from":{"from":"x"})",
        R"("model":"{from: /etc/passwd}")", R"("cluster.topology":"passwd")", R"("model.a.b":"1")",
        R"("training.seq_length":"../x")"}) {
    const HttpReply reply =
        send_bytes(server.port(), estimate_request(server.port(), std::string("{\"set\":{") + set + "}}"));
    CAPTURE(set, reply.body);
    CHECK(reply.status == 400);
    CHECK(reply.body.find(secret) == std::string::npos);
  }
  CHECK(first_problem(server.port(), R"({"set":{"model.from":"llama3-71b"}})") ==
        "model.from: no preset 'llama3-71b' in models/");
  CHECK(first_problem(server.port(), R"({"base":"nothing"})") == "base: no job 'nothing'");
}

TEST_CASE("another host's name, another page's script and every other path and method are refused") {
  const ServingSimrun server;
  const std::string port = std::to_string(server.port());
  const std::string host = "Host: 127.0.0.1:" + port + "\r\n",
                    json = "Content-Type: application/json\r\nContent-Length: 2\r\n";
  const auto status = [&](const std::string& head, const std::string& body = "") {
    return send_bytes(server.port(), head + "\r\n" + body).status;
  };
  CHECK(status("GET / HTTP/1.1\r\nHost: localhost:" + port + "\r\n") == 200);
  CHECK(status("GET / HTTP/1.1\r\n") == 403);
  CHECK(status("GET / HTTP/1.1\r\nHost: simrun.example:" + port + "\r\n") == 403);
  CHECK(status("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n") == 403);  // port 80
  CHECK(status("GET / HTTP/1.1\r\n" + host + "Host: simrun.example\r\n") == 403);
  CHECK(status("POST /estimate HTTP/1.1\r\n" + host + "Origin: https://simrun.example\r\n" + json, "{}") ==
        403);
  CHECK(status("POST /estimate HTTP/1.1\r\n" + host + "Origin: null\r\n" + json, "{}") == 403);
  CHECK(status("POST /estimate HTTP/1.1\r\n" + host + "Content-Type: text/plain\r\nContent-Length: 2\r\n",
               "{}") == 415);
  CHECK(status("POST /estimate HTTP/1.1\r\n" + host + "Content-Encoding: gzip\r\n" + json, "{}") == 415);
  CHECK(status("POST /estimate HTTP/1.1\r\n" + host + "Content-Type: application/json\r\n") == 411);
  CHECK(status("GET /estimate HTTP/1.1\r\n" + host) == 405);
  CHECK(status("PUT / HTTP/1.1\r\n" + host) == 405);
  for (const char* path :
       {"/viewer.html", "/configs/jobs/tiny-4xa100.yaml", "//etc/passwd", "/../README.md", "/estimate/"})
    CHECK(status("GET " + std::string(path) + " HTTP/1.1\r\n" + host) == 404);
  CHECK(send_bytes(server.port(), estimate_request(server.port(), std::string(70'000, ' '))).status == 413);
}

TEST_CASE("nothing listens but on 127.0.0.1") {
  const ServingSimrun server;
  CHECK(accepts_connections(server.port(), "127.0.0.1"));
  CHECK_FALSE(
      accepts_connections(server.port(), "127.0.0.2"));  // also of this machine: so is every other address
}

TEST_CASE("after a thousand bad requests a good one is answered as before") {
  const ServingSimrun server(tiny);
  const auto before = scalars_of(estimated(server.port(), "{}"));
  int answered = 0;
  for (int number = 0; number < 1000; ++number) {
    const HttpReply reply = send_bytes(server.port(), bad_request(server.port(), number));
    CAPTURE(number, reply.head);
    CHECK(reply.status != 200);
    if (reply.status >= 400) ++answered;
  }
  CHECK(answered > 500);  // the others ended without a word, as noise deserves
  CHECK(scalars_of(estimated(server.port(), "{}")) == before);
}

TEST_CASE("fifty at once are all answered alike") {
  const ServingSimrun server(tiny);
  std::vector<HttpReply> replies(50);
  std::vector<std::thread> asking;
  for (HttpReply& reply : replies)
    asking.emplace_back([&] { reply = send_bytes(server.port(), estimate_request(server.port(), "{}")); });
  for (std::thread& thread : asking) thread.join();
  for (const HttpReply& reply : replies) {
    CHECK(reply.status == 200);
    CHECK(reply.body == replies.front().body);
  }
  CHECK(replies.front().body.find("step_time_s") != std::string::npos);
}

TEST_CASE("connections that say nothing keep no one else out") {
  const ServingSimrun server(tiny);
  const SilentConnections silent(server.port(), 64);
  CHECK(send_bytes(server.port(), page_request(server.port())).status == 200);
}

TEST_CASE("Ctrl-C and SIGTERM end it well") {
  const int signal = GENERATE(SIGINT, SIGTERM);
  ServingSimrun server(tiny);
  CHECK(server.stop(signal) == 0);
}

TEST_CASE("a port that is taken, a job that is wrong and flags that do not go with --serve are refused") {
  const ServingSimrun server(tiny);
  const Ran taken = run_simrun_in_shell("--serve --port " + std::to_string(server.port()));
  CHECK(taken.code == 2);
  CHECK(taken.output.find("cannot serve on 127.0.0.1:" + std::to_string(server.port())) != std::string::npos);
  const Scratch scratch;
  const Ran wrong =
      run_simrun_in_shell("--serve --port 0 " + scratch.write("job.yaml", "simrun: 1\ntrainin: {}\n"));
  CHECK(wrong.code == 2);
  CHECK(wrong.output.find("did you mean 'training'?") != std::string::npos);
  for (const char* flags :
       {"--port 8000 " SIMRUN_SOURCE_DIR "/configs/jobs/tiny-4xa100.yaml", "--serve --json",
        "--serve --port 70000", "--serve --set training.seq_length=1", "--serve a.yaml b.yaml"}) {
    const Ran refused = run_simrun_in_shell(flags);
    CAPTURE(flags, refused.output);
    CHECK(refused.code == 2);
  }
}

}  // namespace simrun
