#include "validation/hardware_text.h"

#include <catch2/catch.hpp>

#include "validation/text_pattern.h"

namespace simrun {
namespace {

bool names(const char* pattern, const char* text) {
  return matched(hardware_pattern(pattern), hardware_words(text)).has_value();
}

TEST_CASE("hardware: a card's name is a word of its own, whatever stands around it") {
  CHECK(hardware_words("8xH100SXM5 80 GB") == " 8x  h100  sxm5  80gb ");
  for (const char* text : {"H200", "8xH200 141GB", "NVIDIA H200-SXM", "16 x H200"})
    CHECK(names("H200", text));
  for (const char* text : {"GH200", "GH200 96GB", "H2000"}) CHECK_FALSE(names("H200", text));
  CHECK_FALSE(names("MI300X", "MI325X"));
  CHECK_FALSE(names("A10", "A10G"));
  CHECK_FALSE(names("A10", "A100"));
  CHECK_FALSE(names("V100", "V100S"));
  for (const char* text : {"64 A100s", "A100x8", "2x8xA100", "8x A100", "A100PCIE40GB"})
    CHECK(names("A100", text));
}

TEST_CASE("hardware: a memory size is one word, however it is written") {
  for (const char* text : {"A100-40GB", "A100 40G", "A100-40G", "A100 (40 GB)", "A100-SXM4-40GB"})
    CHECK(names("A100*40GB", text));
  CHECK_FALSE(names("A100*40GB", "A100-80GB"));
  CHECK_FALSE(names("A100*40GB", "A100-140GB"));
}

TEST_CASE("hardware: rates and hosts' memory are no card's, and what it is compared with is another") {
  for (const char* text : {"A100 80GB SXM, 64 GB/s PCIe host link", "A100 80GB, 64GB host memory per GPU",
                           "A100-80GB, 64 GB of DDR5"}) {
    CAPTURE(text);
    CHECK_FALSE(names("A100*64GB", text));
    CHECK(names("A100*80GB", text));
    CHECK(may_have_memory(text, std::int64_t{80} << 30));
  }
  CHECK(own_hardware("H100 SXM, compared to B200") == "H100 SXM, ");
  CHECK(own_hardware("H100 (not H200)") == "H100 )");
  CHECK(names("A100*40GB", "8x A100-40GB, HDR InfiniBand"));
  CHECK(own_hardware("8xH100 80GB") == "8xH100 80GB");
}

TEST_CASE("hardware: a text names the memory of a GPU, or another's, or none") {
  const std::int64_t of_80 = std::int64_t{80} << 30;
  CHECK(may_have_memory("A100-80GB", of_80));
  CHECK(may_have_memory("A100", of_80));
  CHECK_FALSE(may_have_memory("A100 GPU 40G", of_80));
  CHECK(may_have_memory("a3-highgpu-8g (H100)", of_80));   // Google's instances count their GPUs so
  CHECK(may_have_memory("A100, NVLink 300 GB/s", of_80));  // a rate
  CHECK(may_have_memory("A100, 256 GB host memory", of_80));
  CHECK(may_have_memory("A100, 256 GB of host memory", of_80));
  CHECK(may_have_memory("A100, 200Gb HDR IB", of_80));  // bits
  CHECK(may_have_memory("A100 (100G IB)", of_80));
  CHECK_FALSE(may_have_memory("A100 64GB (Leonardo custom)", of_80));
  CHECK_FALSE(may_have_memory("H100 96GB", of_80));
  CHECK(may_have_memory("H200 141GB", std::int64_t{140} << 30));
}

}  // namespace
}  // namespace simrun
