#include <catch2/catch.hpp>
#include <regex>

#include "cli/collective_flags.h"
#include "tests/cli/parsed_output.h"
#include "tests/cli/run_simrun.h"

// --collective: a table as nccl-tests print it.
namespace simrun {
namespace {

std::size_t lines_with(const std::string& text, const std::string& word) {
  std::size_t count = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("sizes are powers of two from one to another, a list, or one; binary as nccl-tests'") {
  using Sizes = std::vector<std::int64_t>;
  CHECK(sizes_in_bytes("1M..4M") == Sizes{1 << 20, 1 << 21, 1 << 22});
  CHECK(sizes_in_bytes("3..7") == Sizes{3, 6, 7});
  CHECK(sizes_in_bytes("64k,1.5M, 2G") == Sizes{65536, 1572864, std::int64_t{1} << 31});
  CHECK(sizes_in_bytes("1000") == Sizes{1000});
  for (const char* wrong : {"", "1X", "-1", "0", "1.5", "4M..1M", "1M..", "1,,2", "9999999T", "M"})
    CHECK(!sizes_in_bytes(wrong));
}

TEST_CASE("--collective prints a block for each number of nodes, and JSON in bytes per second") {
  const std::string command = "--collective all_reduce --bytes 1M..4M --cluster dgx_h100 --nodes 1,2 ";
  const Ran table = run_simrun(command);
  CHECK(table.code == 0);
  CHECK(table.output.find("# all_reduce on dgx_h100: 1 node, 8 ranks") != std::string::npos);
  CHECK(table.output.find("# all_reduce on dgx_h100: 2 nodes, 16 ranks") != std::string::npos);
  CHECK(lines_with(table.output, "simple") + lines_with(table.output, "ll") >= 6);
  const Ran json = run_simrun(command + "--algorithm ring --protocol simple --json");
  CHECK(json.code == 0);
  // 8.4 us + 14 x 3.4 us + 1.75 MiB / (450 GB/s x 0.84)
  const double time_s = 56e-6 + 1.75 * 0x1p20 / 378e9;
  const std::regex row(R"raw(\{"collective": "all_reduce", "bytes": 1048576, "nodes": 1, "ranks": 8, )raw"
                       R"raw("algorithm": "ring", "time_s": ([^,]*), "algbw": ([^,]*), "busbw": ([^,]*), )raw"
                       R"raw("protocol": "simple"\})raw");
  std::smatch found;
  REQUIRE(std::regex_search(json.output, found, row));
  CHECK(std::stod(found[1]) == Approx(time_s).epsilon(1e-6));
  CHECK(std::stod(found[2]) == Approx(0x1p20 / time_s).epsilon(1e-6));
  CHECK(std::stod(found[3]) == Approx(1.75 * 0x1p20 / time_s).epsilon(1e-6));
}

TEST_CASE("--collective takes part of a node, its own cluster file and changes to it, and writes a page") {
  const Scratch scratch;
  const std::string cluster =
      scratch.write("two.yaml",
                    "gpus_per_node: 2\ngpu: a100_sxm_80gb\nintra_node: {latency: 2 us}\n"
                    "inter_node: {bandwidth: 10 GB/s, latency: 5 us}\ncollectives: {algorithm: ring}\n");
  const std::string page = scratch.file("page.html");
  const Ran ran =
      run_simrun("--collective send_recv --bytes 1000000 --nodes 2 --gpus-per-node 1 --cluster " + cluster +
                 " --set cluster.inter_node.bandwidth='20 GB/s' --html " + page + " --json");
  CHECK(ran.code == 0);
  CHECK(ran.output.find("\"ranks\": 2, \"algorithm\": \"direct\", \"time_s\": 5.5e-05") != std::string::npos);
  CHECK(read(page).find("<svg") != std::string::npos);
  // The file's own collectives are kept: no base latency. 5 us a step between nodes, one of two.
  const Ran ring =
      run_simrun("--collective all_gather --bytes 1 --nodes 2 --gpus-per-node 1 --json --cluster " + cluster);
  CHECK(ring.output.find("\"time_s\": 5.00005e-06") != std::string::npos);
}

TEST_CASE("without a word of the cluster's file, --set changes NCCL's table") {
  const std::string arguments =
      "--collective all_reduce --bytes 1G --cluster dgx_h100 --algorithm ring --json";
  const Ran sixteen = run_simrun(arguments),
            one = run_simrun(arguments + " --protocol ll128 --set cluster.collectives.channels=1");
  CHECK(sixteen.output.find("\"ring\"") != std::string::npos);
  // One channel of 36.7 GB/s: 1.75 GiB / 36.7 GB/s = 51.2 ms.
  CHECK(one.output.find("\"time_s\": 0.0512") != std::string::npos);
}

TEST_CASE("--algorithm goes before what the cluster says of that collective; --set of all does not") {
  const std::string broadcast = "--collective broadcast --cluster dgx_h100 --nodes 2 --bytes 1M --json ";
  CHECK(run_simrun(broadcast).output.find("\"algorithm\": \"ring\"") != std::string::npos);
  const Ran tree = run_simrun(broadcast + "--algorithm tree");
  CHECK(tree.code == 0);
  CHECK(tree.output.find("\"algorithm\": \"tree\"") != std::string::npos);
  CHECK(tree.output == run_simrun(broadcast + "--set cluster.collectives.broadcast.algorithm=tree").output);
  const Ran all = run_simrun(broadcast + "--set cluster.collectives.algorithm=tree");
  CHECK(all.code == 2);
  CHECK(all.output ==
        "--set cluster.collectives.algorithm=tree: error: dgx_h100 has "
        "cluster.collectives.broadcast.algorithm: ring, which goes before it\n"
        "  hint: --algorithm tree.\n"
        "1 error; nothing was run.\n");
}

TEST_CASE("what is wrong with --collective's flags is said at once") {
  const Ran ran = run_simrun("--collective all_redcue --bytes 1Q --nodes 0 --protocol lll --algorithm rng");
  CHECK(ran.code == 2);
  for (const char* said :
       {"did you mean 'all_reduce'?", "'1Q' is not a size", "--collective needs a cluster",
        "'0' is not a whole number from 1", "unknown protocol 'lll'", "did you mean 'ring'?"})
    CHECK(ran.output.find(said) != std::string::npos);
}

TEST_CASE("what --collective cannot do it refuses") {
  const auto refused = [](const std::string& arguments, const std::string& because) {
    const Ran ran = run_simrun(arguments);
    CAPTURE(arguments, ran.output);
    CHECK(ran.code == 2);
    CHECK(ran.output.find(because) != std::string::npos);
  };
  const std::string on = " --cluster dgx_h100 --bytes 1M";
  refused("--collective all_gather --algorithm tree" + on, "tree is no algorithm of all_gather");
  refused("--collective all_reduce --algorithm nvls_tree --nodes 2,1" + on,
          "nvls_tree cannot run all_reduce on 1 node");
  refused("--collective all_reduce --algorithm collnet_chain --nodes 2" + on,
          "cluster.inter_node.sharp: true");
  refused("--collective all_to_all --nodes 512" + on, "flows, more than 65536");
  refused("--collective all_reduce --gpus-per-node 1" + on, "one GPU has nobody to talk to");
  refused("--collective all_reduce --gpus-per-node 9" + on, "has 8 GPUs, not 9");
  refused("--collective all_reduce --cluster dgx_h1000 --bytes 1M", "did you mean 'dgx_h100'?");
  refused("--collective all_reduce --set training.seq_length=1" + on, "only keys of 'cluster'");
  refused("--collective all_reduce --check" + on, "--check does not go with --collective");
  refused("--nodes 2 " + tiny, "--nodes goes with --collective");
  refused("--collective all_reduce " + tiny, "--collective takes no job");
}

TEST_CASE("a job with collectives: nccl runs, and its Plan file says the same") {
  const Scratch scratch;
  const std::string plan = scratch.file("job.plan");
  const std::string set = " --set cluster.collectives=nccl --set cluster.inter_node.sharp=true --json";
  const Ran job = run_simrun(tiny + set + " --plan " + plan), again = run_simrun_in_shell(plan + " --json");
  CHECK(job.code == 0);
  CHECK(job.output == again.output);
  const std::string without = run_simrun(tiny + " --json").output;
  CHECK(job.output != without);
  const ConfigNode json = parsed_json(job.output);
  const ConfigNode& chosen = member(json, "collectives");
  REQUIRE_FALSE(chosen.children.empty());
  CHECK(number(chosen.children.front(), "ranks") > 1);
  CHECK(without.find("\"collectives\"") == std::string::npos);
  CHECK(run_simrun(tiny + " --no-html --set cluster.collectives=nccl").output.find("\ncollectives  group") !=
        std::string::npos);
}

}  // namespace simrun
