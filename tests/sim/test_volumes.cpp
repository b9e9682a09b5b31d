// What every preset's step sends, against the papers' formulas, from the preset's own sizes.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>

#include "schedules/compile.h"
#include "schedules/lint.h"
#include "sim/exchange_groups.h"
#include "sim/simulate.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

// All but llava's, whose tower and language model are others of these.
std::vector<std::string> presets() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(SIMRUN_SOURCE_DIR "/configs/models"))
    if (const std::string name = entry.path().stem().string(); !name.starts_with("llava"))
      names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

constexpr std::int64_t sequence = 240, decoder_sequence = 60, microbatches = 2;

struct Split {
  std::int64_t tp = 1, cp = 1, pp = 1, dp = 1;
  bool sequence_parallel = false;
  int zero = 0;
  std::string parallelism = "";  // further keys
};

// One sequence per microbatch and data-parallel rank, on one node. No clipping, whose norm every rank sums.
Job job_of(const std::string& preset, const Split& split) {
  const bool images = reads_images(preset);
  const bool decodes = preset == "m6-10b" || preset.starts_with("t5") || preset.starts_with("gnmt") ||
                       preset.starts_with("gshard") || preset.starts_with("switch");
  return job_from(fmt::format(
      "simrun: 1\nmodel: {{from: models/{}.yaml}}\n"
      "training: {{{}{}micro_batch_size: 1, global_batch_size: {}, precision: bf16, hidden_dropout: 0}}\n"
      "parallelism: {{tensor_model_parallel_size: {}, pipeline_model_parallel_size: {}, "
      "sequence_parallel: {}{}{}}}\n"
      "optimizer: {{zero_stage: {}, clip_grad: 0}}\n"
      "cluster: {{from: dgx_h100, nodes: 1, gpus_per_node: {}}}\n",
      preset, images ? "" : fmt::format("seq_length: {}, ", sequence),
      decodes ? fmt::format("decoder_seq_length: {}, ", decoder_sequence) : "", microbatches * split.dp,
      split.tp, split.pp, split.sequence_parallel,
      split.cp > 1 ? fmt::format(", context_parallel_size: {}", split.cp) : "", split.parallelism, split.zero,
      split.tp * split.cp * split.pp * split.dp));
}

double bytes_of_all(const Plan& plan, const std::vector<Index>& buffers) {
  double bytes = 0;
  for (const Index buffer : buffers)
    bytes += static_cast<double>(plan.buffers[buffer].elements() * bytes_of(plan.buffers[buffer].dtype));
  return bytes;
}

// What one of n ranks sends of a collective whose larger side is S: (n - 1) / n of it, an all-reduce twice.
double sent_bytes(const Plan& plan, std::int32_t rank, const Instruction& what) {
  const Communication& of = plan.communications[what.communication];
  if (what.opcode == Opcode::recv) return 0;
  const double in = bytes_of_all(plan, what.inputs), out = bytes_of_all(plan, what.outputs);
  if (what.opcode == Opcode::send) return in;
  const auto n = static_cast<double>(group_instances(plan, rank, of.group).front().size());
  return (what.opcode == Opcode::all_reduce ? 2 : 1) * (n - 1) / n * std::max(in, out);
}

// What one GPU of each pipeline rank sends in passes; `tensor`: the larger sides of its tensor-parallel
// collectives there, forward and backward.
struct Sent {
  std::map<Traffic, double> in_passes;
  std::map<std::pair<Opcode, Phase>, double> tensor;
  double all_gpus = 0;  // in the whole step
};
Sent sent_by(const Plan& plan) {
  Sent sent;
  for (const Program& program : plan.programs)
    for (const Entry& entry : program.entries)
      for (const Instruction& what : plan.segments[entry.segment].instructions) {
        if (!is_communication(what.opcode)) continue;
        const Traffic traffic = plan.streams[what.stream].traffic;
        const double bytes = sent_bytes(plan, program.pipeline_rank, what);
        sent.all_gpus += bytes * static_cast<double>(device_count(plan, program.pipeline_rank));
        if (what.phase == Phase::reduction || what.phase == Phase::optimizer) continue;
        sent.in_passes[traffic] += bytes;
        if (traffic == Traffic::tensor)
          sent.tensor[{what.opcode, what.phase == Phase::forward ? Phase::forward : Phase::backward_input}] +=
              std::max(bytes_of_all(plan, what.inputs), bytes_of_all(plan, what.outputs));
      }
  return sent;
}

