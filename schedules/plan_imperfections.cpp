#include "schedules/plan_imperfections.h"

#include "plan.pb.h"
#include "schedules/plan_fields.h"

namespace simrun {
namespace {

static_assert(static_cast<int>(JitterDistribution::uniform) == proto::Imperfections::UNIFORM);

}  // namespace

void encode_imperfections(const Imperfections& imperfections, proto::Imperfections& out) {
  out.set_seed(imperfections.seed);
  out.set_jitter_distribution(
      static_cast<proto::Imperfections::JitterDistribution>(imperfections.jitter.distribution));
  out.set_jitter_coefficient_of_variation(imperfections.jitter.coefficient_of_variation);
  for (const Straggler& of : imperfections.stragglers) {
    proto::Imperfections::Straggler& straggler = *out.add_stragglers();
    straggler.set_name(of.name);
    straggler.mutable_gpus()->Add(of.gpus.begin(), of.gpus.end());
    straggler.mutable_nodes()->Add(of.nodes.begin(), of.nodes.end());
    straggler.set_count(of.count);
    straggler.set_slowdown(of.slowdown);
  }
  for (const LinkFault& of : imperfections.links) {
    proto::Imperfections::LinkFault& fault = *out.add_links();
    fault.set_name(of.name);
    fault.set_pattern(of.pattern);
    fault.set_bandwidth_share(of.bandwidth_share);
    fault.set_added_latency_s(of.added_latency_s);
  }
  for (const BackgroundTraffic& of : imperfections.background) {
    proto::Imperfections::Background& traffic = *out.add_background();
    traffic.set_name(of.name);
    traffic.set_pattern(of.pattern);
    traffic.set_permutation(of.permutation);
    traffic.mutable_from()->Add(of.from.begin(), of.from.end());
    traffic.mutable_to()->Add(of.to.begin(), of.to.end());
    traffic.set_rate(of.rate);
    traffic.set_share(of.share);
  }
  for (const OtherJob& of : imperfections.other_jobs) {
    proto::Imperfections::OtherJob& job = *out.add_other_jobs();
    job.set_name(of.name);
    job.mutable_nodes()->Add(of.nodes.begin(), of.nodes.end());
    job.set_collective(of.collective);
    job.mutable_from()->Add(of.from.begin(), of.from.end());
    job.mutable_to()->Add(of.to.begin(), of.to.end());
    job.set_bytes(of.bytes);
    job.set_period_s(of.period_s);
    job.set_phase_s(of.phase_s);
  }
}

Imperfections decode_imperfections(const proto::Imperfections& in) {
  Imperfections imperfections;
  imperfections.seed = in.seed();
  imperfections.jitter.distribution =
      enum_of(in.jitter_distribution(), JitterDistribution::uniform, "jitter distribution");
  imperfections.jitter.coefficient_of_variation =
      finite(in.jitter_coefficient_of_variation(), "jitter coefficient of variation");
  for (const proto::Imperfections::Straggler& of : in.stragglers())
    imperfections.stragglers.push_back({.name = of.name(),
                                        .gpus = {of.gpus().begin(), of.gpus().end()},
                                        .nodes = {of.nodes().begin(), of.nodes().end()},
                                        .count = of.count(),
                                        .slowdown = finite(of.slowdown(), "slowdown")});
  for (const proto::Imperfections::LinkFault& of : in.links())
    imperfections.links.push_back({.name = of.name(),
                                   .pattern = of.pattern(),
                                   .bandwidth_share = finite(of.bandwidth_share(), "bandwidth share"),
                                   .added_latency_s = finite(of.added_latency_s(), "added latency")});
  for (const proto::Imperfections::Background& of : in.background())
    imperfections.background.push_back({.name = of.name(),
                                        .pattern = of.pattern(),
                                        .permutation = of.permutation(),
                                        .from = {of.from().begin(), of.from().end()},
                                        .to = {of.to().begin(), of.to().end()},
                                        .rate = finite(of.rate(), "background rate"),
                                        .share = finite(of.share(), "background share")});
  for (const proto::Imperfections::OtherJob& of : in.other_jobs())
    imperfections.other_jobs.push_back({.name = of.name(),
                                        .nodes = {of.nodes().begin(), of.nodes().end()},
                                        .collective = of.collective(),
                                        .from = {of.from().begin(), of.from().end()},
                                        .to = {of.to().begin(), of.to().end()},
                                        .bytes = finite(of.bytes(), "bytes of another job"),
                                        .period_s = finite(of.period_s(), "period of another job"),
                                        .phase_s = finite(of.phase_s(), "phase of another job")});
  return imperfections;
}

}  // namespace simrun
