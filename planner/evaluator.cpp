#include "planner/evaluator.h"

#include <sstream>
#include <utility>

#include "planner/searched_lines.h"
#include "sim/in_threads.h"

namespace simrun {

EvaluatedShare Evaluator::run(const std::vector<Question>& questions, EngineChoice engine,
                              const PlanSearchProgress& progress) const {
  const SearchProcesses& among = options_.among;
  const auto processes = static_cast<std::size_t>(among.processes);
  std::vector<Question> own;
  for (auto i = static_cast<std::size_t>(among.process); i < questions.size(); i += processes)
    own.push_back(questions[i]);
  const auto evaluate = [&] { return run_own(own, engine, progress); };
  if (processes == 1) return evaluate();
  const auto to_lines = [&] {
    const EvaluatedShare share = evaluate();
    std::string text = share.was_stopped ? "stopped\n" : "\n";
    for (std::size_t i = 0; i < share.found.size(); ++i)
      text += evaluated_line(own[i].candidate, share.found[i]) + "\n";
    return text;
  };
  return joined(among.gather(to_lines), questions.size());
}

// Candidate i is the process's i % processes.
EvaluatedShare Evaluator::joined(const std::vector<std::string>& texts, std::size_t candidates) {
  EvaluatedShare all;
  all.found.resize(candidates);
  for (std::size_t process = 0; process < texts.size(); ++process) {
    std::istringstream in(texts[process]);
    std::string line;
    std::getline(in, line);
    all.was_stopped = all.was_stopped || !line.empty();
    for (std::size_t i = process; i < candidates && std::getline(in, line); i += texts.size())
      if (const auto read = read_evaluated_line(line)) all.found[i] = read->second;
  }
  return all;
}

EvaluatedShare Evaluator::run_own(const std::vector<Question>& questions, EngineChoice engine,
                                  const PlanSearchProgress& progress) const {
  EvaluatedShare share;
  share.found.resize(questions.size());
  share.was_stopped = options_.progress && !options_.progress(progress);
  if (share.was_stopped) return share;
  std::vector<std::size_t> unknown;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const auto known = options_.known.find(questions[i].candidate);
    if (engine == EngineChoice::fast && known != options_.known.end())
      share.found[i] = known->second;
    else
      unknown.push_back(i);
  }
  in_threads(options_.threads, unknown.size(), [&](unsigned, std::size_t i) {
    if (!options_.among.goes_on()) return;
    const Question& of = questions[unknown[i]];
    share.found[unknown[i]] =
        evaluate_candidate(base_, of.candidate, engine, of.alone ? &*of.alone : nullptr);
  });
  return share;
}

}  // namespace simrun
