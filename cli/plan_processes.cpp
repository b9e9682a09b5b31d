#include "cli/plan_processes.h"

#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

namespace simrun {
namespace {

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<std::byte> bytes_of_text(const std::string& text) {
  std::vector<std::byte> bytes(text.size());
  if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

// Each part behind its length: "3 abc1 d".
std::string in_one(const std::vector<std::vector<std::byte>>& parts) {
  std::string all;
  for (const std::vector<std::byte>& part : parts) all += std::to_string(part.size()) + " " + text_of(part);
  return all;
}

std::vector<std::string> parts_of(const std::string& all) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t space = all.find(' ', at);
    const std::size_t length = std::stoull(all.substr(at, space - at));
    parts.push_back(all.substr(space + 1, length));
    at = space + 1 + length;
  }
  return parts;
}

}  // namespace

SearchProcesses search_processes(ProcessGroup& group, const std::string& agreement) {
  SearchProcesses among{group.process(), group.processes(), {}, [&group] { return group.has_ended(); }};
  among.gather = [&group, agreement](const std::function<std::string()>& share) {
    std::string own;
    ProcessGroup::Work work;
    work.ranks = group.processes();
    work.agreement = agreement;
    work.body = [&](std::int64_t, Transport&) { own = share(); };
    work.collect = [&] { return bytes_of_text(own); };
    const ProcessGroup::Outcome outcome = group.run(work);
    if (outcome.failure.kind != FailureKind::none) throw SearchLost(outcome.failure);
    try {
      return parts_of(group.share(in_one(outcome.collected)));
    } catch (const TransportError& error) {
      throw SearchLost({FailureKind::crash, error.what()});
    }
  };
  return among;
}

}  // namespace simrun
