#include "schedules/context_parallel.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "schedules/extent_tables.h"
#include "schedules/plan_frame.h"

namespace simrun {
namespace {

class KeySeparator {
 public:
  KeySeparator(Graph graph, KeysOfAttention keys)
      : graph_(std::move(graph)),
        keys_(keys),
        sequence_(graph_.dimension("sequence")),
        key_sequence_(graph_.dimension("key_sequence")),
        pair_(static_cast<DimensionId>(graph_.dimensions.size())),
        tokens_{{sequence_}, key_sequence_} {
    graph_.dimensions.push_back({"key_value", 2, 2});
  }

  Graph run() {
    std::vector<Operator> operators;
    for (Operator& op : graph_.operators) {
      if (op.opcode == Opcode::attention) separate(op, operators);
      operators.push_back(std::move(op));
    }
    graph_.operators = std::move(operators);
    return std::move(graph_);
  }

 private:
  TensorId activation(const char* name, std::vector<DimensionId> dims, Dtype dtype) {
    graph_.tensors.push_back({name, std::move(dims), dtype, TensorKind::activation});
    return static_cast<TensorId>(graph_.tensors.size() - 1);
  }

  // Gives the attention keys of their own dimension.
  void separate(Operator& attention, std::vector<Operator>& operators) {
    if (attention.inputs.size() >= 3)
      name_keys(attention, operators);
    else
      operators.push_back(unpacked(attention));
    std::erase(attention.whole_dims, sequence_);
    if (keys_ != KeysOfAttention::in_a_ring) return;
    std::erase(attention.whole_dims, key_sequence_);
    attention.regroup = tokens_;
  }

  // Latent attention has k and v apart already: their producer writes them for the keys' dimension.
  void name_keys(const Operator& attention, std::vector<Operator>& operators) {
    for (const std::size_t i : {1u, 2u}) {
      std::vector<DimensionId>& dims = graph_.tensors[attention.inputs[i]].dims;
      std::replace(dims.begin(), dims.end(), sequence_, key_sequence_);
    }
    for (Operator& op : operators)
      if (std::find(op.outputs.begin(), op.outputs.end(), attention.inputs[1]) != op.outputs.end())
        op.regroup = tokens_;
  }

  // Makes the attention read q and k, v; returns the operator in front of it.
  Operator unpacked(Operator& attention) {
    const Tensor packed = graph_.tensors[attention.inputs[0]];
    std::vector<DimensionId> query = graph_.tensors[attention.outputs[0]].dims;
    std::vector<DimensionId> keys = packed.dims;
    std::replace(keys.begin(), keys.end(), sequence_, key_sequence_);
    std::replace(keys.begin(), keys.end(), graph_.dimension("qkv"), pair_);
    Operator split;
    split.name = "split_qkv";
    split.opcode = Opcode::map;
    split.function = Function::split;
    split.layer = attention.layer;
    split.after_layers = attention.after_layers;
    split.inputs = {attention.inputs[0]};
    split.forward_inputs = 1;
    split.outputs = {activation("query", std::move(query), packed.dtype),
                     activation("key_value", std::move(keys), packed.dtype)};
    split.regroup = tokens_;
    std::vector<TensorId> inputs = split.outputs;
    inputs.insert(inputs.end(), attention.inputs.begin() + 1, attention.inputs.end());  // sinks
    attention.inputs = std::move(inputs);
    attention.forward_inputs += 1;
    return split;
  }

