#include "tests/backend/scalar_model.h"

#include <cmath>
#include <utility>

#include "tests/backend/scalar_experts.h"
#include "tests/backend/scalar_math.h"

namespace simrun {
namespace {

class ScalarDecoder {
 public:
  ScalarDecoder(const ModelConfig& model, const ScalarParameters& parameters, double capacity_factor)
      : model_(model), m_(model, parameters), experts_(model, m_, capacity_factor) {}

  ScalarStep step(const Row& losses) { return m_.step(losses, experts_.balance_losses(samples_)); }

  Row losses(const ScalarText& tokens, const ScalarText& labels) {
    Row losses;
    samples_ = tokens.size();
    for (std::size_t sample = 0; sample < tokens.size(); ++sample) {
      const std::vector<Row> states = forward(tokens[sample]);
      for (std::size_t t = 0; t < states.size(); ++t) losses.push_back(m_.loss(states[t], labels[sample][t]));
    }
    return losses;
  }

 private:
  std::vector<Row> forward(const std::vector<std::int64_t>& tokens) {
    std::vector<Row> states;
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      Row x = m_.multiplied(m_.table_row("word_embeddings", tokens[t]), model_.embedding_multiplier);
      if (model_.position_embedding == PositionEmbedding::learned_absolute)
        x = m_.added(x, m_.table_row("position_embeddings", static_cast<std::int64_t>(t)));
      states.push_back(x);
    }
    for (std::int32_t layer = 0; layer < model_.num_layers; ++layer) {
      m_.enter(layer);
      kind_ = model_.layer_kind(layer);
      if (kind_.has_experts) experts_.begin_layer(tokens.size());
      std::vector<Row> normed;
      for (const Row& x : states) normed.push_back(before("input_norm", x));
      const std::vector<Row> attended = model_.mla.on() ? latent_attention(normed) : attention(normed);
      for (std::size_t t = 0; t < states.size(); ++t) {
        const Row& x = states[t];
        const Row sum = m_.added(x, behind("attention_output_norm", attended[t]));
        const Row y = !model_.parallel_residual ? before("mlp_norm", sum)
                      : model_.shared_norm      ? normed[t]
                                                : before("mlp_norm", x);
        states[t] = m_.added(
            sum, behind("mlp_output_norm", kind_.has_experts ? experts_.of_token(y) : m_.feed_forward(y)));
      }
    }
    m_.enter(-1);
    for (Row& x : states) x = m_.norm("final_norm", x);
    return states;
  }

  Row before(const char* name, const Row& x) {
    return model_.norm_placement == NormPlacement::output ? x : m_.norm(name, x);
  }
  Row behind(const char* name, const Row& x) {
    return m_.multiplied(model_.norm_placement == NormPlacement::pre ? x : m_.norm(name, x),
                         model_.residual_multiplier);
  }

  // What a layer does to a query or key by its position.
  Row turned(const Row& row, std::size_t at, bool is_query) {
    const double base =
        kind_.window > 0 && model_.window_rope_base > 0 ? model_.window_rope_base : model_.rope_base;
    if (kind_.has_rope) return m_.rotated(row, at, base);
    const auto [factor, step] = model_.query_temperature;
    const auto steps = (static_cast<std::int64_t>(at) + 1) / step;
    return is_query ? m_.multiplied(row, 1 + factor * std::log(1 + static_cast<double>(steps))) : row;
  }

  // The first token that one at `at` attends to.
  std::size_t first_key(std::size_t at) const {
    const auto window = static_cast<std::size_t>(kind_.window);
    if (window == 0) return 0;
    if (model_.chunked_windows) return at - at % window;
    return at < window ? 0 : at + 1 - window;
  }

  std::vector<Row> attention(const std::vector<Row>& normed) {
    const auto kv_heads = static_cast<std::size_t>(model_.num_key_value_heads);
    const auto group = static_cast<std::size_t>(model_.num_attention_heads) / kv_heads;
    const auto d = static_cast<std::size_t>(model_.head_dim);
    std::vector<Row> packed;
    for (const Row& y : normed) packed.push_back(with_normed_heads(with_clipped_heads(m_.product("qkv", y))));
    const double scale =
        model_.attention_scale > 0 ? model_.attention_scale : 1 / std::sqrt(static_cast<double>(d));
    std::vector<Row> out;
    for (std::size_t t = 0; t < normed.size(); ++t) {
      Row context;
      for (std::size_t head = 0; head < kv_heads; ++head)
        for (std::size_t g = 0; g < group; ++g) {
          const Row query = turned(m_.part(packed[t], head * (group + 2) + g, d), t, true);
          std::vector<Row> keys, values;
          for (std::size_t j = first_key(t); j <= t; ++j) {
            keys.push_back(turned(m_.part(packed[j], head * (group + 2) + group, d), j, false));
            values.push_back(m_.part(packed[j], head * (group + 2) + group + 1, d));
          }
          const Row of_head = m_.attended(query, keys, values, {scale});
          context.insert(context.end(), of_head.begin(), of_head.end());
        }
      out.push_back(m_.product("attention_projection", context));
    }
    return out;
  }

