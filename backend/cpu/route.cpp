#include <cmath>
#include <numeric>

#include "backend/cpu/experts.h"
#include "backend/cpu/kernels.h"
#include "backend/sequence_parts.h"

// Routers: which experts a token goes to, and with what weight.
namespace simrun::cpu {
namespace {

// Instruction::constants of ROUTE and ROUTE_BACKWARD (backend/operations.h).
struct RouterNumbers {
  explicit RouterNumbers(const KernelCall& call)
      : is_sigmoid(at(call, 0) != 0),
        normalizes(at(call, 1) != 0),
        scaling(at(call, 2)),
        groups(std::int64_t(at(call, 3))),
        topk_groups(std::int64_t(at(call, 4))),
        group_best(std::int64_t(at(call, 5))),
        balance(at(call, 6)),
        parts(std::int64_t(at(call, 7))),
        zigzag(std::int64_t(at(call, 8))),
        by_sequence(at(call, 9) != 0) {}

  bool is_sigmoid, normalizes;
  double scaling;
  std::int64_t groups, topk_groups, group_best;
  double balance;
  std::int64_t parts, zigzag;
  bool by_sequence;

 private:
  static double at(const KernelCall& call, std::size_t i) { return call.what.constants.at(i); }
};

// Scores of one token's experts.
template <class Real>
std::vector<Real> scores(const Real* logits, std::int64_t experts, bool is_sigmoid) {
  std::vector<Real> s(static_cast<std::size_t>(experts));
  if (is_sigmoid) {
    for (std::size_t e = 0; e < s.size(); ++e) s[e] = 1 / (1 + std::exp(-logits[e]));
    return s;
  }
  const Real maximum = *std::max_element(logits, logits + experts);
  Real sum = 0;
  for (std::size_t e = 0; e < s.size(); ++e) sum += s[e] = std::exp(logits[e] - maximum);
  for (Real& score : s) score /= sum;
  return s;
}

// Numbers of the `count` largest, the largest first, of equals the one with the lower number.
template <class Real>
std::vector<std::int64_t> largest(const std::vector<Real>& of, std::int64_t count) {
  std::vector<std::int64_t> order(of.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return of[static_cast<std::size_t>(a)] > of[static_cast<std::size_t>(b)];
  });
  order.resize(static_cast<std::size_t>(count));
  return order;
}

// Puts the experts of all but the best groups out of reach.
template <class Real>
void limit_groups(const RouterNumbers& numbers, std::vector<Real>& choices) {
  if (numbers.groups == 0) return;
  const std::size_t size = choices.size() / static_cast<std::size_t>(numbers.groups);
  std::vector<Real> group_scores;
  for (auto first = choices.begin(); first != choices.end(); first += static_cast<std::ptrdiff_t>(size)) {
    std::vector<Real> group(first, first + static_cast<std::ptrdiff_t>(size));
    std::sort(group.rbegin(), group.rend());
    group.resize(std::min(size, static_cast<std::size_t>(numbers.group_best)));
    group_scores.push_back(std::accumulate(group.begin(), group.end(), Real{0}));
  }
  std::vector<bool> open(group_scores.size(), false);
  for (const std::int64_t group : largest(group_scores, numbers.topk_groups))
    open[static_cast<std::size_t>(group)] = true;
  for (std::size_t e = 0; e < choices.size(); ++e)
    if (!open[e / size]) choices[e] = -std::numeric_limits<Real>::infinity();
}

// One token's choices and the gradients of their weights.
template <class Real>
struct Choices {
  const std::int32_t* experts;
  const Real* gradients;
  std::int64_t count;
};

// Adds to the gradient of one token's scores that of its weights: w = scaling s, or scaling s / sum of the
// chosen s.
template <class Real>
void add_weight_gradient(const RouterNumbers& numbers, const std::vector<Real>& s,
                         const Choices<Real>& chosen, std::vector<Real>& ds) {
  const auto expert = [&](std::int64_t k) { return static_cast<std::size_t>(chosen.experts[k]); };
  Real sum = 1, weighted = 0;
  if (numbers.normalizes) {
    sum = 0;
    for (std::int64_t k = 0; k < chosen.count; ++k) sum += s[expert(k)];
    for (std::int64_t k = 0; k < chosen.count; ++k) weighted += chosen.gradients[k] * s[expert(k)] / sum;
  }
  for (std::int64_t k = 0; k < chosen.count; ++k)
    ds[expert(k)] += static_cast<Real>(numbers.scaling) * (chosen.gradients[k] - weighted) / sum;
}

// Gradient of the logits from that of the scores.
template <class Real>
void from_scores(const std::vector<Real>& s, const std::vector<Real>& ds, bool is_sigmoid, Real* out) {
  Real mean = 0;
  if (!is_sigmoid)
    for (std::size_t e = 0; e < s.size(); ++e) mean += s[e] * ds[e];
  for (std::size_t e = 0; e < s.size(); ++e) out[e] = s[e] * (is_sigmoid ? (1 - s[e]) * ds[e] : ds[e] - mean);
}

// The balance loss's gradient of one token's scores: a[e] of its share P = s / sum(s).
template <class Real>
void add_balance_gradient(const std::vector<Real>& s, const std::vector<double>& a, bool is_sigmoid,
                          std::vector<Real>& ds) {
  const Real sum = is_sigmoid ? std::accumulate(s.begin(), s.end(), Real{0}) : 1;
  Real mean = 0;
  if (is_sigmoid)
    for (std::size_t e = 0; e < s.size(); ++e) mean += static_cast<Real>(a[e]) * s[e] / sum;
  for (std::size_t e = 0; e < s.size(); ++e) ds[e] += (static_cast<Real>(a[e]) - mean) / sum;
}

// Over which of a rank's tokens the balance loss counts: all, those of a sequence, of a part of each, or
// both.
class BalanceScopes {
 public:
  BalanceScopes(const RouterNumbers& numbers, const Argument& tokens)
      : parts_(numbers.parts),
        sequence_(tokens.part[1].extent),
        sequences_(numbers.by_sequence ? tokens.part[0].extent : 1),
        part_of_(numbers.parts, numbers.zigzag, tokens.part[1].extent) {}
  std::size_t count() const { return static_cast<std::size_t>(parts_ * sequences_); }
  std::size_t of_row(std::int64_t row) const {
    const std::int64_t sequence = sequences_ > 1 ? row / sequence_ : 0;
    return static_cast<std::size_t>(sequence * parts_ + part_of_(row % sequence_));
  }