  Graph graph_;
  const KeysOfAttention keys_;
  const DimensionId sequence_, key_sequence_, pair_;
  const Regroup tokens_;
};

struct TokenRange {
  double begin = 0, end = 0;
};

// Where in the sequence a rank's tokens are.
std::vector<TokenRange> tokens_of(const SequencePart& part, std::int64_t rank, std::int64_t ranks,
                                  double sequence) {
  const auto n = static_cast<double>(ranks), r = static_cast<double>(rank);
  if (!part.zigzag) return {{r / n * sequence, (r + 1) / n * sequence}};
  const double half = sequence / (2 * n);
  return {{r * half, (r + 1) * half}, {(2 * n - 1 - r) * half, (2 * n - r) * half}};
}

// Area of q - k >= distance over two intervals, from that of corners: a triangle each.
double area_from(const TokenRange& q, const TokenRange& k, double distance) {
  const auto triangle = [&](double query, double key) {
    const double side = std::max(query - key - distance, 0.0);
    return side * side / 2;
  };
  return triangle(q.end, k.begin) - triangle(q.begin, k.begin) - triangle(q.end, k.end) +
         triangle(q.begin, k.end);
}

// Of a chunk's queries those before them in the chunk: a triangle of each that both intervals have a part of.
double area_within_chunks(const TokenRange& q, const TokenRange& k, double chunk) {
  const auto within = [](const TokenRange& range, double begin, double end) {
    return TokenRange{std::clamp(range.begin, begin, end), std::clamp(range.end, begin, end)};
  };
  double area = 0;
  for (double begin = std::floor(q.begin / chunk) * chunk; begin < q.end; begin += chunk)
    area += area_from(within(q, begin, begin + chunk), within(k, begin, begin + chunk), 0);
  return area;
}

double attended_area(const CausalMask& mask, const std::vector<TokenRange>& queries,
                     const std::vector<TokenRange>& keys) {
  double area = 0;
  for (const TokenRange& q : queries)
    for (const TokenRange& k : keys) {
      const auto window = static_cast<double>(mask.window);
      if (!mask.on)
        area += (q.end - q.begin) * (k.end - k.begin);
      else if (mask.chunked && mask.window > 0)
        area += area_within_chunks(q, k, window);
      else
        area += area_from(q, k, 0) - (mask.window > 0 ? area_from(q, k, window) : 0);
    }
  return area;
}

}  // namespace

Graph with_separate_keys(Graph graph, KeysOfAttention keys) {
  return KeySeparator(std::move(graph), keys).run();
}

std::vector<std::int64_t> block_work(const CausalMask& mask, std::int64_t sequence, const SequencePart& part,
                                     std::int64_t ranks) {
  const auto whole = static_cast<double>(sequence);
  const double queries = whole / static_cast<double>(ranks);
  std::vector<std::int64_t> work;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const std::int64_t source = ((rank - part.key_offset) % ranks + ranks) % ranks;
    const std::vector<TokenRange> keys =
        part.whole_keys ? std::vector<TokenRange>{{0, whole}} : tokens_of(part, source, ranks, whole);
    const double block = queries * (part.whole_keys ? whole : queries);
    const double area = attended_area(mask, tokens_of(part, rank, ranks, whole), keys);
    work.push_back(std::llround(static_cast<double>(whole_work) * area / block));
  }
  return work;
}

ContextParallelism::ContextParallelism(const Job& job, const DeviceMesh& mesh) {
  const Parallelism& parallelism = job.parallelism;
  part_.axes = mesh.axes("cp_outer");  // all of cp where no heads are exchanged
  if (part_.axes.empty()) return;
  part_.zigzag = parallelism.context_parallel_layout == ContextLayout::zigzag;
  part_.whole_keys = parallelism.cp_comm_type == ContextExchange::all_gather;
  ranks_ = mesh.size(part_.axes);
  if (!is_ring()) return;
  const std::vector<Stream> streams = make_streams(job);
  stream_in_ = stream_named(streams, "cp_in");
  stream_out_ = stream_named(streams, "cp_out");
}

void ContextParallelism::describe(CodeStep& attention, const Graph& graph, std::int32_t key_offset) {
  if (!separates_keys()) return;
  attention.part = part_;
  attention.part.key_offset = key_offset;
  const std::int64_t sequence = graph.dimensions[graph.dimension("sequence")].size;
  attention.work_table = table_of(block_work(attention.causal, sequence, attention.part, ranks_));
}

std::int32_t ContextParallelism::where_launched(const CodeStep& attention) {
  if (attention.work_table < 0) return -1;
  std::vector<std::int64_t> work = tables_[static_cast<std::size_t>(attention.work_table)].values;
  for (std::int64_t& share : work) share = share > 0 ? whole_work : 0;
  return table_of(work);
}

void ContextParallelism::mark_zigzag(Plan& plan) const {
  if (!part_.zigzag) return;
  const Mesh& mesh = plan.stages.front().meshes.front();
  std::string dealt;
  for (const AxisId axis : part_.axes) dealt += (dealt.empty() ? "" : ",") + mesh.axes[axis].name + ":zigzag";
  for (Buffer& buffer : plan.buffers)
    for (std::size_t d = 0; d < buffer.split.size(); ++d) {
      const std::string& name = plan.dimension_names[buffer.dims[d].name];
      if (name != "sequence" && name != "key_sequence") continue;
      const std::vector<AxisId> axes = axes_of_split(buffer.split[d], mesh);
      if (axes.size() < part_.axes.size() || !std::equal(part_.axes.begin(), part_.axes.end(), axes.begin()))
        continue;
      buffer.split[d] = dealt;
      for (std::size_t a = part_.axes.size(); a < axes.size(); ++a)
        buffer.split[d] += "," + mesh.axes[axes[a]].name;
    }
}

std::int32_t ContextParallelism::table_of(const std::vector<std::int64_t>& work) {
  const bool uniform = std::equal(work.begin() + 1, work.end(), work.begin());
  if (uniform && work.front() == whole_work) return -1;
  const auto [found, fresh] = known_.try_emplace(work, static_cast<std::int32_t>(tables_.size()));
  if (!fresh) return found->second;
  ExtentTable table;
  table.values = work;
  table.axes = part_.axes;
  if (uniform) {
    table.values.resize(1);
    table.axes.clear();
  }
  tables_.push_back(std::move(table));
  return found->second;
}

}  // namespace simrun
