#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "schedules/compile.h"
#include "schedules/lint.h"
#include "tests/jobs.h"

// How long ZeRO-3 keeps gathered weights, and how often gradients are reduced: FSDP2's reshard_after_forward
// and set_reshard_after_backward, and DDP's no_sync.
namespace simrun {
namespace {

using Overrides = std::vector<Override>;

const Overrides always = {};
const Overrides to_backward = {{"optimizer.reshard_after_forward", "false"}};
const Overrides all_step = {{"optimizer.reshard_after_forward", "false"},
                            {"optimizer.reshard_after_backward", "false"}};
const Overrides once = {{"optimizer.no_sync", "true"}};

Overrides operator+(Overrides a, const Overrides& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// 4 layers on 8 data-parallel ranks, 4 microbatches of 2 sequences each.
Plan fsdp_plan(int zero, const Overrides& overrides) {
  return compile(
      job_from(small_gpt(4, 1, 1, 1), overrides + Overrides{{"optimizer.zero_stage", std::to_string(zero)}}));
}

// What one rank of each program gathers or scatters per step, in units of the model's parameters N: a ring
// moves (n - 1) / n of each.
std::map<Opcode, double> moved(const Plan& plan, const Program& program) {
  std::map<Opcode, double> elements;
  for (const Entry& entry : program.entries)
    for (const Instruction& what : plan.segments[entry.segment].instructions) {
      if (what.opcode != Opcode::all_gather && what.opcode != Opcode::reduce_scatter) continue;
      const Index whole = what.opcode == Opcode::all_gather ? what.outputs[0] : what.inputs[0];
      elements[what.opcode] +=
          static_cast<double>(plan.buffers[whole].elements()) / static_cast<double>(plan.job.parameters);
    }
  return elements;
}

struct Moved {
  double gathered, scattered;
};
void check_moved(const Plan& plan, Moved expected) {
  std::map<Opcode, double> of = moved(plan, plan.programs[0]);
  // Padding to 128 x 8 elements stays below 1 %.
  CHECK(of[Opcode::all_gather] == Approx(expected.gathered).epsilon(0.01));
  CHECK(of[Opcode::reduce_scatter] == Approx(expected.scattered).epsilon(0.01));
}

}  // namespace

TEST_CASE("ZeRO-3 gathers 2 N per microbatch, N if kept to backward, N per step if kept through it") {
  // 4 microbatches: a gather for each of 2 passes, for each forward pass, for the first of all.
  check_moved(fsdp_plan(3, always), {8, 4});
  check_moved(fsdp_plan(3, to_backward), {4, 4});
  check_moved(fsdp_plan(3, all_step), {1, 4});
}

TEST_CASE("weights of a stage behind which nothing is trained are freed without a backward pass") {
  const auto gathered = [](const Overrides& kept, const char* schedule) {
    const Plan plan = compile(
        job_from(small_gpt(4, 1, 2, 1), kept + Overrides{{"optimizer.zero_stage", "3"},
                                                         {"parallelism.pipeline_schedule", schedule},
                                                         {"model.frozen", "[embedding, \"layers[0-1]\"]"}}));
    CHECK(lint(plan).empty());
    return moved(plan, plan.programs[0])[Opcode::all_gather];
  };
  for (const char* schedule : {"1f1b", "zb_h1"}) {
    const double once_per_step = gathered(all_step, schedule);
    CHECK(once_per_step > 0);
    CHECK(gathered(to_backward, schedule) == Approx(8 * once_per_step));  // 8 microbatches, forward only
    CHECK(gathered(always, schedule) == Approx(8 * once_per_step));
  }
  // The last stage has nobody to pass gradients on to: its backward passes are for weights alone.
  for (const Overrides& kept : {always, to_backward, all_step})
    CHECK(lint(compile(job_from(small_gpt(4, 1, 2, 1),
                                kept + Overrides{{"optimizer.zero_stage", "3"},
                                                 {"parallelism.pipeline_schedule", "dualpipe_v"},
                                                 {"parallelism.virtual_pipeline_model_parallel_size", "2"},
                                                 {"model.untie_embeddings_and_output_weights", "true"},
                                                 {"model.frozen", "[embedding, \"layers[0-2]\"]"}})))
              .empty());
}

TEST_CASE("no_sync scatters N once per step instead of once per microbatch") {
  check_moved(fsdp_plan(3, once), {8, 1});
  check_moved(fsdp_plan(3, all_step + once), {1, 1});  // the traffic of ZeRO-1
  check_moved(fsdp_plan(2, always), {1, 4});
  check_moved(fsdp_plan(2, once), {1, 1});
}

TEST_CASE("kept gathered weights and unsharded gradients live for a step, the others for a pass") {
  const auto scopes = [](const Plan& plan) {
    std::map<Category, Scope> scope;  // of the whole buckets, which own bytes and do not live for ever
    for (const Buffer& buffer : plan.buffers)
      if (buffer.scope != Scope::run && buffer.parent == no_index &&
          buffer.name.find("reduced") == std::string::npos)
        if (buffer.category == Category::weights || buffer.category == Category::gradients)
          scope[buffer.category] = buffer.scope;
    return scope;
  };
  using Scopes = std::map<Category, Scope>;
  CHECK(scopes(fsdp_plan(3, always)) ==
        Scopes{{Category::weights, Scope::pass}, {Category::gradients, Scope::pass}});
  CHECK(scopes(fsdp_plan(3, all_step + once)) ==
        Scopes{{Category::weights, Scope::step}, {Category::gradients, Scope::step}});
}

TEST_CASE("under 1F1B one copy of gathered weights serves the microbatches in flight") {
  const auto gathers = [](const Overrides& options, std::size_t rank) {
    const Plan plan =
        compile(job_from(small_gpt(8, 1, 2, 1), options + Overrides{{"optimizer.zero_stage", "3"},
                                                                    {"training.global_batch_size", "32"}}));
    // Entries that gather: each gathers every bucket once.
    std::vector<std::string> names;
    for (const Entry& entry : plan.programs[rank].entries) {
      const Segment& segment = plan.segments[entry.segment];
      for (const Instruction& what : segment.instructions)
        if (what.opcode == Opcode::all_gather) {
          const Binding& binding = plan.programs[rank].bindings[entry.first_binding];
          names.push_back((segment.kind == PassKind::forward ? "F" : "B") +
                          std::to_string(binding.microbatch));
          break;
        }
    }
    return names;
  };
  using Names = std::vector<std::string>;
  // Rank 0 runs F0 F1 B0 F2 B1 F3 B2 B3: each B frees, so the next pass gathers.
  CHECK(gathers(to_backward, 0) == Names{"F0", "F2", "F3", "B3"});
  // Rank 1 alternates F and B.
  CHECK(gathers(to_backward, 1) == Names{"F0", "F1", "F2", "F3"});
  CHECK(gathers(all_step, 0) == Names{"F0"});
  CHECK(gathers(all_step, 1) == Names{"F0"});
  CHECK(gathers(always, 0) == Names{"F0", "F1", "B0", "F2", "B1", "F3", "B2", "B3"});
}

TEST_CASE("every way to keep weights and gradients gives a valid plan under every kind of schedule",
          "[long]") {
  const std::vector<std::pair<const char*, const char*>> schedules = {{"gpipe", "1"},
                                                                      {"1f1b", "1"},
                                                                      {"zb_h1", "1"},
                                                                      {"interleaved_1f1b", "2"},
                                                                      {"zb_v", "2"},
                                                                      {"dualpipe_v", "2"},
                                                                      {"interleaved_1f1b_overlap", "2"}};
  const std::vector<std::pair<int, Overrides>> options = {
      {2, once}, {3, once}, {3, to_backward}, {3, to_backward + once}, {3, all_step}, {3, all_step + once}};
  for (const auto& [schedule, virtual_stages] : schedules)
    for (const auto& [zero, kept] : options)
      for (const char* recompute : {"none", "full"}) {
        CAPTURE(schedule, zero, kept.front().key, kept.size(), recompute);
        const Plan plan = compile(
            job_from(small_gpt(8, 2, 2, 1),
                     kept + Overrides{{"parallelism.pipeline_schedule", schedule},
                                      {"parallelism.virtual_pipeline_model_parallel_size", virtual_stages},
                                      {"parallelism.sequence_parallel", "true"},
                                      {"model.untie_embeddings_and_output_weights", "true"},
                                      {"optimizer.zero_stage", std::to_string(zero)},
                                      {"recompute.granularity", recompute}}));
        CHECK(lint(plan) == std::vector<std::string>{});
      }
}

TEST_CASE("a kept bucket is never gathered twice nor freed while a pass still reads it: lint sees both") {
  Plan plan = fsdp_plan(3, all_step);
  for (Segment& segment : plan.segments)
    if (segment.name == "stage 0 backward first last releasing" ||
        segment.name == "stage 0 backward last releasing")
      std::erase_if(segment.instructions, [](const Instruction& what) {
        return what.opcode == Opcode::free && what.inputs.size() == 1;
      });
  CHECK(!lint(plan).empty());  // never freed
}

}  // namespace simrun
