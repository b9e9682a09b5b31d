#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include "tests/backend/scalar_math.h"

namespace simrun {

// Experts in place of an MLP, token by token, in scalars: Shazeer et al. 2017; groups and a bias of the
// choice: DeepSeek-V3, section 2.1.2.
class ScalarExperts {
 public:
  ScalarExperts(const ModelConfig& model, ScalarMath& math, double capacity_factor)
      : of_(model.experts), m_(math), capacity_factor_(capacity_factor) {}

  // Of a sample of so many tokens, which follow one after the other.
  void begin_layer(std::size_t tokens) {
    loads_.push_back(Loads(static_cast<std::size_t>(of_.count)));
    tokens_ = tokens;
  }

  Row of_token(const Row& y) {
    Loads& loads = loads_.back();
    const Row scores = scores_of(m_.product("router", y));
    const std::vector<std::size_t> order = chosen(scores);
    Row of_chosen;
    for (const std::size_t e : order) of_chosen.push_back(scores[e]);
    const Number normaliser =
        of_.normalizes_weights ? tape().power(m_.sum(of_chosen), -1) : tape().constant(1);
    const double room = std::ceil(static_cast<double>(tokens_) * static_cast<double>(of_.topk) *
                                  capacity_factor_ / static_cast<double>(of_.count));
    Row out(y.size(), tape().constant(0));
    for (const std::size_t e : order) {
      ++loads[e].choices;
      if (capacity_factor_ > 0 && loads[e].taken++ >= room) continue;
      const Number weight = tape().scaled(tape().times(scores[e], normaliser), of_.scaling);
      const Row of_expert = of_.scales_input
                                ? m_.feed_forward(times(weight, y), "expert_fc", {e, scores.size()})
                                : times(weight, m_.feed_forward(y, "expert_fc", {e, scores.size()}));
      out = m_.added(out, of_expert);
    }
    return m_.has("shared_fc1_weight") ? m_.added(out, shared(y)) : out;
  }

  // Fedus et al. 2021, equations 4 to 6, for several choices; a mean over the samples, a sum over the layers.
  Row balance_losses(std::size_t samples) {
    Row losses;
    const double choices = static_cast<double>(tokens_) * static_cast<double>(of_.topk);
    for (const Loads& loads : loads_)
      for (const Load& load : loads)
        losses.push_back(tape().scaled(
            m_.sum(load.shares), of_.balance_loss * static_cast<double>(of_.count) * load.choices / choices /
                                     static_cast<double>(tokens_) / static_cast<double>(samples)));
    return losses;
  }

 private:
  // What an expert of one layer has of one sample.
  struct Load {
    double choices = 0, taken = 0;
    Row shares;  // of every token's scores
  };
  using Loads = std::vector<Load>;

  ScalarTape& tape() { return m_.tape(); }

  Row times(Number factor, Row row) {
    for (Number& x : row) x = tape().times(factor, x);
    return row;
  }

  Row scores_of(const Row& logits) {
    Row scores;
    const bool is_sigmoid = of_.score == RouterScore::sigmoid;
    for (const Number x : logits) scores.push_back(is_sigmoid ? m_.sigmoid(x) : tape().exp(x));
    const Number all = tape().power(m_.sum(scores), -1);
    for (std::size_t e = 0; e < scores.size(); ++e) {
      const Number share = tape().times(scores[e], all);
      loads_.back()[e].shares.push_back(share);
      if (!is_sigmoid) scores[e] = share;
    }
    return scores;
  }

  using Ranking = std::multimap<double, std::size_t, std::greater<>>;

  // The experts that a token chooses, the best first.
  std::vector<std::size_t> chosen(const Row& scores) {
    std::vector<double> worth;
    for (std::size_t e = 0; e < scores.size(); ++e)
      worth.push_back(tape().value(scores[e]) +
                      (m_.has("selection_bias") ? tape().value(m_.parameter("selection_bias")[e]) : 0));
    const auto groups = static_cast<std::size_t>(of_.groups > 0 ? of_.groups : 1);
    auto open = static_cast<std::size_t>(of_.groups > 0 ? of_.topk_groups : 1);
    const std::size_t size = worth.size() / groups;
    const Ranking best_groups = ranked_groups(worth, size);
    Ranking best;
    for (auto group = best_groups.begin(); open > 0; ++group, --open)
      for (std::size_t e = group->second * size; e < (group->second + 1) * size; ++e)
        best.emplace(worth[e], e);
    std::vector<std::size_t> order;
    for (auto at = best.begin(); order.size() < static_cast<std::size_t>(of_.topk); ++at)
      order.push_back(at->second);
    return order;
  }

  Ranking ranked_groups(const std::vector<double>& worth, std::size_t size) const {
    Ranking ranking;
    for (std::size_t g = 0; g < worth.size() / size; ++g) {
      std::vector<double> group(worth.begin() + static_cast<std::ptrdiff_t>(g * size),
                                worth.begin() + static_cast<std::ptrdiff_t>((g + 1) * size));
      std::sort(group.begin(), group.end(), std::greater<>());
      double sum = 0;
      for (std::size_t i = 0; i < size && i < static_cast<std::size_t>(of_.group_best); ++i) sum += group[i];
      ranking.emplace(sum, g);
    }
    return ranking;
  }

  Row shared(const Row& y) {
    Row out = m_.feed_forward(y, "shared_fc");
    if (!m_.has("shared_gate_weight")) return out;
    const Number gate = m_.sigmoid(m_.product("shared_gate", y).front());
    for (Number& x : out) x = tape().times(x, gate);
    return out;
  }

  const ExpertConfig& of_;
  ScalarMath& m_;
  const double capacity_factor_;
  std::size_t tokens_ = 0;
  std::vector<Loads> loads_;  // by sample and layer
};

}  // namespace simrun
