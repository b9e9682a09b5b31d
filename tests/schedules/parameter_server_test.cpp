#include "schedules/parameter_server.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "schedules/compile.h"
#include "schedules/lint.h"
#include "schedules/plan_file.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

using Overrides = std::vector<Override>;

Overrides server(const std::string& keys) { return {{"optimizer.parameter_server", "{" + keys + "}"}}; }

Plan plan_of(const Overrides& overrides, int tp = 1) {
  // 8 GPUs: 8, 7, 6 or 5 workers of microbatches of 2.
  Overrides all{{"optimizer.clip_grad", "0"}, {"training.global_batch_size", "1680"}};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return compile(job_from(small_gpt(2, tp, 1, 1), all));
}

std::vector<const Instruction*> instructions_of(const Plan& plan, std::size_t program, Opcode opcode) {
  std::vector<const Instruction*> found;
  for (const Entry& entry : plan.programs[program].entries)
    for (const Instruction& what : plan.segments[entry.segment].instructions)
      if (what.opcode == opcode) found.push_back(&what);
  return found;
}

}  // namespace

TEST_CASE("parameter servers: plans of every kind pass the linter and go through a file") {
  const std::string servers = GENERATE("1", "2", "3");
  const std::string placement = GENERATE("colocated", "dedicated");
  const std::string mode = GENERATE("synchronous", "asynchronous", "bounded_staleness, staleness: 1",
                                    "bounded_staleness, staleness: 2");
  const std::string overlap = GENERATE("false", "true");
  CAPTURE(servers, placement, mode, overlap);
  Overrides overrides = server("servers: " + servers + ", placement: " + placement + ", mode: " + mode);
  overrides.push_back({"optimizer.overlap_grad_reduce", overlap});
  overrides.push_back({"optimizer.overlap_param_gather", overlap});
  overrides.push_back({"optimizer.bucket_size", "5000000"});
  if (mode != "asynchronous") overrides.push_back({"optimizer.clip_grad", "1.0"});
  const Plan plan = plan_of(overrides);
  CHECK(lint(plan) == std::vector<std::string>{});
  CHECK(parse_plan(serialize(plan), "test.plan") == plan);
}

TEST_CASE("parameter servers beside tensor parallelism, frozen parts and adapters pass the linter") {
  for (const int tp : {2, 4}) {
    Overrides overrides = server("servers: 2");
    overrides.push_back({"parallelism.sequence_parallel", "true"});
    CHECK(lint(plan_of(overrides, tp)) == std::vector<std::string>{});
  }
  Overrides frozen = server("servers: 3");
  frozen.push_back({"model.frozen", "[embedding]"});
  CHECK(lint(plan_of(frozen)) == std::vector<std::string>{});
  for (const char* name : {"sgd", "adamw"}) {
    Overrides rule = server("servers: 1, placement: dedicated");
    rule.push_back({"optimizer.name", name});
    CHECK(lint(plan_of(rule)) == std::vector<std::string>{});
  }
}

TEST_CASE("colocated servers are spread over the ranks, dedicated ones are the last") {
  ServerRules rules;
  rules.count = 3;
  CHECK(server_places(rules, 8) == std::vector<std::int64_t>{0, 2, 5});
  CHECK(server_places(rules, 3) == std::vector<std::int64_t>{0, 1, 2});
  rules.dedicated = true;
  CHECK(server_places(rules, 8) == std::vector<std::int64_t>{5, 6, 7});
}

