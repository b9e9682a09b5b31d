#pragma once

#include <cstdint>
#include <vector>

#include "backend/expert_rows.h"
#include "backend/tensor_part.h"
#include "schedules/plan.h"

// What every opcode means: the contract between a Plan and whatever device runs it. A device may be slower or
// coarser (bf16), never different.
//
// Conventions
//  * A tensor is named by its dimensions (Buffer::dims, the last fastest); of every dimension a rank has the
//    indices that its part says (backend/tensor_part.h), ascending. Nothing else says who has what:
//    which rows of an embedding, which columns of a product, which place in the batch.
//  * All arithmetic is on `real`: the device's one floating-point type, whatever Buffer::dtype says (f64 on
//  the
//    CPU for proofs); int64 and uint8 buffers stay what they are.
//  * `Instruction::accumulate` adds into outputs of Category::gradients; every other output is written
//  afresh.
//  * A sample is numbered over the whole step: microbatch x (whole batch) + place in the batch. What is
//  random
//    (parameters, data, dropout) is a function of seed, name and whole index only (models/philox.h), so any
//    layout draws the same numbers.
//  * A buffer of run scope and the elements of a bucket that no parameter has are zero before they are
//  written;
//    other memory holds anything.
//
// INPUT          out0 [batch, sequence]: x(sample, p + ahead), constants = {ahead}; without constants 1 for
//                `labels`, else 0. x is uniform below the whole extent of `vocab`, without padding; an
//                encoder-decoder's two sequences are two texts. constants = {0, kinds}: uniform below `kinds`
//                With a text (backend/text_data.h) x(sample, p) is byte p of the sample's stretch of it, and
//                samples are numbered over the whole run.
// COPY           out0 = the rank's part of in0 (both parts of one tensor; in0's holds out0's); or out0 = the
//                queries, keys or values of in0 = packed q, k, v: a tensor with `group` or `one` in place of
//                `qkv` is the part whose name (q.., k.., v..) its own begins with
//                Or between rows of all heads [.., qkv_rows] (per key-value head of the model the queries of
//                its group, its key and its value) and packed q, k, v of more kv_heads, each a copy with a
//                share of the group's queries: out0 = the rank's heads; its gradient: out0 = zero but for the
//                rank's heads
// GEMM           out0[D] (+)= sum over (A and B) - D of in0[A] in1[B], by the names of dimensions; a name
// that
//                A, B and D have is a batch. in2, if there: a bias over a subset of D, added; where ranks
//                divide the sum, by the one that has its beginning
// ATTENTION      in0 = packed q, k, v [batch, sequence, kv_heads, group + 2, head_dim]: per kv head the
// queries
//                of its group, then its key, then its value. out0 [batch, sequence, kv_heads, group,
//                head_dim] = softmax(mask(cap(scale q k) + bias)) v; constants = {scale, cap or 0}; cap(x) =
//                cap tanh(x / cap). Query i sees key j if not causal, or j <= i, and i - j < window where
//                there is one, chunked: where both are of one chunk of so many, and where documents are
//                packed both are of one (models/packed_documents.h; sequence n of the step is sample n). Or
//                in0 = q [batch, sequence, kv_heads, (group,) qk_dim], in1 = k [batch, keys, kv_heads,
//                qk_dim], in2 = v [.., v_dim]; the context has v's width.
//                Behind them sinks [kv_heads, group]: a score of every row that has no value; or a table of
//                position biases [buckets, kv_heads]: bias = table[row(j - i)] (RelativeBuckets in
//                backend/cpu/mask.h, to both sides unless causal), constants[2] = distance that all
//                beyond share. With `alibi` bias = -slope(head) |i - j|, constants[2] = largest exponent
//                flash:   out1 = log of the sum of exponentials [batch, kv_heads, group, sequence]
//                unfused: out1 = probabilities [batch, kv_heads, group, sequence, key_sequence]; with dropout
//                         out2 = mask of what stays, out3 = mask x probabilities / (1 - dropout); with a cap
//                         the last output = capped scores
//                With Instruction::part (context parallelism) in1 may be k and v [batch, key_sequence,
//                kv_heads, key_value, head_dim]. The softmax is over these keys alone; masks, biases and
//                dropout are over the places of queries and keys in the whole sequence, of keys in a ring
//                those of the rank `key_offset` before (keys_in_ring()). A query that sees no key has out0 =
//                0, out1 = -infinity; so a rank whose share of the work (work_table) is none need not compute
//                Dropout is on the probabilities. Flash draws the same mask and keeps nothing of it.
// ATTENTION_BACKWARD  in = gradient of out0, in0.., (flash: out0), out1...; out = gradients of in0.., (+)= of
//                sinks or the table
//                With Instruction::part: out0 and out1 of the whole attention, and gradients that these keys
//                give
// NORM           in0 = x, in1 = weight, in2 = bias; constants = {epsilon}
//                layer_norm: y = (x - mean) r weight + bias, out1 = (mean, r), r = 1 / sqrt(variance +
//                epsilon) rms_norm:   y = x r weight,                 out1 = r,         r = 1 / sqrt(mean x^2
//                + epsilon), of rows [.., groups, width] with the weight of their group [groups, width]
//                qk_norm: rms norm over head_dim of every q with weight[0] and k with weight[1]; v is copied.
//                With weight [kv_heads, qk_heads, head_dim] over all queries of a token together, and over
//                all keys; statistics [.., 2]. Without a weight all are 1
//                qk_layer_norm: layer norm over head_dim of every q and k, head by head with the weights
//                [kv_heads, qk_heads, head_dim]; v is copied
// NORM_BACKWARD  in = gradient, x, weight, out1; out0 = gradient of x, out1 (+)= of the weight, out2 (+)=
// bias
// MAP            add: out0 = dropout(in0 + biases) + residuals (a bias lacks dimensions, a residual has them
//                all; a part of packed q, k, v, as in COPY, is added to that part); with dropout out1 = mask
//                of what stays, and what stays is divided by 1 - dropout
//                add_backward: out0 = in0 x mask in1 / (1 - dropout)
//                sum_gradients: out0 (+)= sum of all inputs
//                gelu: x = in0 (+ in1); x/2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
//                swiglu: (g, u) = (in0 (+ in1)) along `gate`; g sigmoid(g) u
//                gated_silu, gated_gelu, gated_sigmoid: silu(in0) in1, gelu(in0) in1, sigmoid(in0) in1; their
//                backwards: in = gradient, in0, in1, out = gradients of both, or of the one in constants[0]
//                gelu_backward, swiglu_backward: in = gradient, in0, (in1); out0 = gradient of in0
//                relu, squared_relu; their backwards from gradient and output
//                soft_cap: cap tanh(in0 / cap), constants = {cap}; its backward from gradient and output
//                scale: out0 = in0 x constants[0]
//                clip: out0 = in0, but no more than constants[0] and no less than -constants[0];
//                clip_backward: in = gradient, in0; out0 = gradient where in0 is within both, else 0
//                scale_queries, of packed q, k, v: out0 = in0, of every query x (1 + constants[0] x
//                log(1 + floor((position + 1) / constants[1]))); the gradient's likewise
//                flash: joins two results of ATTENTION over different keys: in = o, l, o', l'; out1 = L =
//                log(exp(l) + exp(l')), out0 = exp(l - L) o + exp(l' - L) o'
//                rope: constants = {base, turned share}; of every query and key the first r = share x
//                head_dim elements (i, i + r/2) turn by position x base^(-2 i / r); v is copied. Of queries
//                [batch, sequence, kv_heads, qk_dim] the last r elements turn
//                mla_rope: in0 = [batch, sequence, kv_heads, nope + v_dim], in1 = [batch, sequence, r];
//                out0 = every head's first nope elements of in0, then in1 turned as by rope; out1 = the
//                last v_dim of in0; constants = {base}. mla_rope_backward: in = gradients of both
//                split: out0.. = in0's last dimension, one behind the other, or with constants = {i} only
//                the ith of parts that are alike; concat: the reverse. Of packed
//                q, k, v: out0 = q, out1 = k and v [.., key_value, head_dim]
//                tanh; its backward from gradient and output
//                cast: out0 = in0
//                log_loss: in0 = (sum of exponentials, target), in1 = row maximum; out0 = log(sum) - target.
//                The model's loss has the mean over the rows of the step, by constants[0] where there is one
// REDUCE         out0 (+)= sum, or out0 = max, of in0 over the dimensions that out0 lacks; of `vocab` only
//                what is no padding
//                sum_squares: out0 = sum over all inputs, which are (shards of) gradient buckets, of each
//                element's square by the number of ranks of the plan that count it too, so that the sum over
//                all ranks counts it once
// GATHER         in0 = table [rows, hidden], in1 = int64 indices: out0 = rows, zero where another rank has
//                them; in1 = an activation x: out0 = x + row of each position, constants = {first row}
// SCATTER        the gradient of GATHER's table: out0 (+)= rows of in0 by in1, or by position; fixed order
// CROSS_ENTROPY  in0 = logits [.., vocab], in1 = row maximum, in2 = labels: out0 [.., 2] = (sum over the
// rank's
//                columns of exp(logit - maximum), target's logit - maximum or 0 if another rank has it)
// CROSS_ENTROPY_BACKWARD  in = out0 (summed over ranks), maximum, logits, labels;
//                out0 = (exp(logit - maximum) / sum - [column is label]) / rows of the step, by constants[0]
//                where there is one; padding: 0
// OPTIMIZER      in0 = gradients, out0 = weights, then adam: exp_avg, exp_avg_sq (, main weights); all flat.
//                Where the weights are not read there are main weights, and out0 is a copy of them.
//                constants = {clip, rate, beta1, beta2, epsilon, decay, momentum}, which Hyperparameters has
//                as the run wants them. Where clip > 0 the last input is the sum of squares of all gradients,
//                which are scaled by min(1, clip / (sqrt(sum) + 1e-6)).
//                adam: Loshchilov and Hutter 2019 (AdamW), bias-corrected: m, v moments; w -= rate (m' /
//                (sqrt(v') + epsilon) + decay w). sgd: m = momentum m + g + decay w; w -= rate m
//                Outputs behind the weights: moments, main weights, and of moments in uint8 the scales of
//                their blocks (backend/quantised_moment.h).
//                adafactor (Shazeer and Stern 2018, without a first moment, beta2 = 1 - step^-0.8): in front
//                of it a REDUCE sum_squares writes the means of squares by row and by column (of a vector
//                each element's square) and another each parameter's sum of squared updates; constants go on
//                with what schedules/adafactor_parameters.h says of every parameter. Where ranks have parts
//                of a matrix the first also writes sums, which are all-reduced: summands of the means and
//                what the rank keeps of them, decayed, by the number of ranks that keep the same. So summed
//                they are the means, and the OPTIMIZER keeps the rank's.
//                w -= rate (update / max(1, its root mean square) + decay w).
//                muon (Jordan et al. 2024; Liu et al. 2025): without weights among the outputs m = momentum m
//                + g, out0 = g + momentum m; then MAP `scale` with constants {leading extent} makes matrices
//                of norm 1 with at least as many columns as rows of it (in what order rows and columns of
//                several ranks stand changes nothing), GEMMs with constants {alpha, beta} are
//                out0 = alpha in0 in1 + beta in1, MAP `cast` with constants {leading extent, factor} brings
//                the rank's part back; with weights: w -= rate (in0 + decay w).
//                On the host's stream the sum of squares is what it waits for, and no input.
// INPUT          `images`: out0 = standard normal numbers, by the sample's place in the step and the
// element's
//                in the sample; `labels` of images [batch]: a class, uniform, by the sample
//                `encoder_tokens`: another text than that of `decoder_tokens` and `labels`
// CONV           in0 = x [batch, height, width, channels], in1 = weight [channels', kernel height, kernel
//                width, channels], in2 = bias, if there; constants = {stride}. out0[b, i, j, c'] = sum over
//                k, l, c of x[b, i stride + k - pad, j stride + l - pad, c] weight[c', k, l, c], pad = (side
//                of the kernel - 1) / 2 rounded down, x = 0 outside the image convolution_input_gradient: in
//                = gradient, weight; convolution_weight_gradient: in = x, gradient, out0 (+)=
// POOL           max_pool: constants = {window, stride}; out0 = maxima of windows that lie as CONV's, out1 =
//                the pixel of each in its image (row x width + column), the first of equal ones
//                average_pool: out0 [batch, channels] = the mean over the image
// POOL_BACKWARD  in = gradient, of maxima out1; out0 = gradient of in0
// NORM           batch_norm: per channel (the last dimension) over all else of the rank's microbatch: y = (x
// -
//                mean) r weight + bias, out1 = (mean, r), r = 1 / sqrt(variance + constants[0]). Running
//                means are no part of training and not kept
// MAP            concatenate: out0 = the inputs one behind the other along the last dimension in which one
//                differs from it, a sample's rows together; an input that lacks dimensions is the same for
//                all and first. Its backward gives every input's part
//                select: of [batch, positions, ..] the first position, or where out0 has positions all behind
//                it; its backward is zero elsewhere
// LSTM           in0 = the input's share of the gates [batch, sequence, gates, cell], in1 = recurrent weight
//                [gates, cell, hidden]; gates i, f, g, o = sigmoid, sigmoid, tanh, sigmoid of in0[t] + in1
//                h[t - 1]; c[t] = f c[t - 1] + i g, out0 = h[t] = o tanh(c[t]), out1 = gates, out2 = c;
//                constants = {1}, or {-1}: the sequence is read from its end
// SCAN           in0 = z, x, B, C, dt [batch, sequence, groups, inner + inner + state + state + heads];
//                in1 = weight [groups, inner + 2 state, taps], in2 = its bias; in3 = dt's bias, in4 = log
//                decay a, in5 = skip d, all [groups, heads].
//                x, B, C = silu(bias + sum over k of weight[k] (x, B, C)[t - (taps - 1) + k]), 0 before the
//                first token; of a head's channels p and elements n: step = softplus(dt + its bias),
//                S[t] = exp(-step exp(a)) S[t - 1] + step x[p] B[n], out1 = sum over n of S[t] C[n] + d x,
//                out0 = out1 silu(z)
// SCAN_BACKWARD  in = gradient of out0, in0.., out1; out = gradients of in0.., (+)= of the parameters
// SCAN           gated_delta_rule: in0 = q, k, v, b, a of key heads [batch, sequence, heads, key + key +
// group x
//                value + group + group]; in1 = weight [heads, key + key + group x value, taps]; in2 = a's
//                bias, in3 = log decay, both [heads, group]. q, k, v = silu(sum over k of weight[k] (q, k,
//                v)[t - (taps - 1) + k]); q, k /= sqrt(q q + 1e-6), likewise; of a value head: g = -exp(log
//                decay) softplus(a + its bias), beta = sigmoid(b), S[t] = exp(g) S[t - 1] + k u, u = beta (v
//                - k exp(g) S[t - 1]), out0 = q S[t] / sqrt(key). Kept by value heads: out1 = q, k, v [..,
//                key + key + value], out2 = rows of the inverse of a chunk of 64 tokens
//                (backend/cpu/delta_chunk.h: A), out3 = reciprocal norms of q and k, sum of g within the
//                chunk
// SCAN_BACKWARD  gated_delta_rule: in = gradient of out0, in0.., out1..; out as of the other
// LSTM_BACKWARD  in = gradient of h, in1, out1, out2; out0 = gradient of in0. The weight's is a GEMM of that
//                and h whose constants are the LSTM's: position t meets h[t - 1], the first one nothing
// ATTENTION      of one head over values that are no heads': in0 = q [batch, target, .., head_dim], in1 = k
//                [batch, source, .., head_dim], in2 = v [batch, source, width]; out0 [batch, target, width],
//                out1 = probabilities. Backward: in = gradient, in0.., out1; out = gradients of in0..
// COPY           operands of other names and equal extents: element by element; of several operands each to
//                its own, also from one memory space to another
// PUSH, PULL     a bucket in as many equal pieces as there are servers: PUSH adds at server j, in the
// workers'
//                order, what the workers have of piece j; PULL hands every worker each server's piece
//
// Mixtures of experts. How many rows an experts' buffer [experts, capacity, ...] has is known when tokens are
// routed: it is a list of rows (backend/expert_rows.h) whose length is its extent, not the plan's number.
// Rows lie by expert, then token (batch, then sequence), whoever has them; a dispatch makes the list, an
// exchange moves and a COPY selects rows, whatever else writes such a buffer takes the list of its input.
// Before an exchange its members tell one another which rows they send. A kernel that is none of those below
// runs expert by expert: GEMM over [experts, capacity, ...] is a product for each expert.
//
// ROUTE          in0 = logits [batch, sequence, expert_scores], in1, if there: a bias b of the choice.
//                Scores s = softmax or sigmoid of the logits. A token's choices are the topk largest s + b,
//                the largest first, of equals the expert with the lower number; with groups only experts of
//                its best groups, a group's worth being the sum of its so many largest s + b.
//                out0 = weights [.., topk]: the s of the chosen, divided by their sum or not, x scaling;
//                out1 = the chosen experts, int32.
//                constants = {1: sigmoid, 1: divided by the sum, scaling, groups (0: none), groups to choose
//                from, experts that make a group's worth, balance, parts, zigzag, 1: each sequence by
//                itself}; parts of the rank's sequence: backend/sequence_parts.h
// ROUTE_BACKWARD in = gradient of out0, logits, out1; out0 = gradient of the logits. With balance also that
//                of balance x experts / (topk tokens) x sum over e of (choices of e) x (mean of s[e] / sum of
//                s), over the tokens that the rank has of a microbatch (of each part, of each sequence), by
//                their share of the step's tokens. The loss that is told has no part of it
// GATHER         dispatch: in0 = tokens [batch, sequence, hidden], in1 = out1 of ROUTE: a row for each choice
//                whose expert the rank's part of out0 has. constants = {parts, zigzag}: an expert has as many
//                rows as the plan says, an equal number for each part of the rank's sequence; the first
//                choices by token take them, further ones are dropped, rows left over are zero.
//                constants = {parts, zigzag, S, C}: C rows of an expert for every S tokens of a part. With
//                in2 = out1 of MAP dispatch_masks rows are the product of that and in0
//                combine: in0 = rows, in1, in2 = out0, out1 of ROUTE: out0 = each token's rows that the rank
//                has, x their weights, summed in the order of its choices; in1 may be out0 of MAP
//                dispatch_masks, constants as of the dispatch
//                Between [experts, node_rows, ..], where a token's choices of one node are one row, gpu_rows
//                and capacity: dispatch repeats rows, or, to [experts, capacity, one] from [.., topk], the
//                number of the row's own choice; combine sums them, x in1 [experts, gpu_rows, topk] if it is
//                there; combine of rows of nodes or GPUs with in1 = out1 of ROUTE sums without weights
// SCATTER        dispatch: in = gradient of the rows, in1; out0 = each token's rows summed, in that order
//                combine: in = gradient of the tokens, in0..; out0 = gradient of the rows, zero for empty
//                ones, out1 = of the weights, zero where the rank has no row
// REDUCE         in0 = out1 of ROUTE, out0 [expert_scores] (+)= (choices of each expert - their mean over all
//                experts) / tokens of the step. It stands for the gradient of the choice's bias, so that an
//                overloaded expert's falls: with Adam at first by the learning rate (DeepSeek-V3, 2.1.2)
// MAP            weigh_rows: out0 = in0 x in1, one in1 per row; its backward: in = gradient, out0, in1; out =
//                gradients of in0 and in1, those that are wanted; that of a weight of 0 is 0
//                scale_rows: the same; its backward: in = gradient, in0, in1
// MAP            dispatch_masks: in0, in1 = out0, out1 of ROUTE, constants as of the dispatch: out0, out1
//                [batch, sequence, experts x C] = weight, and 1, at row c of expert e, place e x C + c, where
//                a token of S has it; 0 elsewhere. Backward: in = gradient of out0, in1; out0 = of in0.
//                Kernels that read a mask leave out what is 0
// MAP            sigmoid_gate: out0 = in0 x sigmoid(in1), one in1 per row; its backward: in = gradient, in0,
//                in1, out = gradients of both
// Collectives    every member has a part of a tensor and wants a part: all_reduce and reduce_scatter add (or
//                take the maximum of) the members' values in the group's order, all_gather and all_to_all
//                take each element from the member that has it. A bucket's shard is the group member's place
//                in the group's order. The order: pipeline ranks first, then axes, the first axis outermost.
// SEND, RECV     buffers in order, to and from the rank with the same mesh coordinates
namespace simrun {

// One operand of a call on one rank.
struct Argument {
  const Buffer* buffer = nullptr;
  TensorPart part;       // of the rank, by dimension; part[d].extent: the extents to run with
  void* data = nullptr;  // nullptr where the device has no memory
  // Of an experts' buffer on a device with memory: its rows. Part [1, rows, ...] then counts them all.
  SharedRows rows = nullptr;
  const ExpertRow* of_expert = nullptr;  // where a kernel runs for one of its experts: this one's rows
};

// A parameter's elements within a flat buffer (a bucket or a rank's shard of one).
struct CountedRange {
  std::int64_t begin = 0, count = 0;
  double share = 1;  // 1 / number of ranks that count the same elements
};

class TextData;

// Numbers of training that no cost depends on (backend/hyperparameters.h takes them from a plan).
struct Hyperparameters {
  std::uint64_t seed = 0;
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double weight_decay = 0.1;       // of every parameter
  double momentum = 0.9;           // sgd
  const TextData* text = nullptr;  // whose bytes are the tokens; none: tokens are drawn
};

// One instruction, bound to a rank's memory.
struct KernelCall {
  const Plan& plan;
  const Instruction& what;
  std::vector<Argument> inputs, outputs;
  std::int64_t microbatch = 0;
  std::int64_t step = 0;  // from 0; of a run that goes on from a checkpoint, from where that was saved
  const Hyperparameters& training;
  std::vector<std::vector<CountedRange>> counted = {};  // sum_squares: by input
};

// Rows that a loss takes the mean over: those of its logits [.., classes], or of the losses [..], in all
// microbatches of the step.
inline double rows_of_step(const Plan& plan, const TensorPart& part, bool has_classes) {
  auto rows = static_cast<double>(plan.job.microbatches);
  for (std::size_t d = 0; d + (has_classes ? 1 : 0) < part.size(); ++d)
    rows *= static_cast<double>(part[d].whole);
  return rows;
}
// Of a loss in the model's.
inline double weight_of_loss(const Instruction& what) {
  return what.constants.empty() ? 1 : what.constants.front();
}

}  // namespace simrun
