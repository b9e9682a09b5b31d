#include "visualizer/page.h"

#include <zlib.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "column_reader.h"
#include "example_run.h"
#include "rank_reader.h"
#include "schedules/critical_path.h"
#include "schedules/measured_comparison.h"
#include "visualizer/columns.h"
#include "visualizer/page_tables.h"

namespace simrun {

namespace {

std::string page_of(const ExampleRun& run) { return html_page(run.plan, run.timeline, run.summary); }

std::string between(const std::string& text, const std::string& open, const std::string& close) {
  const std::string::size_type from = text.find(open) + open.size();
  return text.substr(from, text.find(close, from) - from);
}

std::string bytes_from_base64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  int held = 0;
  for (const char c : text.substr(0, text.find('='))) {
    bits = (bits << 6) | static_cast<std::uint32_t>(digits.find(c));
    held += 6;
    if (held < 8) continue;
    held -= 8;
    bytes += static_cast<char>((bits >> held) & 0xff);
  }
  return bytes;
}

std::string inflated(std::string bytes) {
  z_stream stream{};
  if (inflateInit2(&stream, -15) != Z_OK) throw std::runtime_error("inflateInit2");
  std::string out(std::size_t{64} << 20, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = inflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  inflateEnd(&stream);
  if (result != Z_STREAM_END) throw std::runtime_error("inflate");
  return out;
}

ColumnReader columns_of(const std::string& page) {
  return ColumnReader(inflated(bytes_from_base64(between(page, "id=\"columns\">", "</script>"))));
}

std::size_t intervals_of(const Timeline& timeline) {
  std::size_t count = 0;
  for (const RankTimeline& rank : timeline.ranks)
    for (const Lane& lane : rank.lanes) count += lane.intervals.size();
  return count;
}

}  // namespace

TEST_CASE("the page's data decodes to the timeline it was made from") {
  const ExampleRun run = example_run({.jitter = true});
  ColumnReader reader = columns_of(page_of(run));
  for (int segment_column = 0; segment_column < 7; ++segment_column)
    CHECK(reader.column().size() == run.plan.segments.size());
  for (int instruction_column = 0; instruction_column < 11; ++instruction_column) reader.column();
  for (std::size_t r = 0; r < run.timeline.ranks.size(); ++r) {
    const RankTimeline& expected = run.timeline.ranks[r];
    RankReader rank(reader, run.plan.programs[r]);
    const RankTimeline read = rank.read();
    CHECK(rank.entries() == run.plan.programs[r].entries.size());
    CHECK(read.passes == expected.passes);
    CHECK(read.memory == expected.memory);
    CHECK(read.lanes == expected.lanes);
  }
  const std::vector<CriticalStep> path = critical_path(run.plan, run.timeline).steps;
  const auto rank = reader.differences(), lane = reader.differences(), box = reader.differences();
  REQUIRE(!path.empty());
  REQUIRE(rank.size() == path.size());
  for (std::size_t i = 0; i < path.size(); ++i)
    CHECK((rank[i] == path[i].rank && lane[i] == path[i].lane && box[i] == path[i].interval));
  CHECK(reader.exhausted());
}

TEST_CASE("kernels of which nobody knows the phase are of a kind of their own, not of the optimizer's") {
  ExampleRun run = example_run({});
  run.plan.segments.push_back({unassigned_segment, PassKind::step, no_index, {}});
  run.plan.segments.push_back({"optimizer", PassKind::step, no_index, {}});
  const std::vector<std::int64_t> kinds = columns_of(page_of(run)).column();
  REQUIRE(kinds.size() == run.plan.segments.size());
  CHECK(kinds[kinds.size() - 2] == pass_kind_count);
  CHECK(kinds.back() == static_cast<std::int64_t>(PassKind::step));
}

TEST_CASE("only what was recorded gets a lane: not the other GPUs of a rank, not a link without a curve") {
  const ExampleRun run = example_run({.links = true, .unlike = true});
  REQUIRE(run.timeline.ranks.size() == 8);  // 4 pipeline ranks, two kinds of GPUs each
  const std::string page = page_of(run);
  const std::string facts = between(page, "id=\"facts\">", "</script>");
  CHECK(facts.find("\"ranks\":[{\"pp\":0,\"multiplicity\":6,\"gpus\":8,\"device\":0},{\"pp\":1,") !=
        std::string::npos);
  CHECK(facts.find("node0.gpu0.nvlink_tx") != std::string::npos);
  CHECK(facts.find("node3.nic0.tx") == std::string::npos);  // its curve was not recorded
  CHECK(between(page, "<caption>Links", "</table>").find("node3.nic0.tx") != std::string::npos);
  ColumnReader reader = columns_of(page);
  for (int column = 0; column < 7 + 11; ++column) reader.column();
  for (int rank = 0; rank < 4; ++rank) {
    const Program& program = run.plan.programs[static_cast<std::size_t>(rank)];
    CHECK(RankReader(reader, program).read().passes ==
          run.timeline.ranks[static_cast<std::size_t>(2 * rank)].passes);
  }
  for (std::size_t l = 0; l < 7; ++l) {
    const std::vector<std::int64_t> use = reader.differences();
    REQUIRE(use.size() == run.timeline.links[l].utilisation.size());
    for (std::size_t i = 0; i < use.size(); ++i)
      CHECK(static_cast<double>(use[i]) / 10'000 ==
            Approx(run.timeline.links[l].utilisation[i]).margin(0.00005001));
  }
  const std::vector<CriticalStep> path = critical_path(run.plan, run.timeline).steps;
  const std::vector<std::int64_t> rank = reader.differences();
  REQUIRE(rank.size() == path.size());
  for (std::size_t i = 0; i < path.size(); ++i) CHECK(2 * rank[i] == path[i].rank);  // among what is drawn
  CHECK(reader.differences().size() == path.size());
  CHECK(reader.differences().size() == path.size());
  CHECK(reader.exhausted());
}

TEST_CASE("the tables have one row per pipeline rank, and say which GPU waits longest where they differ") {
  const std::string alike = page_of(example_run()), unlike = page_of(example_run({.unlike = true}));
  const auto rows = [](const std::string& page, const std::string& caption) {
    const std::string body = between(page, "<caption>" + caption, "</table>");
    std::size_t count = 0;
    for (std::size_t at = body.find("<tr><th"); at != std::string::npos; at = body.find("<tr><th", at + 1))
      ++count;
    return count;
  };
  for (const char* caption : {"Where each", "Memory of each"}) {
    CHECK(rows(alike, caption) == rows(unlike, caption));
    CHECK(rows(unlike, caption) == 1 + 4);  // with the header
  }
  CHECK(alike.find("longest wait") == std::string::npos);
  CHECK(unlike.find("17.80 (GPU 6)") != std::string::npos);  // 16.80 ms, and 1 ms more
}

TEST_CASE("a page lists the 200 most used links and says how many there are") {
  ExampleRun run = example_run();
  CHECK(page_of(run).find("<caption>Links") == std::string::npos);
  run.summary.links.assign(201, {"node0.nic0.tx", 4, 45.5e9, 1'500'000'000, 0.25, 0.001, 0.2});
  run.summary.links.back().name = "last";
  const std::string links = between(page_of(run), "<caption>Links", "</table>");
  CHECK(links.find("the 200 most used of 201") != std::string::npos);
  CHECK(links.find("<th scope=\"row\">node0.nic0.tx</th><td>4</td><td>45.5 GB/s</td><td>1.500</td>"
                   "<td>25.0 %</td><td>20.0 %</td><td>1.000 ms</td>") != std::string::npos);
  CHECK(links.find("last") == std::string::npos);
}

TEST_CASE("planes keep numbers of either sign up to 2^52, and cost as many bytes as the largest needs") {
  const std::vector<std::int64_t> values = {
      0, 1, -1, 127, -128, 128, std::int64_t{1} << 52, -(std::int64_t{1} << 52)};
  ColumnWriter writer;
  writer.add_planes(values);
  writer.add_planes({1, -127, 100});
  ColumnReader reader(writer.bytes());
  CHECK(reader.planes() == values);
  CHECK(reader.planes() == std::vector<std::int64_t>{1, -127, 100});
  CHECK(reader.exhausted());
  CHECK(writer.bytes().size() == (1 + 1 + 8 * 7) + (1 + 1 + 3));  // zigzags of 54 and 8 bits
}

TEST_CASE("a lane that stands for all GPUs of its pipeline rank says which, one that does not says nothing") {
  ExampleRun run = example_run({});
  run.plan.stages[0].meshes = {{"dense", {{"tp", 4}, {"dp", 2}}}};
  run.plan.communications[0].group.axes = {0};
  const std::string facts = between(page_of(run), "id=\"facts\">", "</script>");
  CHECK(
      facts.find(
          "\"ranks\":[{\"pp\":0,\"multiplicity\":8,\"gpus\":8,\"device\":0,\"members\":{\"devices\":[[0,8]],"
          "\"meshes\":[[[\"tp\",4],[\"dp\",2]]]}},") != std::string::npos);
  CHECK(facts.find("\"0:0\"") != std::string::npos);  // the group of its collectives: axis 0 of mesh 0
  const std::string unlike = between(page_of(example_run({.unlike = true})), "id=\"facts\">", "</script>");
  CHECK(unlike.find("members") == std::string::npos);
}

TEST_CASE("columns keep numbers of either sign up to 2^52") {
  const std::vector<std::int64_t> values{
      0, 1, -1, 63, -64, 64, std::int64_t{1} << 52, -(std::int64_t{1} << 52)};
  ColumnWriter writer;
  writer.add(values);
  writer.add_differences({5, 3, 900, 900});
  ColumnReader reader(writer.bytes());
  CHECK(reader.column() == values);
  CHECK(reader.differences() == std::vector<std::int64_t>{5, 3, 900, 900});
  CHECK(reader.exhausted());
}

TEST_CASE("base64 pads as RFC 4648 does") {
  CHECK(base64("") == "");
  CHECK(base64("f") == "Zg==");
  CHECK(base64("fo") == "Zm8=");
  CHECK(base64("foo") == "Zm9v");
  CHECK(base64("foobar") == "Zm9vYmFy");
}

TEST_CASE("the page asks for nothing outside itself") {
  const std::string page = page_of(example_run());
  for (const char* sign : {"http://", "https://", "src=", "href=", "@import", "url(", "import(", "fetch("}) {
    CAPTURE(sign);
    CHECK(page.find(sign) == std::string::npos);
  }
  CHECK(page.find("default-src 'none'") != std::string::npos);
}

TEST_CASE("a note stands under the numbers, as text") {
  const ExampleRun run = example_run();
  const std::string page = html_page(run.plan, run.timeline, run.summary, "likely 1 to 2 s <of 8>");
  CHECK(between(page, "<header>", "</header>").find("<p>likely 1 to 2 s &lt;of 8&gt;</p>") !=
        std::string::npos);
}

TEST_CASE("names that users wrote stay text") {
  const std::string hostile = "</script><script>alert(1)</script><!--simrun:columns-->\"&'";
  ExampleRun run = example_run({.name = hostile});
  const std::size_t scripts = [] {
    const std::string clean = page_of(example_run());
    std::size_t count = 0;
    for (std::size_t at = clean.find("<script"); at != std::string::npos; at = clean.find("<script", at + 1))
      ++count;
    return count;
  }();
  run.plan.job.model_type = hostile;
  run.plan.cluster.gpu.name = hostile;
  run.plan.streams[1].name = hostile;
  run.plan.communications[0].cause = hostile;
  for (Segment& segment : run.plan.segments) {
    segment.name = hostile;
    segment.instructions[0].label = hostile;
  }
  const std::string page = page_of(run);
  std::size_t count = 0;
  for (std::size_t at = page.find("<script"); at != std::string::npos; at = page.find("<script", at + 1))
    ++count;
  CHECK(count == scripts);
  CHECK(page.find("<!--simrun:") == std::string::npos);
  CHECK(between(page, "<h1>", "</h1>") == html_escaped(hostile));
  CHECK(html_escaped("<a href='x'>\"&") == "&lt;a href=&#39;x&#39;&gt;&quot;&amp;");
}

TEST_CASE("a page of 200,000 intervals that never repeat stays under 2 MB") {
  const ExampleRun run = example_run({.ranks = 8, .microbatches = 64, .layers = 23, .jitter = true});
  REQUIRE(intervals_of(run.timeline) > 200'000);
  CHECK(page_of(run).size() < 2'000'000);
}

TEST_CASE("a page without recorded instructions has passes and memory only") {
  ExampleRun run = example_run();
  for (RankTimeline& rank : run.timeline.ranks) rank.lanes.clear();
  CHECK(page_of(run).size() < page_of(example_run()).size());
}

TEST_CASE("a plan that does not fit says so on the page") {
  ExampleRun run = example_run();
  CHECK(page_of(run).find("Does not fit") == std::string::npos);
  run.summary.fits = false;
  CHECK(page_of(run).find("Does not fit: pipeline rank 0 needs 53.5 GiB") != std::string::npos);
}

TEST_CASE("the page of one run is always the same bytes") {
  CHECK(page_of(example_run({.jitter = true})) == page_of(example_run({.jitter = true})));
}

}  // namespace simrun
