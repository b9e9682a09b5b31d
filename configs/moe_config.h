#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// Mixture of experts as plain values: what a model has (ExpertConfig) and how a job runs it (MoeConfig).
namespace simrun {

enum class RouterScore : std::uint8_t { softmax, sigmoid };

// The experts of a ModelConfig. A token goes to `topk` of `count` experts and to the shared expert, if there
// is one (Shazeer et al. 2017, arXiv 1701.06538; shared experts: DeepSeekMoE, arXiv 2401.06066).
struct ExpertConfig {
  std::vector<bool> layers;  // by layer: experts in place of the MLP. Empty: in no layer
  std::int64_t count = 0;    // routed experts of such a layer; 0: a dense model
  std::int64_t topk = 0;
  std::int64_t ffn_hidden_size = 0;  // of each routed expert
  // Routed experts work on vectors of this size, made from a token's before it is sent and turned back after
  // its experts' sum (LatentMoE, Megatron Core's moe_latent_size); 0: on tokens as they are.
  std::int64_t latent_size = 0;
  std::int64_t shared_ffn_hidden_size = 0;  // of all shared experts together; 0: none
  bool shared_gate = false;                 // sigmoid(y w) scales the shared expert's output (Qwen2-MoE)
  bool bias = false;                        // of both matrices of every expert
  bool router_bias = false;
  RouterScore score = RouterScore::softmax;
  // Added to the scores when experts are chosen and to nothing else; it has no gradient (DeepSeek-V3, arXiv
  // 2412.19437, section 2.1.2).
  bool selection_bias = false;
  std::int64_t groups = 0;  // of experts; a token's experts are in at most topk_groups of them. 0: no groups
  std::int64_t topk_groups = 0;  // (DeepSeek-V2, arXiv 2405.04434, section 2.2.2)
  std::int64_t group_best = 1;   // a group's score is the sum of its so many best experts' scores
  // The weights of a token's experts are their scores, divided by their sum or not, times `scaling`.
  bool normalizes_weights = true;
  double scaling = 1;
  // A token's weight multiplies what its expert reads, not what that puts out (Llama 4). Only with topk 1.
  bool scales_input = false;
  // Weight of the balance loss, experts / (topk tokens) sum over experts of (choices x mean share of the
  // scores), of each rank and microbatch (Fedus et al. 2021, arXiv 2101.03961, equations 4 to 6); 0: none.
  double balance_loss = 0;
  bool balance_by_sequence = false;  // of each sequence, not of all tokens of a microbatch
  bool is_topk = true;  // else tokens are divided by a rule that no kernel knows; the work is the same
  bool operator==(const ExpertConfig&) const = default;

  bool in_layer(std::int64_t layer) const {
    return !layers.empty() && layers.at(static_cast<std::size_t>(layer));
  }
};

// alltoall: tokens go to their experts' ranks; allgather: every rank gets all tokens and takes its experts';
// deepep: alltoall that sends a token once per node and fans out there (DeepSeek-V3, section 3.2.2); einsum:
// alltoall whose rows are made, and summed again, by products with masks (GShard, arXiv 2006.16668, section
// 2.2 and appendix A).
enum class TokenDispatcher : std::uint8_t { alltoall, allgather, deepep, einsum };

// Tokens that each expert received in a recorded run; equal if the counts are.
struct ExpertHistogram {
  std::string path;
  std::vector<std::int64_t> tokens;
  bool operator==(const ExpertHistogram& other) const { return tokens == other.tokens; }
};

// Over which tokens of a microbatch an expert's capacity and the balance loss count, where that is not what
// the job's own ranks have: so one rank computes what many do. A sequence is in so many parts, dealt to so
// many ranks in zigzag blocks (1: contiguous); an expert takes so many rows of each.
struct ExpertScope {
  std::int64_t sequence_parts = 1, zigzag_ranks = 1;
  std::int64_t rows = 0, decoder_rows = 0;                  // the decoder's of an encoder-decoder; else 0
  std::int64_t group_tokens = 0, decoder_group_tokens = 0;  // of a mask; 0: not the dispatcher einsum
  bool operator==(const ExpertScope&) const = default;
};

// The moe section of a job. At most one of load_imbalance, zipf and histogram says how uneven the load is.
struct MoeConfig {
  double capacity_factor = 0;  // an expert takes this x the mean load and drops the rest; 0: dropless
  TokenDispatcher token_dispatcher = TokenDispatcher::alltoall;
  std::int64_t group_size = 0;  // einsum: tokens that share a mask (GShard's S); 0: a rank's of a microbatch
  double load_imbalance = 1;    // busiest expert rank / mean
  double zipf = 0;              // the r-th expert's load is in proportion to r^-zipf; 0: even
  std::optional<ExpertHistogram> histogram;
  std::int64_t node_limit = 0;            // most nodes that a token is sent to; 0: any number
  std::optional<ExpertScope> scope = {};  // no key: of the run that others are compared with
  bool operator==(const MoeConfig&) const = default;
};

}  // namespace simrun
