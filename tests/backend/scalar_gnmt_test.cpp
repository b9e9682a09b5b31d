#include <catch2/catch.hpp>
#include <cmath>

#include "models/philox.h"
#include "schedules/compile.h"
#include "tests/backend/checked_run.h"
#include "tests/backend/scalar_recorded_step.h"

// A step of a small GNMT cell by cell (Hochreiter and Schmidhuber 1997; Wu et al. 2016, section 3; models/
// gnmt.h), by an implementation that shares nothing with the product but the initial values and the text.
namespace simrun {
namespace {

using Number = ScalarTape::Number;
using Row = std::vector<Number>;
using Rows = std::vector<Row>;  // by position

constexpr std::size_t width = 4, words = 50, source_length = 8, target_length = 5;

class ScalarGnmt {
 public:
  explicit ScalarGnmt(TapedModel& model) : model_(model), tape_(model.tape()) {}

  // The mean of these, over all samples of the step, is the loss.
  Rows scores(const std::vector<std::size_t>& source, const std::vector<std::size_t>& target) {
    Rows x = looked_up("word_embeddings", -1, source);
    x = joined(lstm(0, "lstm", x, false), lstm(0, "reversed_lstm", x, true));
    const Rows memory = lstm(1, "lstm", x, false);
    const Rows first = lstm(2, "lstm", looked_up("decoder_word_embeddings", 2, target), false);
    const Rows last = lstm(3, "lstm", joined(first, attended(first, memory)), false);
    Rows result;
    for (const Row& row : last) {
      Row of_words;
      for (std::size_t w = 0; w < words; ++w)
        of_words.push_back(tape_.plus(model_.dot(row, model_.parameter(-1, "output_weight"), w * width, 1),
                                      model_.parameter(-1, "output_bias")[w]));
      result.push_back(std::move(of_words));
    }
    return result;
  }

 private:
  Rows looked_up(const std::string& table, std::int32_t layer, const std::vector<std::size_t>& text) {
    Rows rows;
    for (const std::size_t word : text) {
      const Row& of = model_.parameter(layer, table);
      const auto begin = of.begin() + static_cast<std::ptrdiff_t>(word * width);
      rows.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(width));
    }
    return rows;
  }

  static Rows joined(Rows a, const Rows& b) {
    for (std::size_t t = 0; t < a.size(); ++t) a[t].insert(a[t].end(), b[t].begin(), b[t].end());
    return a;
  }

  Number sigmoid(Number x) {  // = (1 + tanh(x / 2)) / 2
    return tape_.scaled(tape_.shifted(tape_.tanh(tape_.scaled(x, 0.5)), 1), 0.5);
  }

  Rows lstm(std::int32_t layer, const std::string& name, const Rows& x, bool reversed) {
    const Row &input = model_.parameter(layer, name + "_input_weight"),
              &recurrent = model_.parameter(layer, name + "_recurrent_weight"),
              &bias = model_.parameter(layer, name + "_bias");
    Row hidden(width, tape_.constant(0)), cells(width, tape_.constant(0));
    Rows states(x.size());
    for (std::size_t step = 0; step < x.size(); ++step) {
      const std::size_t t = reversed ? x.size() - 1 - step : step;
      Row next;
      for (std::size_t c = 0; c < width; ++c) {
        const auto sum = [&](std::size_t gate) {
          const std::size_t column = gate * width + c;
          return tape_.plus(bias[column], tape_.plus(model_.dot(x[t], input, column, 4 * width),
                                                     model_.dot(hidden, recurrent, column * width, 1)));
        };
        const Number written = tape_.times(sigmoid(sum(0)), tape_.tanh(sum(2)));
        cells[c] = tape_.plus(tape_.times(sigmoid(sum(1)), cells[c]), written);
        next.push_back(tape_.times(sigmoid(sum(3)), tape_.tanh(cells[c])));
      }
      states[t] = hidden = next;
    }
    return states;
  }

  // The second decoder layer reads what the first one's output finds in the encoder's.
  Rows attended(const Rows& x, const Rows& memory) {
    const Rows queries = projected(x, "query_weight"), keys = projected(memory, "key_weight");
    Rows context;
    for (const Row& query : queries) {
      Row exponentials;
      for (const Row& key : keys) exponentials.push_back(tape_.exp(model_.dot(query, key, 0, 1)));
      const Number inverse = tape_.power(model_.sum(exponentials), -1);
      Row row(width, tape_.constant(0));
      for (std::size_t j = 0; j < memory.size(); ++j)
        for (std::size_t c = 0; c < width; ++c)
          row[c] = tape_.plus(row[c], tape_.times(tape_.times(exponentials[j], inverse), memory[j][c]));
      context.push_back(std::move(row));
    }
    return context;
  }

  Rows projected(const Rows& x, const std::string& weight) {
    Rows rows;
    for (const Row& row : x) {
      Row out;
      for (std::size_t c = 0; c < width; ++c)
        out.push_back(model_.dot(row, model_.parameter(2, weight), c, width));
      rows.push_back(std::move(out));
    }
    return rows;
  }

  TapedModel& model_;
  ScalarTape& tape_;
};

// Words of a sample, from `ahead` on; a sample has one more than it reads.
std::vector<std::size_t> text(const char* name, std::int64_t sample, std::size_t length, std::size_t ahead) {
  const RandomStream stream(0, name, 0);
  std::vector<std::size_t> result;
  for (std::size_t t = 0; t < length; ++t)
    result.push_back(
        stream.word(sample * static_cast<std::int64_t>(length + 1) + static_cast<std::int64_t>(t + ahead)) %
        words);
  return result;
}

}  // namespace

TEST_CASE("a step of a small GNMT is what its formulas say, cell by cell") {
  const TinyJob job{.model =
                        "model: {model_type: gnmt, encoder_layers: 2, decoder_layers: 2, hidden_size: 4, "
                        "vocab_size: 50, dropout: 0}\n",
                    .training = ", decoder_seq_length: 5"};
  const Plan plan = compile(tiny_job(job));
  const Execution run = checked_run(plan, ExecutionDevice::cpu_f64, 1);
  TapedModel model(plan, run, 0);
  Row losses;
  for (std::int64_t sample = 0; sample < 8; ++sample) {
    const Rows scores = ScalarGnmt(model).scores(text("source text", sample, source_length, 0),
                                                 text("text", sample, target_length, 0));
    const std::vector<std::size_t> labels = text("text", sample, target_length, 1);
    for (std::size_t t = 0; t < target_length; ++t)
      losses.push_back(model.tape().scaled(model.cross_entropy(scores[t], labels[t]), 1.0 / 40));
  }
  model.check(plan, run, model.sum(losses));
}

}  // namespace simrun