TEST_CASE("every bucket is pushed once and pulled once, in all, and its parts are equal") {
  const std::string mode = GENERATE("synchronous", "asynchronous", "bounded_staleness, staleness: 1",
                                    "bounded_staleness, staleness: 2");
  Overrides overrides = server("servers: 4, mode: " + mode);
  overrides.push_back({"optimizer.bucket_size", "5000000"});
  const Plan plan = plan_of(overrides);
  CAPTURE(mode);
  std::int64_t pushed = 0, pulled = 0;
  std::set<Index> buffers;
  for (const Instruction* push : instructions_of(plan, 0, Opcode::push)) {
    pushed += plan.buffers[push->inputs[0]].elements();
    CHECK(buffers.insert(push->inputs[0]).second);
    CHECK(plan.buffers[push->outputs[0]].elements() * 4 == plan.buffers[push->inputs[0]].elements());
  }
  for (const Instruction* pull : instructions_of(plan, 0, Opcode::pull)) {
    pulled += plan.buffers[pull->outputs[0]].elements();
    CHECK(buffers.insert(pull->outputs[0]).second);
  }
  CHECK(buffers.size() > 4);
  CHECK(pushed == pulled);
  // Padded to 128 elements a bucket.
  const std::int64_t buckets = static_cast<std::int64_t>(buffers.size()) / 2;
  CHECK(pushed >= plan.job.parameters);
  CHECK(pushed < plan.job.parameters + 128 * buckets);
  CHECK(plan.job.parameter_servers->bytes_per_server * 4 == 2 * pushed);  // fp16
}

TEST_CASE("without a delay the sum over all workers is pushed before the update that a pull hands back") {
  const Plan plan = plan_of(server("servers: 8"));
  std::vector<std::string> order;
  for (const Entry& entry : plan.programs[0].entries)
    for (const Instruction& what : plan.segments[entry.segment].instructions)
      if (has_servers(what.opcode) || what.opcode == Opcode::optimizer)
        order.push_back(to_string(what.opcode));
  CHECK(order.front() == "push");
  CHECK(order.back() == "pull");
  const Instruction* push = instructions_of(plan, 0, Opcode::push)[0];
  const Instruction* update = instructions_of(plan, 0, Opcode::optimizer)[0];
  const Instruction* pull = instructions_of(plan, 0, Opcode::pull)[0];
  CHECK(update->inputs[0] == push->outputs[0]);
  CHECK(update->outputs[0] == pull->inputs[0]);
  CHECK_FALSE(plan.communications[push->communication].servers.one_sided);
}

TEST_CASE("the plan says how many steps' updates the weights of its passes lack") {
  const auto version = [](const char* mode) {
    const Plan plan = plan_of(server(std::string("servers: 2, mode: ") + mode));
    std::set<std::int32_t> versions;
    for (const Entry& entry : plan.programs[0].entries) {
      const PassKind kind = plan.segments[entry.segment].kind;
      if (kind == PassKind::forward || kind == PassKind::backward)
        versions.insert(plan.programs[0].bindings[entry.first_binding].weight_version);
    }
    CHECK(versions.size() == 1);
    CHECK(plan.job.parameter_servers->delay == *versions.begin());
    return *versions.begin();
  };
  CHECK(version("synchronous") == 0);
  CHECK(version("bounded_staleness, staleness: 1") == 1);
  CHECK(version("bounded_staleness, staleness: 2") == 2);
  CHECK(version("bounded_staleness, staleness: 9") == 2);
  CHECK(version("asynchronous") == 2);
}

TEST_CASE("lint: a PUSH needs servers that its group has, and parts that add up") {
  const Plan good = plan_of(server("servers: 2"));
  const auto broken = [&](const auto& change) {
    Plan plan = good;
    change(plan.communications[instructions_of(plan, 0, Opcode::push)[0]->communication].servers);
    const std::vector<std::string> findings = lint(plan);
    return findings.empty() ? "" : findings.front().substr(findings.front().find(") ") + 2);
  };
  CHECK(broken([](ServerGroup& of) { of.members.clear(); }) == "names no server");
  CHECK(broken([](ServerGroup& of) {
          of.members = {0, 8};
        }) == "names servers that are not ascending members of its group of 8");
  CHECK(broken([](ServerGroup& of) {
          of.members = {4, 0};
        }) == "names servers that are not ascending members of its group of 8");
  Plan parts = plan_of(server("servers: 8"));
  const Instruction* push = instructions_of(parts, 0, Opcode::push)[0];
  parts.communications[push->communication].servers.members = {0, 1};
  CHECK_FALSE(lint(parts).empty());
}

}  // namespace simrun