double real(std::int64_t value) { return static_cast<double>(value); }

std::int64_t tokens_of(const ModelConfig& model) {
  const auto* vision = family_as<VisionTransformerConfig>(model.family);
  return vision != nullptr ? vision->tokens() : sequence;
}

bool is_convolutional(const ModelConfig& model) {
  return family_as<ResNetConfig>(model.family) != nullptr || family_as<VggConfig>(model.family) != nullptr;
}

// Of a hybrid every layer is one of the two, or Mamba's.
bool has_mlp(const LayerKind& kind) {
  return kind.content == LayerContent::attention_and_mlp || kind.content == LayerContent::mlp ||
         kind.content == LayerContent::delta_net_and_mlp;
}
std::int64_t layers_with(const ModelConfig& model, LayerContent content) {
  std::int64_t count = 0;
  for (std::int64_t layer = 0; layer < model.num_layers; ++layer) {
    const LayerContent own = model.layer_content(layer);
    const bool attends = own == LayerContent::attention_and_mlp && content == LayerContent::attention;
    count += own == content || attends ? 1 : 0;
  }
  return count;
}

// Layers with an MLP that tensor parallelism splits: of all ranks' tokens, so not the routed experts.
std::int64_t split_mlps(const ModelConfig& model, std::int64_t first, std::int64_t last) {
  std::int64_t count = 0;
  for (std::int64_t layer = first; layer < last; ++layer)
    count += has_mlp(model.layer_kind(layer)) &&
                     (!model.experts.in_layer(layer) || model.experts.shared_ffn_hidden_size > 0)
                 ? 1
                 : 0;
  return count;
}

// Elements that are summed over tensor-parallel ranks per microbatch of one sequence. Megatron-LM (Shoeybi et
// al. 2019, section 3): forward behind attention and MLP, backward before both, b s h each; the embedding
// behind its rows, the classifier before its input. A cross entropy sums three fp32 numbers per row.
struct Summed {
  double forward = 0, backward = 0;
  double rows = 0;  // of the cross entropy
};
Summed summed(const ModelConfig& model) {
  const double t = real(tokens_of(model)), d = real(decoder_sequence), h = real(model.hidden_size);
  const double layers = real(model.num_layers);
  if (const auto* resnet = family_as<ResNetConfig>(model.family))  // the classifier alone is split
    return {0, real(resnet->stages.back().output), 1};
  if (const auto* vgg = family_as<VggConfig>(model.family)) return {0, real(vgg->wide_features), 1};
  if (family_as<GnmtConfig>(model.family) != nullptr) return {(t + d) * h, d * h, d};
  if (family_as<VisionTransformerConfig>(model.family) != nullptr)  // which reads the class token
    return {2 * layers * t * h, 2 * layers * t * h + h, 1};
  if (const auto* stacks = family_as<EncoderDecoderConfig>(model.family)) {
    // One per attention, of which decoder layers have two, and one per MLP; the gradients of the encoder's
    // output are summed over the decoder's layers first.
    const std::int64_t e = stacks->encoder_layers;
    const double all = real(e + split_mlps(model, 0, e)) * t * h +
                       real(2 * stacks->decoder_layers + split_mlps(model, e, model.num_layers)) * d * h;
    return {all + (t + d) * h, all + (d + t) * h, d};
  }
  const double mlps = real(split_mlps(model, 0, model.num_layers));
  const double attending = real(layers_with(model, LayerContent::attention)),
               scans = real(layers_with(model, LayerContent::mamba) +  // which are summed as an MLP is
                            layers_with(model, LayerContent::delta_net_and_mlp));
  // Of branches side by side the outputs are summed together, and the gradients of a norm that both read.
  if (model.parallel_residual)
    return {(layers + 1) * t * h, ((model.shared_norm ? 1 : 2) * layers + 1) * t * h, t};
  double attention = h;
  if (model.mla.on())  // every rank has the latents whole, and heads of its own
    attention = real(model.mla.q_lora_rank > 0 ? model.mla.q_lora_rank : model.hidden_size) +
                real(model.mla.kv_lora_rank + model.mla.qk_rope_head_dim);
  return {(attending + scans + mlps + 1) * t * h, (attending * attention + (scans + mlps + 1) * h) * t, t};
}

