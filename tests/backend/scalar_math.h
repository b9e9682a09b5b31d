#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <numbers>
#include <string>
#include <vector>

#include "tests/backend/scalar_model.h"
#include "tests/backend/scalar_tape.h"

namespace simrun {

using Number = ScalarTape::Number;
using Row = std::vector<Number>;

// What is done to the product of a query and its keys.
struct ScalarScores {
  double scale = 1;
  Row biases = {};  // by key; none: 0
};

// Of several experts' parameters those of one.
struct OfScalarExpert {
  std::size_t number = 0, experts = 1;
};

// Rows of scalars on a tape, and what transformers are made of by their papers' formulas. Parameters are
// those of layer `layer_`.
class ScalarMath {
 public:
  ScalarMath(const ModelConfig& model, const ScalarParameters& parameters) : model_(model) {
    for (const auto& [key, values] : parameters)
      for (const double value : values) parameters_[key].push_back(tape_.constant(value));
  }

  void enter(std::int32_t layer) { layer_ = layer; }
  ScalarTape& tape() { return tape_; }

  // The mean of losses of tokens, and the gradients of it and of what is added to it.
  ScalarStep step(const Row& losses, const Row& added_losses = {}) {
    const Number mean = tape_.scaled(sum(losses), 1 / static_cast<double>(losses.size()));
    ScalarStep result{tape_.value(mean), {}};
    Number total = mean;
    for (const Number loss : added_losses) total = tape_.plus(total, loss);
    const std::vector<double> gradients = tape_.gradients(total);
    for (const auto& [key, numbers] : parameters_)
      for (const Number number : numbers) result.gradients[key].push_back(gradients[number.node]);
    return result;
  }

  const Row& parameter(const std::string& name) const { return parameters_.at({layer_, name}); }
  bool has(const std::string& name) const { return parameters_.contains({layer_, name}); }

  Row table_row(const std::string& name, std::int64_t row) const {
    const Row& table = parameter(name);
    const auto width = static_cast<std::ptrdiff_t>(model_.hidden_size);
    return {table.begin() + row * width, table.begin() + (row + 1) * width};
  }

  Number sum(const Row& row) {
    Number total = row.front();
    for (std::size_t i = 1; i < row.size(); ++i) total = tape_.plus(total, row[i]);
    return total;
  }
  Row added(const Row& a, const Row& b) {
    Row out;
    for (std::size_t i = 0; i < a.size(); ++i) out.push_back(tape_.plus(a[i], b[i]));
    return out;
  }
  Number dot(const Row& a, const Row& b) {
    Row products;
    for (std::size_t i = 0; i < a.size(); ++i) products.push_back(tape_.times(a[i], b[i]));
    return sum(products);
  }

  // x W (+ bias), W [x.size(), out].
  Row product(const std::string& name, const Row& x, OfScalarExpert of = {}) {
    const Row& all = parameter(name + "_weight");
    const Row weight = part(all, of.number, all.size() / of.experts);
    const std::size_t out = weight.size() / x.size();
    Row y;
    for (std::size_t o = 0; o < out; ++o) {
      Row column;
      for (std::size_t i = 0; i < x.size(); ++i) column.push_back(weight[i * out + o]);
      y.push_back(dot(x, column));
    }
    return has(name + "_bias") ? added(y, part(parameter(name + "_bias"), of.number, out)) : y;
  }

  // x / sqrt(mean of squares + epsilon) x weight; without one, weights are 1.
  Row rms_norm(const Row& x, const Row& weight) {
    const Number square = tape_.scaled(dot(x, x), 1 / static_cast<double>(x.size()));
    const Number scale = tape_.power(tape_.shifted(square, model_.norm_epsilon), -0.5);
    Row y;
    for (std::size_t i = 0; i < x.size(); ++i) {
      y.push_back(tape_.times(x[i], scale));
      if (!weight.empty()) y.back() = tape_.times(y.back(), weight[i]);
    }
    return y;
  }
  // The same of what x is above its mean.
  Row layer_norm(Row x, const Row& weight) {
    const Number mean = tape_.scaled(sum(x), 1 / static_cast<double>(x.size()));
    for (Number& value : x) value = tape_.minus(value, mean);
    return rms_norm(x, weight);
  }

  Row norm(const std::string& name, const Row& x) {
    const Row weight = model_.norm_weight ? parameter(name + "_weight") : Row();
    const Row y =
        model_.normalization == Normalization::layer_norm ? layer_norm(x, weight) : rms_norm(x, weight);
    return has(name + "_bias") ? added(y, parameter(name + "_bias")) : y;
  }

