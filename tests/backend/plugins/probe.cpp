#include <stdexcept>

#include "backend/plugin.h"

// A plugin for the tests. PROBE says which one: whole, of another build, one that throws when asked, or one
// whose memory comes from a library of its own.
namespace simrun {
namespace {

enum class Probe { whole, other_build, throws, other_memory };
constexpr Probe built_as = Probe::PROBE;

std::string why_not() {
  if (built_as == Probe::throws) throw std::runtime_error("the driver is too old");
  return "";
}

// As many elements as real numbers have bytes: what crosses the seam arrives.
class ProbeTransport final : public Transport {
 public:
  void send(std::int64_t, const MessageTag&, Message) override {}
  Message receive(std::int64_t from, const MessageTag& tag, const std::string& waiting_for) override {
    throw TransportError("rank " + std::to_string(from) + " is not here, " + waiting_for + " " +
                         std::to_string(tag.instance));
  }
};

class ProbeLink final : public ProcessLink {
 public:
  explicit ProbeLink(const LinkRequest& request) : request_(request) {}
  int process() const override { return request_.process; }
  int processes() const override { return request_.processes; }
  void send(int, Frame) override { ProbeTransport().receive(3, {0, 7}, "in microbatch"); }
  std::optional<Arrived> poll() override { return {}; }
  bool sent_all() override { return true; }
  void leave() override {}

 private:
  const LinkRequest request_;
};

const BackendPlugin probe = {
    .abi = plugin_abi() + (built_as == Probe::other_build ? 1 : 0),
    .name = "probe",
    .about = [] { return std::string("a test"); },
    .why_not = why_not,
    .devices =
        [] {
          return std::vector<std::string>{"one", "two"};
        },
    .make_device = nullptr,
    .join_processes = [](const LinkRequest& request) -> std::unique_ptr<ProcessLink> {
      return std::make_unique<ProbeLink>(request);
    },
};

}  // namespace
}  // namespace simrun

extern "C" __attribute__((visibility("default"))) const simrun::BackendPlugin* simrun_backend_plugin(
    std::uint64_t) {
  return &simrun::probe;
}

#ifdef PROBE_FREES
extern "C" __attribute__((visibility("default"))) void free(void*) noexcept {}  // never called: it is refused
#endif