  Row with_clipped_heads(Row packed) {
    return model_.qkv_clip > 0 ? m_.clipped(std::move(packed), model_.qkv_clip) : packed;
  }

  // Of packed queries, keys and values: queries and keys normed, each head alone with the weight of all
  // queries or keys (Qwen3), its own (Command R+) or none (Llama 4), or those of all heads together (OLMo 2).
  Row with_normed_heads(Row packed) {
    const QkNorm norm = model_.qk_norm;
    if (norm == QkNorm::none || (norm == QkNorm::unweighted && !kind_.has_rope)) return packed;
    const auto kv_heads = static_cast<std::size_t>(model_.num_key_value_heads);
    const auto group = static_cast<std::size_t>(model_.num_attention_heads) / kv_heads;
    const auto d = static_cast<std::size_t>(model_.head_dim);
    const bool has_own = norm == QkNorm::of_all_heads || norm == QkNorm::by_head;
    for (const bool is_key : {false, true}) {
      Row values, weight;
      std::vector<std::size_t> places;
      for (std::size_t head = 0; head < kv_heads; ++head)
        for (std::size_t g = is_key ? group : 0; g < (is_key ? group + 1 : group); ++g)
          for (std::size_t i = 0; i < d; ++i) {
            places.push_back((head * (group + 2) + g) * d + i);
            values.push_back(packed[places.back()]);
            if (norm == QkNorm::unweighted) continue;
            weight.push_back(m_.parameter(
                "qk_norm_weight")[has_own ? (head * (group + 1) + g) * d + i : (is_key ? d : 0) + i]);
          }
      const std::size_t together = norm == QkNorm::of_all_heads ? values.size() : d;
      for (std::size_t begin = 0; begin < values.size(); begin += together) {
        const Row x = piece(values, begin, together),
                  w = weight.empty() ? Row() : piece(weight, begin, together);
        const Row normed = norm == QkNorm::by_head ? m_.layer_norm(x, w) : m_.rms_norm(x, w);
        for (std::size_t i = 0; i < together; ++i) packed[places[begin + i]] = normed[i];
      }
    }
    return packed;
  }

  // DeepSeek-V2, section 2.1, equations 37-47: all heads' keys and values from one compressed vector, and one
  // part of the keys that carries the position for all.
  std::vector<Row> latent_attention(const std::vector<Row>& normed) {
    const MlaConfig& mla = model_.mla;
    const auto lora = static_cast<std::size_t>(mla.kv_lora_rank);
    const auto nope = static_cast<std::size_t>(mla.qk_nope_head_dim);
    const auto rope = static_cast<std::size_t>(mla.qk_rope_head_dim);
    const auto v = static_cast<std::size_t>(mla.v_head_dim);
    std::vector<Row> queries, shared_keys, ups;
    for (std::size_t t = 0; t < normed.size(); ++t) {
      const Row q = mla.q_lora_rank > 0 ? m_.norm("q_down_norm", m_.product("q_down", normed[t])) : normed[t];
      queries.push_back(m_.product("q_up", q));
      const Row down = m_.product("kv_down", normed[t]);
      ups.push_back(m_.product("kv_up", m_.norm("kv_down_norm", piece(down, 0, lora))));
      shared_keys.push_back(m_.rotated(piece(down, lora, rope), t, model_.rope_base));
    }
    std::vector<Row> out;
    for (std::size_t t = 0; t < normed.size(); ++t) {
      Row context;
      for (std::size_t h = 0; h < static_cast<std::size_t>(model_.num_attention_heads); ++h) {
        const std::size_t q_begin = h * (nope + rope), kv_begin = h * (nope + v);
        const Row query = joined(piece(queries[t], q_begin, nope),
                                 m_.rotated(piece(queries[t], q_begin + nope, rope), t, model_.rope_base));
        std::vector<Row> keys, values;
        for (std::size_t j = 0; j <= t; ++j) {
          keys.push_back(joined(piece(ups[j], kv_begin, nope), shared_keys[j]));
          values.push_back(piece(ups[j], kv_begin + nope, v));
        }
        const double scale = 1 / std::sqrt(static_cast<double>(nope + rope));
        context = joined(std::move(context), m_.attended(query, keys, values, {scale}));
      }
      out.push_back(m_.product("attention_projection", context));
    }
    return out;
  }

  static Row piece(const Row& row, std::size_t begin, std::size_t count) {
    const auto first = row.begin() + static_cast<std::ptrdiff_t>(begin);
    return {first, first + static_cast<std::ptrdiff_t>(count)};
  }
  static Row joined(Row a, const Row& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }

  const ModelConfig& model_;
  ScalarMath m_;
  ScalarExperts experts_;
  std::size_t samples_ = 0;
  LayerKind kind_;  // of the layer at hand
};

}  // namespace

ScalarStep scalar_step(const ModelConfig& model, const ScalarParameters& parameters, const ScalarText& tokens,
                       const ScalarText& labels, double capacity_factor) {
  ScalarDecoder decoder(model, parameters, capacity_factor);
  return decoder.step(decoder.losses(tokens, labels));
}

}  // namespace simrun