  Row multiplied(Row x, double factor) {
    for (Number& value : x) value = tape_.scaled(value, factor);
    return x;
  }
  // What is beyond the bound becomes it, and has no gradient.
  Row clipped(Row x, double bound) {
    for (Number& value : x)
      if (std::abs(tape_.value(value)) > bound)
        value = tape_.constant(std::copysign(bound, tape_.value(value)));
    return x;
  }

  // RoFormer's rotation of the pairs (i, i + d / 2) of the first d elements by position x base^(-2 i / d).
  // They are the turned share of x.
  Row rotated(const Row& x, std::size_t position, double base) {
    if (model_.position_embedding != PositionEmbedding::rope) return x;
    const auto half =
        static_cast<std::size_t>(model_.rotary_share * static_cast<double>(x.size()) + 1e-6) / 2;
    const auto d = static_cast<double>(2 * half);
    Row y = x;
    for (std::size_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(position) * std::pow(base, -2 * static_cast<double>(i) / d);
      const double c = std::cos(angle), s = std::sin(angle);
      y[i] = tape_.minus(tape_.scaled(x[i], c), tape_.scaled(x[i + half], s));
      y[i + half] = tape_.plus(tape_.scaled(x[i], s), tape_.scaled(x[i + half], c));
    }
    return y;
  }

  Row part(const Row& row, std::size_t index, std::size_t size) const {
    const auto begin = row.begin() + static_cast<std::ptrdiff_t>(index * size);
    return {begin, begin + static_cast<std::ptrdiff_t>(size)};
  }

  Row attended(const Row& query, const std::vector<Row>& keys, const std::vector<Row>& values,
               const ScalarScores& scores) {
    Row weights;
    for (std::size_t j = 0; j < keys.size(); ++j) {
      Number score = tape_.scaled(dot(query, keys[j]), scores.scale);
      if (!scores.biases.empty()) score = tape_.plus(score, scores.biases[j]);
      weights.push_back(tape_.exp(score));
    }
    const Number normaliser = tape_.power(sum(weights), -1);
    Row out;
    for (std::size_t i = 0; i < values.front().size(); ++i) {
      Row terms;
      for (std::size_t j = 0; j < keys.size(); ++j) terms.push_back(tape_.times(weights[j], values[j][i]));
      out.push_back(tape_.times(sum(terms), normaliser));
    }
    return out;
  }

  Number sigmoid(Number x) { return tape_.power(tape_.shifted(tape_.exp(tape_.scaled(x, -1)), 1), -1); }

  // Hendrycks and Gimpel 2016's approximation by tanh, which GPT-2 uses.
  Number gelu(Number x) {
    const Number cubic = tape_.plus(x, tape_.scaled(tape_.power(x, 3), 0.044715));
    const Number t = tape_.tanh(tape_.scaled(cubic, std::sqrt(2 / std::numbers::pi)));
    return tape_.times(tape_.scaled(x, 0.5), tape_.shifted(t, 1));
  }

  Row feed_forward(const Row& y, const std::string& name = "fc", OfScalarExpert of = {}) {
    const Row up = product(name + "1", y, of);
    Row activated;
    if (is_gated(model_.activation)) {
      const bool of_silu = model_.activation == Activation::swiglu;
      const Row gate = part(up, 0, up.size() / 2), value = part(up, 1, up.size() / 2);
      for (std::size_t i = 0; i < gate.size(); ++i)
        activated.push_back(
            tape_.times(of_silu ? tape_.times(gate[i], sigmoid(gate[i])) : gelu(gate[i]), value[i]));
    } else {
      for (const Number x : up) activated.push_back(gelu(x));
    }
    return product(name + "2", activated, of);
  }

  // -log softmax of a table's rows times the state, at the label's.
  Number loss(const Row& state, std::int64_t label) {
    layer_ = -1;
    const std::string table = model_.tie_word_embeddings ? "word_embeddings" : "output_weight";
    Row exponentials;
    Number target{};
    for (std::int64_t word = 0; word < model_.vocab_size; ++word) {
      Number logit = dot(state, table_row(table, word));
      if (model_.output_bias)
        logit = tape_.plus(logit, parameter("output_bias")[static_cast<std::size_t>(word)]);
      logit = tape_.scaled(logit, model_.logit_multiplier);
      exponentials.push_back(tape_.exp(logit));
      if (word == label) target = logit;
    }
    return tape_.minus(tape_.log(sum(exponentials)), target);
  }

 private:
  const ModelConfig& model_;
  ScalarTape tape_;
  std::map<ParameterKey, Row> parameters_;
  std::int32_t layer_ = -1;
};

}  // namespace simrun