 private:
  std::int64_t parts_, sequence_, sequences_;
  SequenceParts part_of_;
};

// balance x f[e] / tokens of the step, by scope and expert: f[e] = experts / (topk tokens) x choices of e
// among the tokens of the scope.
std::vector<std::vector<double>> balance_factors(const KernelCall& call, const RouterNumbers& numbers,
                                                 const BalanceScopes& scopes, std::int64_t experts) {
  const Argument& chosen = call.inputs[2];
  const auto* at = static_cast<const std::int32_t*>(chosen.data);
  const std::int64_t topk = last_extent(chosen), rows = rows_of(chosen);
  std::vector<std::vector<double>> factors(scopes.count(),
                                           std::vector<double>(static_cast<std::size_t>(experts)));
  const double choices = static_cast<double>(elements(chosen.part)) / static_cast<double>(scopes.count());
  const double one = numbers.balance * static_cast<double>(experts) / choices /
                     static_cast<double>(call.plan.job.tokens_per_step);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t k = 0; k < topk; ++k)
      factors[scopes.of_row(row)][static_cast<std::size_t>(at[row * topk + k])] += one;
  return factors;
}

}  // namespace

template <class Real>
void run_route(const KernelCall& call) {
  const RouterNumbers numbers(call);
  const Argument& logits = call.inputs[0];
  const std::int64_t experts = last_extent(logits), rows = rows_of(logits);
  const std::int64_t topk = last_extent(call.outputs[0]);
  const Real* bias = call.inputs.size() > 1 ? reals<Real>(call.inputs[1]) : nullptr;
  Real* weights = reals<Real>(call.outputs[0]);
  auto* chosen = static_cast<std::int32_t*>(call.outputs[1].data);
  for (std::int64_t row = 0; row < rows; ++row, weights += topk, chosen += topk) {
    const std::vector<Real> s = scores(reals<Real>(logits) + row * experts, experts, numbers.is_sigmoid);
    std::vector<Real> choices = s;
    for (std::size_t e = 0; bias != nullptr && e < choices.size(); ++e) choices[e] += bias[e];
    limit_groups(numbers, choices);
    Real sum = 0;
    const std::vector<std::int64_t> order = largest(choices, topk);
    for (const std::int64_t e : order) sum += s[static_cast<std::size_t>(e)];
    const Real scale = static_cast<Real>(numbers.scaling) / (numbers.normalizes ? sum : 1);
    for (std::size_t k = 0; k < order.size(); ++k) {
      weights[k] = scale * s[static_cast<std::size_t>(order[k])];
      chosen[k] = static_cast<std::int32_t>(order[k]);
    }
  }
}

