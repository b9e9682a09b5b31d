#include <catch2/catch.hpp>

#include "sim/simulate.h"
#include "tests/sim/plan_builder.h"

namespace simrun {

namespace {

Picoseconds total(const RankTotals& totals) {
  return totals.compute + totals.exposed_total() + totals.bubble_total();
}
Picoseconds exposed(const RankTotals& totals, Traffic traffic) {
  return totals.exposed[static_cast<std::size_t>(traffic)];
}
Picoseconds hidden(const RankTotals& totals, Traffic traffic) {
  return totals.hidden[static_cast<std::size_t>(traffic)];
}
Picoseconds bubble(const RankTotals& totals, BubbleCause cause) {
  return totals.bubble[static_cast<std::size_t>(cause)];
}

// Two stages of forward 10, backward 20 and three microbatches as 1F1B, transfers of `transfer` ps.
Plan one_f_one_b_of_two(Picoseconds transfer) {
  PlanBuilder b(2);
  const std::uint8_t down = b.stream("pp_forward", Traffic::pipeline),
                     up = b.stream("pp_backward", Traffic::pipeline);
  const Index sent = b.token(), input = b.token(), d_sent = b.token(), d_input = b.token();
  const Index f0 = b.segment(PassKind::forward, {b.compute(10, {}, {sent})});
  const Index f1 = b.segment(PassKind::forward, {b.compute(10, {input}, {})});
  const Index b0 = b.segment(PassKind::backward, {b.compute(20, {d_input}, {})});
  const Index b1 = b.segment(PassKind::backward, {b.compute(20, {}, {d_sent})});
  const Index send_f = b.segment(PassKind::communication, {b.send(down, transfer, sent, 1, 0)});
  const Index recv_f = b.segment(PassKind::communication, {b.recv(down, transfer, input, 0, 0)});
  const Index send_b = b.segment(PassKind::communication, {b.send(up, transfer, d_sent, 0, 1)});
  const Index recv_b = b.segment(PassKind::communication, {b.recv(up, transfer, d_input, 1, 1)});
  using Work = std::vector<std::pair<Index, int>>;
  for (const auto& [segment, microbatch] : Work{{f0, 0},
                                                {send_f, 0},
                                                {f0, 1},
                                                {send_f, 1},
                                                {recv_b, 0},
                                                {b0, 0},
                                                {f0, 2},
                                                {send_f, 2},
                                                {recv_b, 1},
                                                {b0, 1},
                                                {recv_b, 2},
                                                {b0, 2}})
    b.entry(0, segment, microbatch);
  for (const auto& [segment, microbatch] : Work{{recv_f, 0},
                                                {f1, 0},
                                                {recv_f, 1},
                                                {b1, 0},
                                                {send_b, 0},
                                                {f1, 1},
                                                {recv_f, 2},
                                                {b1, 1},
                                                {send_b, 1},
                                                {f1, 2},
                                                {b1, 2},
                                                {send_b, 2}})
    b.entry(1, segment, microbatch);
  return b.plan;
}

}  // namespace

TEST_CASE("1F1B of two stages with free transfers idles (p-1)/(m+p-1) of its step") {
  const Timeline timeline = simulate(one_f_one_b_of_two(0), {Detail::instructions});
  // (m + p - 1)(F + B) = 4 x 30
  CHECK(timeline.step == 120);
  CHECK(timeline.first_step == 120);
  CHECK(timeline.instructions == 24);
  CHECK(timeline.communication_instructions == 12);
  // Rank 0: F0 0-10, F1 10-20, B0 40-60, F2 60-70, B1 70-90, B2 100-120.
  const RankTotals& first = timeline.ranks[0].totals;
  CHECK(first.compute == 90);
  CHECK(bubble(first, BubbleCause::warm_up) == 20);
  CHECK(bubble(first, BubbleCause::drain) == 10);
  // Rank 1: F0 10-20, B0 20-40, F1 40-50, B1 50-70, F2 70-80, B2 80-100.
  const RankTotals& last = timeline.ranks[1].totals;
  CHECK(bubble(last, BubbleCause::warm_up) == 10);
  CHECK(bubble(last, BubbleCause::drain) == 20);
  CHECK(last.bubble_total() == 30);
  REQUIRE(timeline.ranks[1].passes.size() == 6);
  CHECK(timeline.ranks[1].passes[4] == PassInterval{70, 10, 9});
  CHECK(timeline.ranks[0].multiplicity == 2);
}

TEST_CASE(
    "a transfer of 3 ps stands in the p2p part of its receiver's bubble only where the receiver waits for "
    "it") {
  const Timeline timeline = simulate(one_f_one_b_of_two(3), {Detail::instructions});
  // Rank 1: F0 13-23, B0 23-43, F1 43-53, B1 53-73. Rank 0: B0 46-66, F2 66-76, B1 76-96. F2 on rank 1 79-89,
  // B2 89-109; B2 on rank 0 112-132.
  CHECK(timeline.step == 132);
  const RankTotals& last = timeline.ranks[1].totals;
  CHECK(bubble(last, BubbleCause::warm_up) == 10);
  CHECK(bubble(last, BubbleCause::imbalance) == 3);  // 73-76: F2 still runs on rank 0
  CHECK(bubble(last, BubbleCause::p2p) == 6);        // 10-13 and 76-79
  CHECK(bubble(last, BubbleCause::drain) == 23);     // 109-132, its last send included
  // F1's arrival 23-26 and the sends 43-46 and 73-76: the last of these while the rank waits.
  CHECK(hidden(last, Traffic::pipeline) == 6);
  CHECK(total(last) == 132);
  CHECK(total(timeline.ranks[0].totals) == 132);
}

TEST_CASE("a rendezvous starts when both ends are ready, whoever is late") {
  const bool sender_is_late = GENERATE(true, false);
  PlanBuilder b(2);
  const std::uint8_t stream = b.stream("pp", Traffic::pipeline);
  const Index sent = b.token(), received = b.token();
  b.entry(0, b.segment(PassKind::forward,
                       {b.compute(sender_is_late ? 50 : 10, {}, {sent}), b.send(stream, 7, sent, 1, 9)}));
  b.entry(1, b.segment(PassKind::forward, {b.compute(sender_is_late ? 10 : 50, {}, {}),
                                           b.recv(stream, 7, received, 0, 9), b.compute(1, {received}, {})}));
  const Timeline timeline = simulate(b.plan, {Detail::instructions});
  CHECK(timeline.step == 58);
  const Interval sending = timeline.ranks[0].lanes[stream].intervals.at(0);
  const Interval receiving = timeline.ranks[1].lanes[stream].intervals.at(0);
  CHECK(sending == Interval{50, 7, sender_is_late ? 0 : 40, 0, 1});
  CHECK(receiving == Interval{50, 7, sender_is_late ? 40 : 0, 0, 1});
}

TEST_CASE("a send whose partner is late holds back neither compute nor other streams") {
  PlanBuilder b(2);
  const std::uint8_t stream = b.stream("pp", Traffic::pipeline), tp = b.stream("tp", Traffic::tensor);
  const Index sent = b.token(), received = b.token(), reduced = b.token();
  b.entry(0, b.segment(PassKind::forward, {b.send(stream, 5, sent, 1, 0), b.all_reduce(tp, 8, {}, {reduced}),
                                           b.compute(2, {reduced}, {})}));
  b.entry(1, b.segment(PassKind::forward, {b.compute(100, {}, {}), b.recv(stream, 5, received, 0, 0)}));
  const Timeline timeline = simulate(b.plan, {Detail::instructions});
  CHECK(timeline.ranks[0].lanes[compute_stream].intervals.at(0) == Interval{8, 2, 0, 0, 2});
  CHECK(exposed(timeline.ranks[0].totals, Traffic::tensor) == 8);
  CHECK(bubble(timeline.ranks[0].totals, BubbleCause::drain) == 95);
  CHECK(timeline.step == 105);
}

TEST_CASE("what compute covers of a collective is hidden, the rest exposed, tensor before data") {
  PlanBuilder b(1);
  const std::uint8_t tp = b.stream("tp", Traffic::tensor), dp = b.stream("dp", Traffic::data);
  const Index reduced = b.token(), gradients = b.token(Scope::step);
  b.entry(0, b.segment(PassKind::backward, {b.compute(10, {}, {}), b.all_reduce(dp, 40, {}, {gradients}),
                                            b.compute(5, {}, {}), b.all_reduce(tp, 12, {}, {reduced}),
                                            b.compute(6, {reduced}, {}), b.compute(1, {gradients}, {})}));
  // compute 0-10, 10-15, 27-33, 50-51; dp 10-50; tp 15-27.
  const Timeline timeline = simulate(b.plan, {Detail::instructions});
  CHECK(timeline.step == 51);
  const RankTotals& totals = timeline.ranks[0].totals;
  CHECK(totals.compute == 22);
  CHECK(exposed(totals, Traffic::tensor) == 12);
  CHECK(exposed(totals, Traffic::data) == 17);  // 33-50
  CHECK(hidden(totals, Traffic::data) == 11);   // 10-15 and 27-33; 15-27 is neither
  CHECK(hidden(totals, Traffic::tensor) == 0);
  CHECK(totals.bubble_total() == 0);
}

TEST_CASE("a gather into a bucket is waited for by the readers of its views") {
  PlanBuilder b(1);
  const std::uint8_t dp = b.stream("dp", Traffic::data);
  const Index bucket = b.token(Scope::run), first = b.view(bucket), second = b.view(bucket);
  const Index gather = b.segment(PassKind::communication, {b.all_reduce(dp, 30, {}, {bucket})});
  const Index pass = b.segment(PassKind::forward,
                               {b.compute(4, {}, {}), b.compute(1, {first}, {}), b.compute(1, {second}, {})});
  b.entry(0, gather, 0, Steps::not_first);
  b.entry(0, pass, 0);
  b.entry(0, pass, 1);
  const Timeline timeline = simulate(b.plan, {Detail::passes});
  CHECK(timeline.step == 38);        // 4, wait until 30, 2, 6
  CHECK(timeline.first_step == 12);  // no gather
  CHECK(exposed(timeline.ranks[0].totals, Traffic::data) == 26);
  CHECK(timeline.ranks[0].passes.at(0) == PassInterval{0, 32, 1});
}

TEST_CASE("a collective over pipeline ranks waits for the last of them") {
  PlanBuilder b(3);
  const std::uint8_t dp = b.stream("dp", Traffic::data);
  const Index norm = b.token(Scope::step);
  for (int r = 0; r < 3; ++r)
    b.entry(r, b.segment(PassKind::step,
                         {b.compute(10 * (r + 1), {}, {}),
                          b.all_reduce_stages(dp, 8, {0, 1, 2}, 4, {}, {norm}), b.compute(2, {norm}, {})}));
  const Timeline timeline = simulate(b.plan);
  CHECK(timeline.step == 40);
  for (const RankTimeline& rank : timeline.ranks) CHECK(exposed(rank.totals, Traffic::data) == 8);
  CHECK(bubble(timeline.ranks[0].totals, BubbleCause::drain) == 20);
}

TEST_CASE("a deadlock names who waits for whom") {
  PlanBuilder b(2);
  const std::uint8_t stream = b.stream("pp", Traffic::pipeline);
  const Index x = b.token(), y = b.token();
  for (int r = 0; r < 2; ++r)
    b.entry(r,
            b.segment(PassKind::forward,
                      {b.recv(stream, 1, x, 1 - r, static_cast<Index>(r)), b.compute(1, {x}, {y}),
                       b.send(stream, 1, y, 1 - r, static_cast<Index>(1 - r))}),
            3);
  for (const EngineChoice engine : {EngineChoice::fast, EngineChoice::simgrid})
    CHECK_THROWS_WITH(
        simulate(b.plan, {Detail::totals, engine}),
        Catch::Contains(
            "pipeline rank 0 at map (segment s0, microbatch 3) waits for recv (segment s0, microbatch 3), "
            "which pipeline rank 1 has not posted") &&
            Catch::Contains("pipeline rank 1 at map (segment s1"));
}

TEST_CASE("an exchange that a third end posts is refused") {
  PlanBuilder b(2);
  const std::uint8_t stream = b.stream("pp", Traffic::pipeline);
  const Index x = b.token();
  const Index send = b.segment(PassKind::forward, {b.send(stream, 1, x, 1, 0)});
  b.entry(0, send);
  b.entry(0, send);
  b.entry(1, b.segment(PassKind::forward, {b.recv(stream, 1, x, 0, 0)}));
  CHECK_THROWS_WITH(simulate(b.plan), Catch::Contains("more than 2 ends"));
}

}  // namespace simrun