// That the heads and their keys and values divide by.
std::int64_t tensor_ranks(const ModelConfig& model) {
  for (const std::int64_t tp : {4, 2, 5})
    if (model.num_attention_heads % tp == 0 && model.num_key_value_heads % tp == 0) return tp;
  return 1;
}

// Elements of keys and values per token, and of what Ulysses exchanges: q, k, v and the context.
double key_values(const ModelConfig& model) {
  if (model.mla.on())
    return real(model.num_attention_heads * (model.mla.qk_head_dim() + model.mla.v_head_dim));
  return real(2 * model.num_key_value_heads * model.head_dim);
}
double exchanged_heads(const ModelConfig& model) {
  if (model.mla.on())
    return real(model.num_attention_heads * 2 * (model.mla.qk_head_dim() + model.mla.v_head_dim));
  return real(2 * (model.num_attention_heads + model.num_key_value_heads) * model.head_dim);
}

// z, x, B, C and dt on the way to a scan, its channels on the way back.
double exchanged_channels(const MambaConfig& mamba) {
  return real(3 * mamba.inner_size() + 2 * mamba.num_groups * mamba.state_dim + mamba.num_heads);
}

// q, k, v, b, a and the gate on the way to the heads of a Gated DeltaNet, gated values on the way back.
double exchanged_channels(const DeltaNetConfig& delta) {
  return real(delta.convolved() + 2 * delta.num_value_heads + 2 * delta.value_size());
}

constexpr double bf16 = 2, fp32 = 4;
constexpr double ring_of_two = 0.5;  // (n - 1) / n

void sums_over_tensor_ranks(const std::string& preset, const ModelConfig& model) {
  const Summed expected = summed(model);
  const std::int64_t tp = tensor_ranks(model);
  if (tp == 1) return;
  Sent sent = sent_by(compile(job_of(preset, {.tp = tp})));
  const auto times = real(microbatches);
  CHECK(sent.tensor[{Opcode::all_reduce, Phase::forward}] ==
        times * (expected.forward * bf16 + expected.rows * 3 * fp32));
  CHECK(sent.tensor[{Opcode::all_reduce, Phase::backward_input}] == times * expected.backward * bf16);
  if (model.qk_norm == QkNorm::of_all_heads) {  // queries, keys and values are gathered for them
    const double heads = real((model.num_attention_heads + 2 * model.num_key_value_heads) * model.head_dim);
    CHECK(sent.tensor[{Opcode::all_gather, Phase::forward}] ==
          times * real(model.num_layers * sequence) * heads * bf16);
    return;
  }
  CHECK(sent.tensor.size() == 2);
  // And 2 (n - 1) / n of that on the wire.
  CHECK(sent.in_passes[Traffic::tensor] ==
        Approx(2 * real(tp - 1) / real(tp) * times *
               ((expected.forward + expected.backward) * bf16 + expected.rows * 3 * fp32)));
}

