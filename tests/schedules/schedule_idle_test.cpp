// Closed forms of the idle time of a rank with uniform stages and free communication.
#include <algorithm>
#include <catch2/catch.hpp>

#include "schedules/evaluate_schedule.h"

namespace simrun {
namespace {

// F, B, I, W, overlapped F and B.
const std::vector<PassTimes> cost_sets = {{1, 2, 1, 1, 3}, {2, 4, 3, 1, 6}, {2, 4, 2, 2, 6}};

PipelineShape shape_of(int p, int m, int v, const PassTimes& times) {
  PipelineShape shape = {.ranks = p, .virtual_stages = v, .microbatches = m};
  shape.times = times;
  return shape;
}

ScheduleTimes times_of(const std::string& name, const PipelineShape& shape) {
  const ScheduleEntry* entry = find_schedule(name);
  REQUIRE(entry->refusal(shape) == "");
  return evaluate(entry->build(shape), shape);
}

bool accepts(const std::string& name, const PipelineShape& shape) {
  return find_schedule(name)->refusal(shape).empty();
}

std::vector<std::int64_t> everywhere(int p, std::int64_t idle) {
  return std::vector<std::int64_t>(static_cast<std::size_t>(p), idle);
}

std::int64_t most(const std::vector<std::int64_t>& values) {
  return *std::max_element(values.begin(), values.end());
}

}  // namespace

TEST_CASE("gpipe, 1f1b and bpipe idle for (p - 1)(F + B), also with fewer microbatches than ranks") {
  for (const PassTimes& t : cost_sets)
    for (int p = 1; p <= 8; ++p)
      for (const int m : {1, 3, 7, 8, 20})
        for (const std::string name : {"gpipe", "1f1b", "bpipe", "pipedream"}) {
          const PipelineShape shape = shape_of(p, m, 1, t);
          CAPTURE(name, p, m);
          if (!accepts(name, shape)) continue;
          CHECK(times_of(name, shape).idle == everywhere(p, (p - 1) * (t.forward + t.backward)));
        }
}

TEST_CASE("interleaving idles for (p - 1)(F + B) of a chunk, and more with fewer microbatches than ranks") {
  for (const PassTimes& t : cost_sets)
    for (int p = 1; p <= 7; ++p)
      for (int m = 1; m <= 16; ++m)
        for (const int v : {2, 3})
          for (const std::string name : {"interleaved_1f1b", "looped_bfs"}) {
            const PipelineShape shape = shape_of(p, m, v, t);
            if (!accepts(name, shape)) continue;
            CAPTURE(name, p, m, v);
            const int missing = (v - 1) * std::max(0, p - m);
            CHECK(times_of(name, shape).idle == everywhere(p, (p - 1 + missing) * (t.forward + t.backward)));
          }
}

TEST_CASE("an overlapped pair shorter than F + B saves rank r two pairs per hop to the last rank") {
  const PassTimes t = {2, 4, 2, 2, 5};
  const ScheduleTimes times = times_of("interleaved_1f1b_overlap", shape_of(4, 12, 2, t));
  // max (4 - 1)(2 + 4) = 18 on rank 3; each rank before it runs 2 pairs less, 6 - 5 = 1 each.
  CHECK(times.idle == std::vector<std::int64_t>{12, 14, 16, 18});
}

TEST_CASE("zb_h1 and interleaved_zb idle for (p - 1)(F + I - W) if W is the least and microbatches suffice") {
  for (const PassTimes& t : cost_sets)
    for (int p = 1; p <= 8; ++p)
      for (int m = p; m <= 20; ++m)
        for (const int v : {1, 2, 3}) {
          const std::string name = v == 1 ? "zb_h1" : "interleaved_zb";
          const PipelineShape shape = shape_of(p, m, v, t);
          if (!accepts(name, shape)) continue;
          CAPTURE(p, m, v);
          CHECK(times_of(name, shape).idle ==
                everywhere(p, (p - 1) * (t.forward + t.backward_input - t.backward_weight)));
        }
}

TEST_CASE("zb_v leaves no bubble inside a rank, and the start and end of the V outside, if F = I = W") {
  for (int p = 1; p <= 8; ++p)
    for (const int m : {2 * p - 1, 2 * p, 3 * p + 1, 24}) {
      CAPTURE(p, m);
      const ScheduleTimes times = times_of("zb_v", shape_of(p, m, 2, {3, 6, 3, 3, 9}));
      CHECK(times.span_idle == everywhere(p, 0));
      CHECK(times.idle == everywhere(p, std::int64_t{3} * (p - 1)));
    }
}

TEST_CASE(
    "dualpipe idles for at most (p / 2 - 1)(FB + B - 3 W), dualpipe_v for (p - 1)(...), if F = I >= W") {
  for (const PassTimes& t : {PassTimes{1, 2, 1, 1, 3}, {2, 4, 2, 2, 6}, {2, 4, 2, 2, 5}, {3, 4, 3, 1, 7}}) {
    const std::int64_t hop = t.overlapped + t.backward - 3 * t.backward_weight;
    for (int p = 1; p <= 10; ++p)
      for (const int m : {2 * p, 2 * p + 2, 4 * p}) {
        CAPTURE(p, m);
        CHECK(most(times_of("dualpipe_v", shape_of(p, m, 2, t)).idle) == (p - 1) * hop);
        if (p % 2 == 0) CHECK(most(times_of("dualpipe", shape_of(p, m, 1, t)).idle) == (p / 2 - 1) * hop);
      }
  }
}

TEST_CASE("chimera idles for (p - 2)(max(F, B) + (k - 1)|B - F|) with k rounds") {
  for (const PassTimes& t : {PassTimes{1, 1, 1, 0, 2}, {1, 2, 1, 1, 3}, {2, 3, 2, 1, 5}, {3, 2, 1, 1, 5}})
    for (int p = 2; p <= 10; p += 2)
      for (int k = 1; k <= 4; ++k) {
        CAPTURE(p, k, t.forward, t.backward);
        const std::int64_t uneven = std::abs(t.backward - t.forward);
        CHECK(times_of("chimera", shape_of(p, k * p, 1, t)).idle ==
              everywhere(p, (p - 2) * (std::max(t.forward, t.backward) + (k - 1) * uneven)));
      }
}

TEST_CASE("hanayo idles for 2 (p - 1) B whatever the number of waves, if B >= F") {
  for (const PassTimes& t : {PassTimes{1, 1, 1, 0, 2}, {1, 2, 1, 1, 3}, {2, 3, 2, 1, 5}})
    for (int p = 1; p <= 7; ++p)
      for (const int m : {p, p + 1, 2 * p, 16})
        for (const int v : {2, 4, 6}) {
          CAPTURE(p, m, v);
          CHECK(times_of("hanayo", shape_of(p, m, v, t)).idle == everywhere(p, t.backward * 2 * (p - 1)));
        }
}

TEST_CASE("seq1f1b idles for (p - 1)(F + B) of a slice") {
  for (const PassTimes& t : cost_sets)
    for (int p = 1; p <= 6; ++p)
      for (int slices = 1; slices <= 5; ++slices) {
        PipelineShape shape = shape_of(p, 6, 1, t);
        shape.slices = slices;
        CAPTURE(p, slices);
        CHECK(times_of("seq1f1b", shape).idle == everywhere(p, (p - 1) * (t.forward + t.backward)));
      }
}

TEST_CASE(
    "with twice 1F1B's memory and equal passes zb_auto idles only before a rank begins and behind its end") {
  for (const int ranks : {2, 4, 8}) {
    PipelineShape shape;
    shape.ranks = ranks;
    shape.microbatches = 3 * ranks;
    for (const std::int64_t idle : evaluate(find_schedule("zb_auto")->build(shape), shape).span_idle)
      CHECK(idle == 0);
  }
}

}  // namespace simrun
