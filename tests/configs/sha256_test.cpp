#include "configs/sha256.h"

#include <catch2/catch.hpp>
#include <string>

using namespace simrun;

// Vectors: NIST, FIPS 180-4 examples.
TEST_CASE("SHA-256 gives the published digests") {
  CHECK(sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sha256(std::string(1'000'000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("SHA-256 pads every length of one and two blocks: no two prefixes collide") {
  std::string previous;
  for (std::size_t length = 50; length < 140; ++length) {
    const std::string digest = sha256(std::string(length, 'x'));
    CHECK(digest.size() == 64);
    CHECK(digest != previous);
    previous = digest;
  }
}