void gathers_and_scatters(const std::string& preset, const ModelConfig& model) {
  // An LSTM needs whole sequences; the patches of an image and its class token are an odd number.
  if (is_convolutional(model) || tokens_of(model) % 2 != 0) return;
  if (family_as<GnmtConfig>(model.family) != nullptr || tensor_ranks(model) == 1) return;
  if (model.qk_norm == QkNorm::of_all_heads) return;  // which gather besides
  const Summed of = summed(model);
  Sent sent = sent_by(compile(job_of(preset, {.tp = tensor_ranks(model), .sequence_parallel = true})));
  const double times = real(microbatches) * bf16;
  CHECK(sent.tensor[{Opcode::reduce_scatter, Phase::forward}] == times * of.forward);
  CHECK(sent.tensor[{Opcode::reduce_scatter, Phase::backward_input}] == times * of.backward);
  // BERT's next-sentence head reads the first token of the gathered sequence.
  const auto* bert = family_as<BertConfig>(model.family);
  const double first = bert != nullptr && bert->next_sentence_head ? real(sequence * model.hidden_size) : 0;
  CHECK(sent.tensor[{Opcode::all_gather, Phase::forward}] == times * (of.backward + first));
  // Backward once more what weights' gradients read (Korthikanti et al. 2022, section 4.2.2), which the
  // rotated keys that latent attention's heads share are not.
  const double unread = real(model.num_layers * sequence * model.mla.qk_rope_head_dim);
  CHECK(sent.tensor[{Opcode::all_gather, Phase::backward_input}] ==
        times * (of.forward + of.backward - (model.mla.on() ? unread : 0)));
}

void sums_gradients(const std::string& preset, const ModelConfig& model) {
  constexpr double n = 4;
  const auto elements = [&](int zero, double bytes_per_parameter) {
    const Plan plan = compile(job_of(preset, {.dp = 4, .zero = zero}));
    return sent_by(plan).all_gpus / n / (real(plan.job.parameters) * bytes_per_parameter);
  };
  // The vocabulary is padded to a multiple of 128, buckets to one of 128 x n: most of a small BERT's.
  const double padding = model.hidden_size > 0 && model.hidden_size < 2048 ? 0.005 : 0.0005;
  CHECK(elements(0, fp32) == Approx(2 * (n - 1) / n).epsilon(padding));
  // ZeRO-3 scatters fp32 gradients and gathers bf16 weights twice, in each microbatch (Rajbhandari et al.
  // 2020, section 7.2): 3 (n - 1) / n elements, 1.5 times as many.
  const double per_microbatch = elements(3, fp32 + 2 * bf16) / real(microbatches);
  // The unit of the embedding and the last norm is gathered for the norm's backward; where norms have no
  // weight nothing there reads the table again.
  const bool reads_table_once = !model.norm_weight && !model.tie_word_embeddings;
  const double unread = reads_table_once ? real(model.vocab_size * model.hidden_size) * bf16 : 0;
  const double all = (fp32 + 2 * bf16) * real(compile(job_of(preset, {.dp = 4})).job.parameters);
  CHECK(per_microbatch == Approx((n - 1) / n * (1 - unread / all)).epsilon(padding));
}

void sends_over_borders(const std::string& preset, const ModelConfig& model) {
  if (model.num_layers % 2 != 0) return;
  double elements = real(tokens_of(model) * model.hidden_size);
  if (const auto* resnet = family_as<ResNetConfig>(model.family)) {
    std::int64_t blocks = 0, side = resnet->image.size / 4;
    for (const ResidualStage& stage : resnet->stages) {
      blocks += stage.blocks;
      elements = real(side * side * stage.output);
      if (2 * blocks >= model.num_layers) break;
      side /= 2;
    }
  }
  for (const std::int64_t tp : {std::int64_t{1}, tensor_ranks(model)}) {
    Sent sent = sent_by(compile(job_of(preset, {.tp = tp, .pp = 2})));
    CHECK(sent.in_passes[Traffic::pipeline] == 2 * real(microbatches) * elements * bf16);
  }
}

