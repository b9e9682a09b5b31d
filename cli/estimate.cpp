#include "cli/estimate.h"

#include <fmt/format.h>

#include <new>
#include <optional>
#include <stdexcept>

#include "cli/estimate_form.h"
#include "cli/likely_time.h"
#include "cli/read_input.h"
#include "schedules/summary.h"
#include "sim/worker.h"
#include "visualizer/json.h"
#include "visualizer/likely_text.h"
#include "visualizer/page.h"
#include "visualizer/page_tables.h"
#include "visualizer/sensitivity_table.h"

namespace simrun {
namespace {

bool is_at(const SourcePosition& one, const SourcePosition& other) {
  return one.line == other.line && one.column == other.column;
}

// The dotted path of what stands at a place of the tree, or "".
std::string path_at(const ConfigNode& node, const SourcePosition& place, const std::string& path = "") {
  for (const ConfigNode& child : node.children) {
    if (child.key.empty()) continue;  // of a list
    const std::string below = path.empty() ? child.key : path + "." + child.key;
    if (is_at(child.position, place) || is_at(child.key_position, place)) return below;
    if (std::string found = path_at(child, place, below); !found.empty()) return found;
  }
  return "";
}

std::string problem_json(const std::string& key, const Diagnostic& problem, const std::string& place) {
  return fmt::format(R"({{"key":{},"message":{},"hint":{},"place":{}}})", json_quoted(key),
                     json_quoted(problem.message), json_quoted(problem.hint), json_quoted(place));
}

std::string problem_place(const SourcePosition& position, const std::string& job_file) {
  const std::string file = position.file == job_file ? "YAML" : position.file;
  return position.line == 0 ? file
                            : fmt::format("{}, line {}, column {}", file, position.line, position.column);
}

std::string problems_json(const std::vector<Diagnostic>& problems, const ConfigNode& root,
                          const std::string& file) {
  std::string list;
  for (const Diagnostic& problem : problems) {
    const SourcePosition& position = problem.position;
    const bool is_in_job = position.file == file && position.line > 0;
    list += (list.empty() ? "" : ",") +
            problem_json(is_in_job ? path_at(root, position) : "", problem, problem_place(position, file));
  }
  return "[" + list + "]";
}

// One sentence, about no key.
std::string problem_list(const std::string& message, const std::string& hint) {
  return "[" + problem_json("", {{}, message, hint}, "") + "]";
}

struct Estimated {
  std::string fields;    // of the answer, behind its problems
  std::string problems;  // a JSON list
};

Estimated estimated(const LoadedJob& job, const EstimateSources& sources, EngineChoice engine) {
  const Plan plan = compile_checked(job);
  const Timeline timeline = simulate(plan, {Detail::passes, engine});
  const Summary summary = summarize(plan, timeline);
  const std::optional<LikelyTime> likely = likely_time(plan, sources.bands, summary.step_time_s);
  std::string json = summary_json(plan, summary);
  std::string numbers = page_numbers(plan, summary) + page_sizes(plan, summary);
  if (likely) {
    json = with_member(json, "likely", likely_json(*likely));
    numbers += "<p>" + html_escaped(likely_line(*likely)) + "</p>\n";
  }
  return {fmt::format(R"(,"summary":{},"title":{},"numbers":{},"tables":{},"timeline":{})", json,
                      json_quoted(plan.job.name), json_quoted(numbers),
                      json_quoted(page_tables(plan, timeline, summary)),
                      timeline_json({plan, timeline, summary})),
          "[]"};
}

// `root`: of the text, which `file` names.
Estimated estimated_or_refused(const std::string& text, const std::string& file, const ConfigNode& root,
                               const EstimateSources& sources, EngineChoice engine) {
  try {
    return estimated(load_job_text(text, file, sources.load), sources, engine);
  } catch (const ConfigError& error) {
    return {"", problems_json(error.diagnostics(), root, file)};
  } catch (const std::range_error& error) {
    return {"", problem_list(error.what(), "a smaller global_batch_size or a faster device takes less.")};
  } catch (const WorkerError& error) {
    return {"", problem_list(error.what(), "simrun --serve --engine fast needs no worker process.")};
  } catch (const std::bad_alloc&) {
    return {"", problem_list("this job takes more memory than an estimate may have",
                             "fewer microbatches or layers need less.")};
  }
}

}  // namespace

std::string estimate(const EstimateSources& sources, const EstimateRequest& request, EngineChoice engine) {
  const EstimateBase& base = sources.bases.at(request.base);
  const std::string text = job_text_of(sources, request);
  std::vector<Diagnostic> none;  // estimated_or_refused() finds them as well
  const ConfigNode root = read_yaml(text, base.file, none);
  const Estimated answer = estimated_or_refused(text, base.file, root, sources, engine);
  return fmt::format(R"({{"job":{},"yaml":{},"form":{},"problems":{}{}}})", json_quoted(base.name),
                     json_quoted(text), form_json(job_keys(text, base.file, sources.load), root, sources),
                     answer.problems, answer.fields) +
         "\n";
}

std::string refused_request_json(const ConfigError& error) {
  std::string list;
  for (const Diagnostic& problem : error.diagnostics())
    list += (list.empty() ? "" : ",") + problem_json(problem.position.file, problem, "");
  return R"({"problems":[)" + list + "]}\n";
}

std::string refused_estimate_json(const std::string& yaml, const std::string& message,
                                  const std::string& hint) {
  return fmt::format(R"({{"yaml":{},"problems":{}}})", json_quoted(yaml), problem_list(message, hint)) + "\n";
}

}  // namespace simrun
