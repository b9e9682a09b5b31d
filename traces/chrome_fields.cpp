#include "traces/chrome_fields.h"

#include <array>
#include <charconv>
#include <string_view>
#include <unordered_map>

namespace simrun {
namespace {

using Member = std::string ChromeFields::*;
struct KeyedMember {
  std::string_view key;
  Member member;
};

constexpr std::array<KeyedMember, 7> of_event{{{"ph", &ChromeFields::phase},
                                               {"cat", &ChromeFields::category},
                                               {"name", &ChromeFields::name},
                                               {"pid", &ChromeFields::pid},
                                               {"tid", &ChromeFields::tid},
                                               {"ts", &ChromeFields::start},
                                               {"dur", &ChromeFields::duration}}};
// The keys of collectives: libkineto, ParamCommsDebugInfo of torch.distributed.
constexpr std::array<KeyedMember, 12> of_args{{{"correlation", &ChromeFields::correlation},
                                               {"Collective name", &ChromeFields::collective},
                                               {"Process Group Name", &ChromeFields::group},
                                               {"Process Group Ranks", &ChromeFields::group_ranks},
                                               {"Group size", &ChromeFields::group_size},
                                               {"In msg nelems", &ChromeFields::elements_in},
                                               {"Out msg nelems", &ChromeFields::elements_out},
                                               {"dtype", &ChromeFields::dtype},
                                               {"name", &ChromeFields::named},
                                               {"phase", &ChromeFields::pass_phase},
                                               {"function", &ChromeFields::function},
                                               {"wait_us", &ChromeFields::wait}}};

template <std::size_t n>
Member member_of(const std::array<KeyedMember, n>& members, const std::string& key) {
  for (const KeyedMember& member : members)
    if (member.key == key) return member.member;
  return nullptr;
}

// The value of the key just read; a list's elements are joined by commas.
bool read_value(JsonStream& json, std::string& value) {
  JsonToken token = json.next();
  if (token == JsonToken::string || token == JsonToken::number || token == JsonToken::literal) {
    value = json.text();
    return true;
  }
  if (token != JsonToken::begin_array) return json.skip_from(token);
  while ((token = json.next()) != JsonToken::end_array) {
    if (!json.skip_from(token)) return false;
    if (token != JsonToken::begin_object && token != JsonToken::begin_array)
      value += (value.empty() ? "" : ",") + json.text();
  }
  return true;
}

template <std::size_t n>
bool read_members(JsonStream& json, const std::array<KeyedMember, n>& members, ChromeFields& fields) {
  for (JsonToken token = json.next(); token != JsonToken::end_object; token = json.next()) {
    if (token == JsonToken::cut_off) return false;
    if constexpr (n == of_event.size()) {
      if (json.text() == "args") {
        const JsonToken args = json.next();
        if (!(args == JsonToken::begin_object ? read_members(json, of_args, fields) : json.skip_from(args)))
          return false;
        continue;
      }
    }
    const Member member = member_of(members, json.text());
    if (!(member == nullptr ? json.skip() : read_value(json, fields.*member))) return false;
  }
  return true;
}

}  // namespace

bool read_chrome_fields(JsonStream& json, ChromeFields& fields) {
  for (const KeyedMember& member : of_event) (fields.*member.member).clear();
  for (const KeyedMember& member : of_args) (fields.*member.member).clear();
  fields.position = json.position();
  return read_members(json, of_event, fields);
}

std::int64_t leading_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() ? number : 0;
}

std::optional<std::int64_t> whole_count(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view rest = text.substr(static_cast<std::size_t>(end - text.data()));
  if (error != std::errc() || number < 0) return std::nullopt;
  if (!rest.empty() && (rest[0] != '.' || rest.find_first_not_of('0', 1) != std::string_view::npos))
    return std::nullopt;
  return number;
}

std::int64_t bytes_of_dtype(const std::string& dtype) {
  static const std::unordered_map<std::string_view, std::int64_t> bytes{
      {"Double", 8}, {"Long", 8},          {"Float", 4},       {"Int", 4},  {"BFloat16", 2}, {"Half", 2},
      {"Short", 2},  {"Float8_e4m3fn", 1}, {"Float8_e5m2", 1}, {"Byte", 1}, {"Char", 1},     {"Bool", 1}};
  const auto found = bytes.find(dtype);
  return found == bytes.end() ? 0 : found->second;
}

}  // namespace simrun
