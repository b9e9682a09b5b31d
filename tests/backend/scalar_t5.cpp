#include <cmath>

#include "tests/backend/scalar_math.h"

// T5 (Raffel et al. 2020, arXiv 1910.10683, section 2.1) as the graph has it: the first layer of each stack
// adds a learned bias by distance to its scores, which are not scaled.
namespace simrun {
namespace {

class ScalarT5 {
 public:
  ScalarT5(const ModelConfig& model, const ScalarParameters& parameters)
      : model_(model), m_(model, parameters) {}

  ScalarStep step(const Row& losses) { return m_.step(losses); }

  Row losses(const ScalarText& source, const ScalarText& target, const ScalarText& labels) {
    Row losses;
    for (std::size_t sample = 0; sample < source.size(); ++sample) {
      const std::vector<Row> memory = encoded(source[sample]);
      const std::vector<Row> states = decoded(target[sample], memory);
      for (std::size_t t = 0; t < states.size(); ++t) {
        const double width = static_cast<double>(model_.hidden_size);
        Row scaled;
        for (const Number x : states[t]) scaled.push_back(m_.tape().scaled(x, 1 / std::sqrt(width)));
        losses.push_back(m_.loss(scaled, labels[sample][t]));
      }
    }
    return losses;
  }

 private:
  const EncoderDecoderConfig& stacks() const { return *family_as<EncoderDecoderConfig>(model_.family); }

  std::vector<Row> embedded(const std::vector<std::int64_t>& tokens) {
    m_.enter(-1);
    std::vector<Row> states;
    for (const std::int64_t token : tokens) states.push_back(m_.table_row("word_embeddings", token));
    return states;
  }

  std::vector<Row> encoded(const std::vector<std::int64_t>& tokens) {
    std::vector<Row> states = embedded(tokens);
    const auto layers = static_cast<std::int32_t>(stacks().encoder_layers);
    for (std::int32_t layer = 0; layer < layers; ++layer) {
      m_.enter(layer);
      states = self_attended(states, layer == 0 ? "encoder_position_bias" : "", /*causal=*/false);
      states = transformed(states);
    }
    for (Row& x : states) x = m_.norm("encoder_final_norm", x);
    return states;
  }

  std::vector<Row> decoded(const std::vector<std::int64_t>& tokens, const std::vector<Row>& memory) {
    std::vector<Row> states = embedded(tokens);
    const auto first = static_cast<std::int32_t>(stacks().encoder_layers);
    for (std::int32_t layer = first; layer < model_.num_layers; ++layer) {
      m_.enter(layer);
      states = self_attended(states, layer == first ? "decoder_position_bias" : "", /*causal=*/true);
      states = cross_attended(states, memory);
      states = transformed(states);
    }
    m_.enter(-1);
    for (Row& x : states) x = m_.norm("final_norm", x);
    return states;
  }

  std::vector<Row> transformed(std::vector<Row> states) {
    for (Row& x : states) {
      Row activated;
      for (const Number up : m_.product("fc1", m_.norm("mlp_norm", x)))
        activated.push_back(m_.tape().value(up) > 0 ? up : m_.tape().constant(0));
      x = m_.added(x, m_.product("fc2", activated));
    }
    return states;
  }

  std::vector<Row> self_attended(const std::vector<Row>& states, const std::string& table, bool causal) {
    const auto d = static_cast<std::size_t>(model_.head_dim);
    std::vector<Row> packed, out;
    for (const Row& x : states) packed.push_back(m_.product("qkv", m_.norm("input_norm", x)));
    for (std::size_t t = 0; t < states.size(); ++t) {
      Row context;
      for (std::size_t h = 0; h < heads(); ++h) {
        std::vector<Row> keys, values;
        ScalarScores scores;
        for (std::size_t j = 0; j < (causal ? t + 1 : states.size()); ++j) {
          keys.push_back(m_.part(packed[j], 3 * h + 1, d));
          values.push_back(m_.part(packed[j], 3 * h + 2, d));
          const auto behind = static_cast<std::int64_t>(j) - static_cast<std::int64_t>(t);
          if (!table.empty())
            scores.biases.push_back(m_.parameter(table)[bucket(behind, causal) * heads() + h]);
        }
        const Row of_head = m_.attended(m_.part(packed[t], 3 * h, d), keys, values, scores);
        context.insert(context.end(), of_head.begin(), of_head.end());
      }
      out.push_back(m_.added(states[t], m_.product("attention_projection", context)));
    }
    return out;
  }

  std::vector<Row> cross_attended(const std::vector<Row>& states, const std::vector<Row>& memory) {
    const auto d = static_cast<std::size_t>(model_.head_dim);
    std::vector<Row> all_keys, all_values, out;
    for (const Row& x : memory) {
      all_keys.push_back(m_.product("cross_k", x));
      all_values.push_back(m_.product("cross_v", x));
    }
    for (const Row& x : states) {
      const Row q = m_.product("cross_q", m_.norm("cross_norm", x));
      Row context;
      for (std::size_t h = 0; h < heads(); ++h) {
        std::vector<Row> keys, values;
        for (std::size_t j = 0; j < memory.size(); ++j) {
          keys.push_back(m_.part(all_keys[j], h, d));
          values.push_back(m_.part(all_values[j], h, d));
        }
        const Row of_head = m_.attended(m_.part(q, h, d), keys, values, {});
        context.insert(context.end(), of_head.begin(), of_head.end());
      }
      out.push_back(m_.added(x, m_.product("cross_projection", context)));
    }
    return out;
  }

  std::size_t heads() const { return static_cast<std::size_t>(model_.num_attention_heads); }

  // Row n of a side with s rows begins at distance n in its near half, and behind it at (s / 2) x (farthest /
  // (s / 2))^((n - s / 2) / (s / 2)).
  std::size_t bucket(std::int64_t behind, bool causal) const {
    const std::int64_t side = causal ? stacks().relative_buckets : stacks().relative_buckets / 2;
    const auto near = static_cast<double>(side) / 2, distance = std::abs(static_cast<double>(behind));
    std::int64_t row = 0;
    for (std::int64_t n = 0; n < side; ++n) {
      const auto number = static_cast<double>(n);
      const double farthest = static_cast<double>(stacks().relative_distance);
      const double begins = number < near ? number : near * std::pow(farthest / near, (number - near) / near);
      if (distance >= begins) row = n;
    }
    return static_cast<std::size_t>(behind > 0 ? side + row : row);
  }

  const ModelConfig& model_;
  ScalarMath m_;
};

}  // namespace

ScalarStep scalar_t5_step(const ModelConfig& model, const ScalarParameters& parameters,
                          const ScalarText& source, const ScalarText& target, const ScalarText& labels) {
  ScalarT5 t5(model, parameters);
  return t5.step(t5.losses(source, target, labels));
}

}  // namespace simrun
