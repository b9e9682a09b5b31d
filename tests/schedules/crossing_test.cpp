#include <catch2/catch.hpp>

#include "models/graph_builder.h"
#include "schedules/compile.h"
#include "schedules/context_parallel.h"
#include "schedules/lint.h"
#include "schedules/lower_model.h"
#include "tests/jobs.h"
#include "tests/schedules/crossing_names.h"

namespace simrun {
namespace {

// t5-small with 6 + 6 layers on four pipeline ranks: 3 encoder layers, 3 encoder layers, 3 and 3 decoder
// layers.
Job four_stages(const std::vector<Override>& overrides = {}) {
  return job_from(
      "simrun: 1\nmodel: {from: t5-small}\n"
      "training: {seq_length: 128, decoder_seq_length: 32, micro_batch_size: 2, global_batch_size: 16, "
      "precision: bf16}\nparallelism: {pipeline_model_parallel_size: 4}\n"
      "cluster: {from: dgx_a100, nodes: 1, gpus_per_node: 4}\n",
      overrides);
}

const Segment& segment_named(const Plan& plan, const std::string& name) {
  for (const Segment& segment : plan.segments)
    if (segment.name == name) return segment;
  FAIL("no segment " << name);
  return plan.segments.front();
}

TEST_CASE("an encoder's output crosses every border behind the encoder, beside the decoder's rows") {
  const LoweredModel model = lower_model(four_stages());
  CHECK(crossing_names(model, 0) == std::vector<std::string>{"mlp_add"});
  CHECK(crossing_names(model, 1) == std::vector<std::string>{"encoder_dropout"});
  CHECK(crossing_names(model, 2) == std::vector<std::string>{"encoder_dropout", "mlp_add"});
  // Word embeddings: both stacks' and the head's.
  CHECK(model.partition.tied_stages == std::vector<std::int32_t>{0, 2, 3});
}

TEST_CASE("what crosses a border goes in one SEND, and its gradient adds up on the way back") {
  const Plan plan = compile(four_stages());
  CHECK(lint(plan).empty());
  // 2 sequences x (128 encoder + 32 decoder tokens) x 512 x 2 bytes
  for (const char* name : {"stage 2 send activation", "stage 3 send gradient"}) {
    const Instruction& send = segment_named(plan, name).instructions.front();
    std::int64_t bytes = 0;
    for (const Index buffer : send.inputs) bytes += plan.buffers[buffer].bytes();
    CHECK(send.inputs.size() == 2);
    CHECK(bytes == 2LL * (128 + 32) * 512 * 2);
  }
  CHECK(segment_named(plan, "stage 1 send activation").instructions.front().inputs.size() == 1);
  // Stage 2 has three layers with keys and values of their own; stage 3 has sent the sum of its three.
  std::vector<std::size_t> summands;
  for (const Instruction& instruction : segment_named(plan, "stage 2 backward first").instructions)
    if (instruction.label == "encoder_dropout gradient sum") summands.push_back(instruction.inputs.size());
  CHECK(summands == std::vector<std::size_t>{3 * 2 + 1});
}

TEST_CASE("every schedule carries an encoder-decoder over its borders") {
  for (const char* schedule : {"1f1b", "gpipe", "zb_h1"}) {
    CAPTURE(schedule);
    CHECK(lint(compile(four_stages({{"parallelism.pipeline_schedule", schedule}}))).empty());
  }
  for (const char* schedule : {"interleaved_1f1b", "zb_v"}) {
    CAPTURE(schedule);
    const Job job = job_from(
        "simrun: 1\nmodel: {from: t5-small}\n"
        "training: {seq_length: 128, micro_batch_size: 1, global_batch_size: 16, precision: bf16}\n"
        "parallelism: {pipeline_model_parallel_size: 2, virtual_pipeline_model_parallel_size: 2, "
        "pipeline_schedule: " +
        std::string(schedule) + "}\ncluster: {from: dgx_a100, nodes: 1, gpus_per_node: 2}\n");
    CHECK(lint(compile(job)).empty());
  }
}

// Three layers: a is made in the first and read again in the third only.
struct Skip {
  Graph graph;
  TensorId a = 0, b = 0, c = 0;
};
Skip skipping_graph() {
  GraphBuilder graph(Dtype::bf16);
  const std::vector<DimensionId> rows{graph.dimension("batch", 4), graph.dimension("hidden", 8)};
  Skip skip;
  const TensorId data = graph.tensor("data", rows, Dtype::bf16, TensorKind::index);
  graph.add("data", Opcode::input, Function::none, {}, {data});
  const auto scaled = [&](const char* name, TensorId x) {
    const TensorId y = graph.activation(name, rows);
    graph.add(name, Opcode::map, Function::relu, {x}, {y});
    return y;
  };
  graph.enter_layer(0);
  const TensorId weight = graph.parameter("weight", {rows[1]});
  skip.a = graph.activation("a", rows);
  graph.add("a", Opcode::map, Function::add, {data, weight}, {skip.a});
  skip.b = scaled("b", skip.a);
  graph.enter_layer(1);
  skip.c = scaled("c", skip.b);
  graph.enter_layer(2);
  graph.add("d", Opcode::map, Function::add, {skip.c, skip.a}, {graph.activation("d", rows)});
  skip.graph = graph.take();
  return skip;
}

TEST_CASE("a tensor that a later stage reads crosses the stage between, which only passes it on") {
  const Skip skip = skipping_graph();
  const Partition split =
      partition(skip.graph, {{.embedding = true, .layers = 1}, {.layers = 1}, {.layers = 1, .loss = true}});
  const auto tensors = [&](std::size_t border) {
    std::vector<TensorId> ids;
    for (const Crossing& crossing : split.borders[border]) ids.push_back(crossing.tensor);
    return ids;
  };
  CHECK(tensors(0) == std::vector<TensorId>{skip.a, skip.b});
  CHECK(tensors(1) == std::vector<TensorId>{skip.a, skip.c});
  CHECK(split.borders[0][0].reader == split.operators[2].front());  // its first reader is in the third stage

  const std::vector<Layout> layouts(skip.graph.operators.size());
  RecomputeRegions regions;
  regions.region_of.assign(skip.graph.operators.size(), -1);
  const DeviceMesh mesh = device_mesh({});
  const std::vector<std::uint8_t> streams(8, compute_stream);
  const Job job;
  ContextParallelism context_parallel(job, mesh);
  const std::vector<BorderTensor> inputs{BorderTensor{skip.a, Layout{}}, BorderTensor{skip.b, Layout{}}};
  const std::vector<BorderTensor> outputs{BorderTensor{skip.a, Layout{}}, BorderTensor{skip.c, Layout{}}};
  const ChunkContext middle{.graph = skip.graph,
                            .layouts = layouts,
                            .regions = regions,
                            .mesh = mesh,
                            .stream_of_axis = streams,
                            .expert_stream = compute_stream,
                            .context_parallel = context_parallel,
                            .gradient_dtype = Dtype::bf16,
                            .operators = split.operators[1],
                            .inputs = inputs,
                            .outputs = outputs};
  ChunkCode code;
  lower_forward(middle, code);
  lower_backward(middle, code);
  // One value on both sides, forward and backward; b's gradient is made of c's.
  CHECK(code.inputs.at(0) == code.outputs.at(0));
  CHECK(code.input_gradients.at(0) == code.output_gradients.at(0));
  CHECK(code.inputs.at(1) != code.outputs.at(1));
  CHECK(code.forward.size() == 1);
  CHECK(code.backward.size() == 1);
}

}  // namespace
}  // namespace simrun