void sends_keys_and_values(const std::string& preset, const ModelConfig& model) {
  if (is_convolutional(model) || !std::holds_alternative<std::monostate>(model.family)) return;
  const double tokens = real(sequence) / 2 * real(microbatches) * bf16;
  const double attending = real(layers_with(model, LayerContent::attention)),
               scans = real(layers_with(model, LayerContent::mamba)),
               delta_nets = real(layers_with(model, LayerContent::delta_net_and_mlp));
  const auto sent = [&](const char* type) {
    const Split split{.cp = 2, .parallelism = std::string(", cp_comm_type: ") + type};
    return sent_by(compile(job_of(preset, split))).in_passes.at(Traffic::context);
  };
  // Sinks are added to whole rows of scores, and a scan goes through the whole sequence.
  if (!model.attention_sinks && !model.mamba.on() && !model.delta_net.on()) {
    CHECK(sent("p2p") == 3 * tokens * attending * key_values(model));
    CHECK(sent("all_gather") == 3 * tokens * attending * key_values(model));
  }
  if (model.num_key_value_heads % 2 == 0 && model.num_attention_heads % 2 == 0)
    CHECK(sent("a2a") == 2 * tokens * ring_of_two *
                             (attending * exchanged_heads(model) + scans * exchanged_channels(model.mamba) +
                              delta_nets * exchanged_channels(model.delta_net)));
}

void dispatches_and_combines(const std::string& preset, const ModelConfig& model) {
  if (model.experts.count == 0) return;
  Sent sent = sent_by(compile(
      job_of(preset, {.tp = 2,
                      .dp = 2,
                      .sequence_parallel = true,
                      .parallelism = ", expert_model_parallel_size: 4, expert_tensor_parallel_size: 1"})));
  // Of a rank's tokens each expert gets as many, in whole rows.
  const auto* stacks = family_as<EncoderDecoderConfig>(model.family);
  const std::int64_t experts = model.experts.count;
  std::int64_t rows = 0;
  for (std::int64_t layer = 0; layer < model.num_layers; ++layer) {
    if (!model.experts.in_layer(layer)) continue;
    const bool decodes = stacks != nullptr && layer >= stacks->encoder_layers;
    const std::int64_t routed = (decodes ? decoder_sequence : sequence) / 2 * model.experts.topk;
    rows += (routed + experts - 1) / experts * experts;
  }
  const std::int64_t width = model.experts.latent_size > 0 ? model.experts.latent_size : model.hidden_size;
  CHECK(sent.in_passes[Traffic::expert] ==
        Approx(2 * 2 * real(microbatches * rows) * real(width) * bf16 * 3 / 4));
}

void links_carry_it(const std::string& preset, const ModelConfig& model) {
  if (model.num_layers % 2 != 0) return;
  const Plan plan = compile(job_of(preset, {.tp = tensor_ranks(model), .pp = 2, .dp = 2, .zero = 1}));
  double carried = 0;
  for (const LinkTimeline& link : simulate(plan).links)
    if (link.name.ends_with("_tx")) carried += real(link.bytes) * real(link.multiplicity);
  CHECK(carried == Approx(sent_by(plan).all_gpus));
}

struct Law {
  const char* claim;
  void (*check)(const std::string& preset, const ModelConfig& model);
};
constexpr Law laws[] = {
    {"tensor parallelism sums 4 b s h per layer and microbatch", sums_over_tensor_ranks},
    {"sequence parallelism gathers and scatters what would be summed", gathers_and_scatters},
    {"data parallelism sums each gradient, 2 (n - 1) / n; ZeRO-3 moves 1.5 times as much", sums_gradients},
    {"pipelines send b s h each way over each border", sends_over_borders},
    {"rings send keys and values forward and twice backward, Ulysses 4 s h / cp", sends_keys_and_values},
    {"experts cost two all-to-alls of the routed rows per layer and pass", dispatches_and_combines},
    {"the links of a node carry what the plan's collectives send", links_carry_it}};

void check_laws() {
  for (const std::string& name : presets())
    for (const Law& law : laws) {
      CAPTURE(name, law.claim);
      law.check(name, job_of(name, {}).model);
    }
}

}  // namespace

TEST_CASE("volume of every preset: what its step sends is what the papers' formulas say", "[long]") {
  CHECK(presets().size() >= 88);
  check_laws();
}

}  // namespace simrun