template <class Real>
void run_route_backward(const KernelCall& call) {
  const RouterNumbers numbers(call);
  const Argument &gradient = call.inputs[0], &logits = call.inputs[1];
  const auto* chosen = static_cast<const std::int32_t*>(call.inputs[2].data);
  const std::int64_t experts = last_extent(logits), rows = rows_of(logits), topk = last_extent(gradient);
  const BalanceScopes scopes(numbers, logits);
  std::vector<std::vector<double>> balance;
  if (numbers.balance > 0) balance = balance_factors(call, numbers, scopes, experts);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::vector<Real> s = scores(reals<Real>(logits) + row * experts, experts, numbers.is_sigmoid);
    std::vector<Real> ds(s.size(), 0);
    const Choices<Real> of_token{chosen + row * topk, reals<Real>(gradient) + row * topk, topk};
    add_weight_gradient(numbers, s, of_token, ds);
    if (!balance.empty()) add_balance_gradient(s, balance[scopes.of_row(row)], numbers.is_sigmoid, ds);
    from_scores(s, ds, numbers.is_sigmoid, reals<Real>(call.outputs[0]) + row * experts);
  }
}

// How far each expert's load is above the mean, by tokens of the step.
template <class Real>
void run_expert_load(const KernelCall& call) {
  const Argument &chosen = call.inputs[0], &out = call.outputs[0];
  const auto* at = static_cast<const std::int32_t*>(chosen.data);
  const std::int64_t count = elements(chosen.part), experts = last_extent(out);
  std::vector<std::int64_t> loads(static_cast<std::size_t>(experts), 0);
  for (std::int64_t i = 0; i < count; ++i) ++loads[static_cast<std::size_t>(at[i])];
  const double one = 1 / (static_cast<double>(experts) * static_cast<double>(call.plan.job.tokens_per_step));
  Real* to = reals<Real>(out);
  for (std::int64_t e = 0; e < experts; ++e) {
    const auto above =
        static_cast<Real>(static_cast<double>(loads[static_cast<std::size_t>(e)] * experts - count) * one);
    to[e] = adds_to(call, out) ? to[e] + above : above;
  }
}

template void run_route<float>(const KernelCall&);
template void run_route<double>(const KernelCall&);
template void run_route_backward<float>(const KernelCall&);
template void run_route_backward<double>(const KernelCall&);
template void run_expert_load<float>(const KernelCall&);
template void run_expert_load<double>(const KernelCall&);

}  // namespace simrun::cpu
