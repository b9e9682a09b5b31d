#include "cli/serve.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <semaphore>

#include "cli/console.h"
#include "cli/estimate.h"
#include "cli/http_server.h"
#include "configs/presets.h"
#include "configs/text_file.h"
#include "schedules/plan_file.h"
#include "sim/worker.h"
#include "visualizer/json.h"
#include "visualizer/viewer_html.h"

namespace simrun {
namespace {

namespace fs = std::filesystem;

constexpr const char* first_job = "llama3-70b-64xh100";
constexpr unsigned seconds_of_estimate = 10;
constexpr rlim_t memory_of_estimate = rlim_t{6} << 30;  // address space: 512 MiB of it are a worker's stack

std::optional<EstimateBase> base_of(const std::string& path) {
  const TextFile file = read_text_file(path);
  if (!file.text) return {};
  return EstimateBase{fs::path(path).stem().string(), path, *file.text};
}

// The shipped jobs, the one to start from first; of equal names the one that the search finds first.
std::vector<EstimateBase> shipped_jobs(const LoadOptions& load) {
  std::vector<EstimateBase> jobs;
  for (const std::string& name : preset_names("jobs", load.preset_directories))
    for (const std::string& directory : load.preset_directories)
      if (std::optional<EstimateBase> job =
              base_of((fs::path(directory) / "jobs" / (name + ".yaml")).string())) {
        jobs.push_back(std::move(*job));
        break;
      }
  std::stable_partition(jobs.begin(), jobs.end(),
                        [](const EstimateBase& job) { return job.name == first_job; });
  return jobs;
}

EstimateSources sources_of(const Options& options, const LoadOptions& load) {
  EstimateSources sources{shipped_jobs(load), load, load_error_bands(load)};
  if (options.input.empty()) {
    if (sources.bases.empty())
      throw ConfigError(
          {{{"--serve", 0, 0}, "no shipped job was found to start from", "simrun --serve CONFIG"}});
    return sources;
  }
  if (is_plan_file(options.input))
    throw ConfigError({{{options.input, 0, 0}, "--serve needs a job, this is a Plan file", ""}});
  load_job(options.input, load);  // which refuses it as every command does
  std::erase_if(sources.bases,
                [&](const EstimateBase& job) { return job.name == fs::path(options.input).stem().string(); });
  if (std::optional<EstimateBase> job = base_of(options.input))
    sources.bases.insert(sources.bases.begin(), std::move(*job));
  return sources;
}

// In the worker process that makes an estimate: a request may ask for more than anyone waits for.
void limit_this_process() {
#ifndef SIMRUN_ADDRESS_SANITIZER  // which reserves terabytes
  const rlimit memory{memory_of_estimate, memory_of_estimate};
  setrlimit(RLIMIT_AS, &memory);
#endif
}

// What all requests share.
struct Estimating {
  EstimateSources sources;
  EngineChoice engine = EngineChoice::automatic;
  std::counting_semaphore<> at_once{4};
};

HttpAnswer estimated_in_worker(const EstimateRequest& request, const Estimating& estimating) {
  const auto refused = [&](int status, const std::string& message, const std::string& hint) -> HttpAnswer {
    const std::string yaml = job_text_of(estimating.sources, request);
    return {status, "application/json", refused_estimate_json(yaml, message, hint)};
  };
  const auto start = std::chrono::steady_clock::now();
  try {
    return {200, "application/json",
            run_in_worker(
                [&] {
                  limit_this_process();
                  return estimate(estimating.sources, request, estimating.engine);
                },
                seconds_of_estimate)};
  } catch (const WorkerError& error) {
    const bool is_late =
        std::chrono::steady_clock::now() - start >= std::chrono::seconds(seconds_of_estimate);
    return is_late ? refused(200,
                             fmt::format("this job takes longer than the {} seconds of an estimate",
                                         seconds_of_estimate),
                             "copy the YAML and run simrun, or ask for fewer microbatches or GPUs.")
                   : refused(200, error.what(), "");
  } catch (const std::bad_alloc&) {
    return refused(200, "this job takes more memory than an estimate may have",
                   "copy the YAML and run simrun.");
  } catch (const std::exception& error) {
    return refused(500, fmt::format("internal error: {}", error.what()), "");
  }
}

HttpAnswer answer_to(const std::string& body, Estimating& estimating, const std::atomic<bool>& is_ending) {
  EstimateRequest request;
  try {
    request = read_estimate_request(estimating.sources, body);
  } catch (const ConfigError& error) {
    return {400, "application/json", refused_request_json(error)};
  }
  estimating.at_once.acquire();
  HttpAnswer answer{503, "text/plain", "simrun --serve ends\n"};
  if (!is_ending) answer = estimated_in_worker(request, estimating);
  estimating.at_once.release();
  return answer;
}

// The page with the names of the jobs that it may start from.
std::string page_with_jobs(const EstimateSources& sources) {
  constexpr std::string_view mark = "<!--simrun:jobs-->";
  std::string listed;
  for (const EstimateBase& job : sources.bases) listed += (listed.empty() ? "" : ",") + json_quoted(job.name);
  std::string page{estimator_html()};
  return page.replace(page.find(mark), mark.size(), "[" + listed + "]");
}

}  // namespace

int run_serve(const Options& options, const LoadOptions& load) {
  if (const std::string why = http_refusal(); !why.empty())
    throw ConfigError({{{"--serve", 0, 0}, why, "install it and build simrun again."}});
  Estimating estimating{sources_of(options, load), options.engine};
  const HttpSite site{page_with_jobs(estimating.sources),
                      [&](const std::string& body, const std::atomic<bool>& is_ending) {
                        return answer_to(body, estimating, is_ending);
                      }};
  const int port = options.serve.port.value_or(default_serve_port);
  const std::string failure = serve_http(port, site, [&](int found) {
    if (!options.quiet) print(fmt::format("http://127.0.0.1:{}/\nCtrl-C ends it\n", found));
  });
  if (failure.empty()) return 0;
  complain(fmt::format(
      "simrun: error: cannot serve on 127.0.0.1:{}: {}\n  hint: --port 0 takes any that is free.\n", port,
      failure));
  return 2;
}

}  // namespace simrun
