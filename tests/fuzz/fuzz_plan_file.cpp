#include <zlib.h>

#include <cstdint>
#include <string>

#include "configs/diagnostics.h"
#include "schedules/lint.h"
#include "schedules/plan_file.h"

// parse_plan() may refuse any input with a ConfigError; anything else that it throws, and any fault, is a
// defect.
static void parse(const std::string& bytes) {
  try {
    const simrun::Plan plan = simrun::parse_plan(bytes, "fuzz");
    if (simrun::parse_plan(simrun::serialize(plan), "fuzz") != plan) __builtin_trap();
  } catch (const simrun::ConfigError&) {
  }
}

static std::string little_endian(std::uint64_t number, int width) {
  std::string bytes;
  for (int i = 0; i < width; ++i) bytes += static_cast<char>(number >> (8 * i) & 0xff);
  return bytes;
}

// Once as it is, and once as a message behind a header that fits it, so that mutations get past the checksum.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  parse(input);
  const std::string magic_and_version = simrun::serialize(simrun::Plan{}).substr(0, 12);
  const auto crc = crc32_z(0, data, size);
  parse(magic_and_version + little_endian(size, 8) + little_endian(crc, 4) + input);
  return 0;
}
