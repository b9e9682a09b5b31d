#include "planner/candidate_variants.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "planner/candidate_neighbours.h"
#include "planner/other_schedules.h"
#include "tests/jobs.h"
#include "tests/planner/searches.h"

namespace simrun {
namespace {

std::string decoder_on(const std::string& model, const std::string& cluster) {
  return "simrun: 1\nmodel: {from: " + model +
         "}\ntraining: {seq_length: 16384, micro_batch_size: 1, global_batch_size: 64, precision: bf16}\n"
         "cluster: {" +
         cluster + "}\n";
}

std::set<std::int64_t> tensor_sizes(const Job& job) {
  std::set<std::int64_t> sizes;
  for_each_candidate(job, {}, [&](const Candidate& of) { sizes.insert(of.tensor); });
  return sizes;
}

}  // namespace

// Over 4 context-parallel ranks: p2p, all_gather, a2a, a2a+p2p of 2 x 2; each with divided and whole
// sequences on 2 tensor-parallel ranks: 8 ways, of which one is the candidate.
TEST_CASE("variants divide a sequence in every other way") {
  const Job job = preset_job("llama3-8b-8xh100");
  PlanConfig limits;
  Candidate of;
  of.tensor = 2, of.context = 4;
  limits.exchange_is_open = true;
  CHECK(variants_of(job, limits, of).size() == 7);
  of.context = 8;  // and of 4 x 2
  CHECK(variants_of(job, limits, of).size() == 9);
  limits.exchange_is_open = false;
  const std::vector<Candidate> whole = variants_of(job, limits, of);
  REQUIRE(whole.size() == 1);
  CHECK(describe(whole.front()) == "tp 2 no sp cp 8 pp 1 dp 1 mbs 1 zero 0 recompute none");
  CHECK_FALSE(takes_sequence_parallel(job, whole.front()));
  of.tensor = 1;
  CHECK(variants_of(job, limits, of).empty());
  // Neighbours are these and what differs in another choice, whose sequences are divided as the candidate's.
  limits.exchange_is_open = true;
  of.tensor = 2, of.context = 2, of.data = 2, of.zero_stage = 1, of.whole_sequences = true;
  of.exchange = {ContextExchange::all_gather, 1};
  std::size_t alike = 0, variants = 0;
  for (const Candidate& next : neighbours_of(job, limits, of))
    ++(next.whole_sequences && next.exchange == of.exchange ? alike : variants);
  CHECK(alike > 3);
  CHECK(variants == 5);  // p2p, all_gather and a2a with divided and whole sequences, but the candidate
}

// Of 8 key-value heads 16 ranks would have copies; 2, 4 and 8 of them exchange theirs within rings.
TEST_CASE("no variant copies key-value heads for an exchange, which Transformer Engine refuses") {
  const Job job = preset_job("llama3-8b-8xh100");
  PlanConfig limits;
  limits.exchange_is_open = true;
  Candidate of;
  of.context = 16;
  std::set<std::int64_t> exchanged;
  for (const Candidate& next : variants_of(job, limits, of)) exchanged.insert(next.exchange.a2a_size);
  CHECK(exchanged == std::set<std::int64_t>{1, 2, 4, 8});
  // Attention sinks leave nothing but exchanges.
  Job sinks = job;
  sinks.model.attention_sinks = true;
  sinks.cluster.nodes = 2;
  sinks.training.seq_length = 65536;
  std::int64_t most = 0;
  for_each_candidate(sinks, limits, [&](const Candidate& next) {
    if (next.tensor == 1) most = std::max(most, next.context);
  });
  CHECK(most == 8);
}

TEST_CASE(
    "a variant's job says so in its own keys, and cp_comm_type is open where the job does not write it") {
  const PlanBase base = base_of("llama3-8b-8xh100");
  CHECK(base.job.plan.exchange_is_open);
  Candidate of;
  of.tensor = 2, of.context = 4, of.whole_sequences = true;
  of.exchange = {ContextExchange::a2a_p2p, 2};
  CHECK(describe(of) == "tp 2 no sp cp 4 a2a+p2p 2 x 2 pp 1 dp 1 mbs 1 zero 0 recompute none");
  const Parallelism loaded = load_candidate(base, of).parallelism;
  CHECK_FALSE(loaded.sequence_parallel);
  CHECK(loaded.cp_comm_type == ContextExchange::a2a_p2p);
  CHECK(loaded.context_a2a_size == 2);
  CHECK(with_candidate(base.job.job, of).parallelism.cp_comm_type == ContextExchange::a2a_p2p);
  CHECK(with_candidate(base.job.job, of).parallelism.context_a2a_size == 2);
  of.exchange = {ContextExchange::a2a, 4};
  CHECK(load_candidate(base, of).parallelism.context_a2a_size == 4);
  CHECK(with_candidate(base.job.job, of).parallelism.context_a2a_size == 4);
  CHECK_FALSE(base_of("llama3-8b-8xh100", {{"parallelism.cp_comm_type", "a2a"}}).job.plan.exchange_is_open);
}

// Transformer Engine adds sinks to whole rows of scores: rings are refused, and the default is a ring.
TEST_CASE("a model with attention sinks has context-parallel candidates that load: its heads are exchanged") {
  const std::string text = decoder_on("gpt-oss-20b", "from: dgx_h100, nodes: 1");
  LoadOptions load;
  load.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
  const PlanBase base = plan_base(text, "sinks.yaml", load);
  std::set<std::int64_t> contexts;
  for_each_candidate(base.job.job, base.job.plan, [&](const Candidate& of) {
    if (contexts.contains(of.context) || of.pipeline > 1) return;
    if (accepted_job(base, of)) contexts.insert(of.context);
  });
  CHECK(contexts == std::set<std::int64_t>{1, 2, 4, 8});
}

// 18 trays of 4 GPUs are on one NVLink switch; nodes of 8 H100 are not.
TEST_CASE("tensor parallel stays inside an NVLink domain") {
  CHECK(tensor_sizes(job_from(decoder_on("llama3-8b", "from: gb200_nvl72, nodes: 4"))) ==
        std::set<std::int64_t>{1, 2, 4, 8, 16});
  CHECK(tensor_sizes(job_from(decoder_on("llama3-8b", "from: dgx_h100, nodes: 2"))) ==
        std::set<std::int64_t>{1, 2, 4, 8});
}

TEST_CASE("schedules that no estimate knows keep the rest of a candidate") {
  const Job dense = preset_job("llama3-8b-8xh100"), experts = preset_job("tiny-moe-8ranks");
  Candidate of;
  of.pipeline = 2, of.data = 4, of.zero_stage = 1, of.schedule = "1f1b";
  std::vector<std::string> found;
  for (const Candidate& next : with_other_schedules(dense, {}, of)) found.push_back(describe(next));
  CHECK(found == std::vector<std::string>{
                     "tp 1 pp 2 dp 4 mbs 1 zero 1 recompute none zb_h2",
                     "tp 1 pp 2 x 2 dp 4 mbs 1 zero 1 recompute none interleaved_zb",
                     "tp 1 pp 2 x 2 dp 4 mbs 1 zero 1 recompute none v_half",
                     "tp 1 pp 2 x 2 dp 4 mbs 1 zero 1 recompute none v_min",
                     "tp 1 pp 2 dp 4 mbs 1 zero 1 recompute none dualpipe",
                     "tp 1 pp 2 x 2 dp 4 mbs 1 zero 1 recompute none dualpipe_v",
                 });
  CHECK(with_other_schedules(experts, {}, of).size() == found.size() + 1);
  // What is climbed to from one of them keeps its schedule.
  of = with_other_schedules(dense, {}, of).back();
  std::size_t same = 0;
  for (const Candidate& next : neighbours_of(dense, {}, of)) same += next.schedule == of.schedule ? 1 : 0;
  CHECK(same >= 4);  // another microbatch, two ZeRO stages, another recompute
  of.pipeline = 1, of.virtual_stages = 1, of.data = 8, of.schedule = "";
  CHECK(with_other_schedules(dense, {}, of).empty());
  CHECK(with_other_schedules(experts, {}, of).size() == 1);
  PlanConfig limits;
  limits.schedules = {"1f1b"};
  CHECK(with_other_schedules(experts, limits, of).empty());
}

}  // namespace simrun
