#include "tests/backend/scalar_model.h"

#include <cmath>
#include <functional>
#include <numbers>

#include "tests/backend/scalar_tape.h"

namespace simrun {
namespace {

using Number = ScalarTape::Number;
using Row = std::vector<Number>;

class ScalarModel {
 public:
  ScalarModel(const ModelConfig& model, const ScalarParameters& parameters) : model_(model) {
    for (const auto& [key, values] : parameters)
      for (const double value : values) parameters_[key].push_back(tape_.constant(value));
  }

  ScalarStep step(const std::vector<std::vector<std::int64_t>>& tokens,
                  const std::vector<std::vector<std::int64_t>>& labels) {
    Row losses;
    for (std::size_t sample = 0; sample < tokens.size(); ++sample) {
      const std::vector<Row> states = forward(tokens[sample]);
      for (std::size_t t = 0; t < states.size(); ++t) losses.push_back(loss(states[t], labels[sample][t]));
    }
    const Number mean = tape_.scaled(sum(losses), 1 / static_cast<double>(losses.size()));
    ScalarStep result{tape_.value(mean), {}};
    const std::vector<double> gradients = tape_.gradients(mean);
    for (const auto& [key, numbers] : parameters_)
      for (const Number number : numbers) result.gradients[key].push_back(gradients[number.node]);
    return result;
  }

 private:
  std::vector<Row> forward(const std::vector<std::int64_t>& tokens) {
    std::vector<Row> states;
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      Row x = table_row("word_embeddings", tokens[t]);
      if (model_.position_embedding == PositionEmbedding::learned_absolute)
        x = added(x, table_row("position_embeddings", static_cast<std::int64_t>(t)));
      states.push_back(x);
    }
    for (std::int32_t layer = 0; layer < model_.num_layers; ++layer) {
      layer_ = layer;
      std::vector<Row> normed;
      for (const Row& x : states) normed.push_back(norm("input_norm", x));
      const std::vector<Row> attended = attention(normed);
      for (std::size_t t = 0; t < states.size(); ++t) {
        states[t] = added(states[t], attended[t]);
        states[t] = added(states[t], feed_forward(norm("mlp_norm", states[t])));
      }
    }
    layer_ = -1;
    for (Row& x : states) x = norm("final_norm", x);
    return states;
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
  Row product(const std::string& name, const Row& x) {
    const Row& weight = parameter(name + "_weight");
    const std::size_t out = weight.size() / x.size();
    Row y;
    for (std::size_t o = 0; o < out; ++o) {
      Row column;
      for (std::size_t i = 0; i < x.size(); ++i) column.push_back(weight[i * out + o]);
      y.push_back(dot(x, column));
    }
    return has(name + "_bias") ? added(y, parameter(name + "_bias")) : y;
  }

  Row norm(const std::string& name, const Row& x) {
    const auto n = static_cast<double>(x.size());
    Row centred = x;
    if (model_.normalization == Normalization::layer_norm) {
      const Number mean = tape_.scaled(sum(x), 1 / n);
      for (Number& value : centred) value = tape_.minus(value, mean);
    }
    const Number variance = tape_.scaled(dot(centred, centred), 1 / n);
    const Number scale = tape_.power(tape_.shifted(variance, model_.norm_epsilon), -0.5);
    const Row& weight = parameter(name + "_weight");
    Row y;
    for (std::size_t i = 0; i < x.size(); ++i)
      y.push_back(tape_.times(tape_.times(centred[i], scale), weight[i]));
    return has(name + "_bias") ? added(y, parameter(name + "_bias")) : y;
  }

  // RoFormer's rotation of the pairs (i, i + d / 2) by position x base^(-2 i / d).
  Row rotated(const Row& x, std::size_t position) {
    if (model_.position_embedding != PositionEmbedding::rope) return x;
    const std::size_t half = x.size() / 2;
    Row y = x;
    for (std::size_t i = 0; i < half; ++i) {
      const double angle =
          static_cast<double>(position) *
          std::pow(model_.rope_base, -2 * static_cast<double>(i) / static_cast<double>(x.size()));
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

  std::vector<Row> attention(const std::vector<Row>& normed) {
    const auto kv_heads = static_cast<std::size_t>(model_.num_key_value_heads);
    const auto group = static_cast<std::size_t>(model_.num_attention_heads) / kv_heads;
    const auto d = static_cast<std::size_t>(model_.head_dim);
    std::vector<Row> packed;
    for (const Row& y : normed) packed.push_back(product("qkv", y));
    std::vector<Row> out;
    for (std::size_t t = 0; t < normed.size(); ++t) {
      Row context;
      for (std::size_t head = 0; head < kv_heads; ++head)
        for (std::size_t g = 0; g < group; ++g) {
          const Row query = rotated(part(packed[t], head * (group + 2) + g, d), t);
          std::vector<Row> keys, values;
          for (std::size_t j = 0; j <= t; ++j) {
            keys.push_back(rotated(part(packed[j], head * (group + 2) + group, d), j));
            values.push_back(part(packed[j], head * (group + 2) + group + 1, d));
          }
          const Row of_head = attended(query, keys, values);
          context.insert(context.end(), of_head.begin(), of_head.end());
        }
      out.push_back(product("attention_projection", context));
    }
    return out;
  }

  Row attended(const Row& query, const std::vector<Row>& keys, const std::vector<Row>& values) {
    Row weights;
    for (const Row& key : keys)
      weights.push_back(
          tape_.exp(tape_.scaled(dot(query, key), 1 / std::sqrt(static_cast<double>(query.size())))));
    const Number normaliser = tape_.power(sum(weights), -1);
    Row out;
    for (std::size_t i = 0; i < query.size(); ++i) {
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

  Row feed_forward(const Row& y) {
    const Row up = product("fc1", y);
    Row activated;
    if (model_.activation == Activation::swiglu) {
      const Row gate = part(up, 0, up.size() / 2), value = part(up, 1, up.size() / 2);
      for (std::size_t i = 0; i < gate.size(); ++i)
        activated.push_back(tape_.times(tape_.times(gate[i], sigmoid(gate[i])), value[i]));
    } else {
      for (const Number x : up) activated.push_back(gelu(x));
    }
    return product("fc2", activated);
  }

  Number loss(const Row& state, std::int64_t label) {
    const std::string table = model_.tie_word_embeddings ? "word_embeddings" : "output_weight";
    Row exponentials;
    Number target{};
    for (std::int64_t word = 0; word < model_.vocab_size; ++word) {
      const Number logit = dot(state, table_row(table, word));
      exponentials.push_back(tape_.exp(logit));
      if (word == label) target = logit;
    }
    return tape_.minus(tape_.log(sum(exponentials)), target);
  }

  const ModelConfig& model_;
  ScalarTape tape_;
  std::map<ParameterKey, Row> parameters_;
  std::int32_t layer_ = -1;
};

}  // namespace

ScalarStep scalar_step(const ModelConfig& model, const ScalarParameters& parameters,
                       const std::vector<std::vector<std::int64_t>>& tokens,
                       const std::vector<std::vector<std::int64_t>>& labels) {
  return ScalarModel(model, parameters).step(tokens, labels);
}

}  // namespace simrun
