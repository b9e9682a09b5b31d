#include "schedules/document_tables.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "models/flops.h"
#include "models/packed_documents.h"
#include "schedules/extent_tables.h"

namespace simrun {
namespace {

using Parts = std::vector<std::uint8_t>;  // axes over which the batch is split, the outermost first

bool is_fused_attention(const Instruction& what) {
  return (what.opcode == Opcode::attention || what.opcode == Opcode::attention_backward) &&
         what.function != Function::unfused;
}

class DocumentTables {
 public:
  DocumentTables(Plan& plan, const Job& job) : plan_(plan), job_(job), config_(*job.training.documents) {}

  void run(const Graph& graph) {
    for (Segment& segment : plan_.segments)
      for (Instruction& what : segment.instructions)
        if (is_fused_attention(what) && what.work_table < 0)
          what.work_table = table_of(what.causal, batch_parts(what));
    state_facts(graph);
  }

 private:
  const Mesh& mesh() const { return plan_.stages.front().meshes.front(); }

  Parts batch_parts(const Instruction& what) const {
    for (const Index input : what.inputs) {
      const Buffer& buffer = plan_.buffers[input];
      for (std::size_t d = 0; d < buffer.dims.size() && d < buffer.split.size(); ++d)
        if (plan_.dimension_names[buffer.dims[d].name] == "batch")
          return axes_of_split(buffer.split[d], mesh());
    }
    return {};
  }

  std::int32_t table_of(const CausalMask& mask, const Parts& axes) {
    const auto [known, is_new] =
        known_.try_emplace({mask, axes}, static_cast<std::int32_t>(plan_.extent_tables.size()));
    if (!is_new) return known->second;
    ExtentTable table;
    table.axes = axes;
    table.per_microbatch = true;
    table.origin = config_.origin;
    for (const double share : shares(mask, axes))
      table.values.push_back(std::llround(share * static_cast<double>(whole_work)));
    plan_.extent_tables.push_back(std::move(table));
    return known->second;
  }

  // [microbatch][part of the batch]
  std::vector<double> shares(const CausalMask& mask, const Parts& axes) const {
    std::int64_t parts = 1;
    for (const std::uint8_t axis : axes) parts *= mesh().axes[axis].size;
    const std::int64_t samples = job_.training.micro_batch_size;
    std::vector<double> result;
    for (std::int64_t sample = 0; sample < job_.microbatches() * parts * samples; sample += samples) {
      double sum = 0;
      for (std::int64_t j = 0; j < samples; ++j)
        sum += document_share(documents_of_sequence(config_, job_.training.seq_length, sample + j), mask);
      result.push_back(sum / static_cast<double>(samples));
    }
    return result;
  }

  // Of the whole step's attention; layers with a window count with their own shares.
  void state_facts(const Graph& graph) {
    DocumentMask facts;
    facts.origin = config_.origin;
    facts.config = config_of_step();
    double whole = 0, within = 0, highest = 0;
    for (const Operator& op : graph.operators) {
      if (op.opcode != Opcode::attention) continue;
      const double flops = operator_flops(graph, op, Extents::unpadded).total();
      const auto [share, is_new] = mean_and_highest_.try_emplace(op.causal);
      if (is_new) {
        const std::vector<double> all = shares(op.causal, data_parallel_axes());
        share->second = {std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size()),
                         *std::max_element(all.begin(), all.end())};
      }
      whole += flops;
      within += flops * share->second.first;
      highest += flops * share->second.second;
    }
    if (whole == 0) return;
    facts.mean_share = within / whole;
    facts.highest_share = highest / whole;
    facts.model_flops_per_step =
        plan_.job.model_flops_per_step - (whole - within) * static_cast<double>(plan_.job.microbatches);
    plan_.job.documents = facts;
  }

  // Without the recorded documents behind the last sequence of a step.
  DocumentConfig config_of_step() const {
    DocumentConfig config = config_;
    config.origin.clear();
    std::int64_t left = job_.training.global_batch_size * job_.training.seq_length;
    std::size_t read = 0;
    for (; read < config.recorded.size() && left > 0; ++read) left -= config.recorded[read];
    config.recorded.resize(read);
    return config;
  }

  // As the attentions of the plan have them.
  Parts data_parallel_axes() const { return known_.empty() ? Parts() : known_.begin()->first.second; }

  Plan& plan_;
  const Job& job_;
  const DocumentConfig& config_;
  std::map<std::pair<CausalMask, Parts>, std::int32_t> known_;
  std::map<CausalMask, std::pair<double, double>> mean_and_highest_;
};

}  // namespace

void add_document_tables(Plan& plan, const Job& job, const Graph& graph) {
  if (job.training.documents) DocumentTables(plan, job).run(graph);
}

}  // namespace simrun
