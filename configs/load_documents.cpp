// Packed sequences: how long the documents are.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "configs/job_rules.h"
#include "configs/limits.h"
#include "configs/load_sections.h"
#include "configs/text_file.h"

namespace simrun {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t largest_file = std::size_t{1} << 25;
constexpr IntegerRange seeds = {0, 1'000'000'000};
constexpr RealRange sigmas = {0, 5};

const std::map<std::string, DocumentLengths>& distributions() {
  static const std::map<std::string, DocumentLengths> words = {{"fixed", DocumentLengths::fixed},
                                                               {"uniform", DocumentLengths::uniform},
                                                               {"lognormal", DocumentLengths::lognormal}};
  return words;
}

// Beside the job's file; those of a command line may also be meant from the working directory.
fs::path place_of(const std::string& written, const SourcePosition& position, const Reading& reading) {
  const fs::path beside = (fs::path(reading.file).parent_path() / written).lexically_normal();
  std::error_code error;
  return position.line == 0 && !fs::exists(beside, error) && fs::exists(written, error) ? fs::path(written)
                                                                                        : beside;
}

// Numbers between commas and line ends; a first line that is no number is a heading, `#` begins a comment.
std::vector<std::int64_t> parse_lengths(const std::string& text, const std::string& file, Reading& reading) {
  std::vector<std::int64_t> lengths;
  int line = 1, column = 1;
  std::string word;
  int word_column = 1;
  bool comment = false, heading = false;
  const auto take = [&]() {
    if (word.empty() || heading) return word.clear();
    const Parsed<std::int64_t> parsed = parse_integer(word, limits::sequence);
    if (parsed.value) {
      lengths.push_back(*parsed.value);
    } else if (lengths.empty() && line == 1) {
      heading = true;
    } else if (reading.problems.size() < 20) {
      reading.problems.push_back(
          {{file, line, word_column},
           fmt::format("a document's length must be a whole number of tokens, not {}", in_quotes(word)),
           parsed.hint});
    }
    word.clear();
  };
  for (const char c : text + "\n") {
    const bool ends = c == ',' || c == ' ' || c == '\t' || c == '\r' || c == '\n';
    if (c == '#') comment = true;
    if (ends || comment) {
      take();
    } else {
      if (word.empty()) word_column = column;
      word += c;
    }
    ++column;
    if (c != '\n') continue;
    ++line;
    column = 1;
    comment = heading = false;
  }
  return lengths;
}

void read_recorded(SectionReader& keys, Reading& reading, DocumentConfig& documents) {
  const std::string path = keys.path_of("lengths");
  const std::string written = keys.text("lengths");
  if (written.empty()) return;
  const fs::path place = place_of(written, reading.position_of(path), reading);
  const TextFile file = read_text_file(place.string(), largest_file);
  if (!file.text)
    return reading.problem(path, fmt::format("cannot read '{}': {}", place.string(), file.reason),
                           "a CSV file of document lengths in tokens.");
  if (file.text->size() > largest_file)
    return reading.problem(path, fmt::format("'{}' is larger than 32 MiB", place.string()));
  const std::size_t problems = reading.problems.size();
  documents.recorded = parse_lengths(*file.text, place.string(), reading);
  if (documents.recorded.empty() && reading.problems.size() == problems)
    reading.problem(path, fmt::format("'{}' has no lengths", place.string()),
                    "one whole number of tokens per document.");
  documents.lengths = DocumentLengths::recorded;
  documents.origin = fmt::format("{} recorded lengths", documents.recorded.size());
  reading.files.push_back(place.string());
  std::error_code error;
  const fs::path absolute = fs::absolute(place, error);  // so that the effective config loads from anywhere
  if (const std::optional<EffectiveValue> value = reading.take(path))
    reading.record(value->path, yaml_quoted((error ? place : absolute).string()), value->origin);
}

void read_drawn(SectionReader& keys, DocumentConfig& documents) {
  documents.mean = keys.integer("mean", limits::sequence);
  const std::string word = keys.word("distribution", {{"fixed", "uniform", "lognormal"}, {}}, "fixed");
  documents.lengths = word.empty() ? DocumentLengths::fixed : distributions().at(word);
  documents.origin = fmt::format("{}, mean {}", word, documents.mean);
  if (documents.lengths == DocumentLengths::lognormal || (word.empty() && keys.has("sigma"))) {
    documents.sigma = keys.real("sigma", sigmas, 1.0);
    documents.origin += fmt::format(", sigma {:g}", documents.sigma);
  }
  // A sweep over distributions may write it for all of them.
  if (documents.lengths == DocumentLengths::fixed && !keys.has("seed")) return;
  documents.seed = keys.integer("seed", seeds, 0);
  if (documents.lengths == DocumentLengths::fixed) return;
  documents.origin += fmt::format(", seed {}", documents.seed);
}

}  // namespace

void read_documents(SectionReader& section, Reading& reading, Training& training) {
  const ConfigNode* node = section.section("documents");
  if (node == nullptr) return;
  SectionReader keys(reading, node, section.path_of("documents"));
  if (keys.is_no_map()) return;
  DocumentConfig documents;
  if (keys.has("lengths"))
    read_recorded(keys, reading, documents);
  else
    read_drawn(keys, documents);
  keys.finish();
  training.documents = std::move(documents);
}

void apply_document_rules(Reading& reading, const Job& job) {
  if (!job.training.documents) return;
  if (job.training.attention == AttentionKernel::unfused)
    reading.problem("training.documents",
                    "documents mean nothing with attention: unfused, which computes every score",
                    "attention: flash skips what lies between documents.");
  if (job.parallelism.context_parallel_size > 1)
    reading.problem("training.documents",
                    "documents with context_parallel_size above 1 are not supported yet");
}

}  // namespace simrun
