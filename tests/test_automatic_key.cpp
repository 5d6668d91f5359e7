// The key of a trace: a change of anything that changes code is a miss, and nothing else is (tests/support/key_checks.cpp).
// Bucket policies.
#include <catch2/catch.hpp>
#include "jit/buckets.h"
#include "tests/support/key_checks.h"

using namespace frit;
using namespace frit::testing;
using Complaints = std::vector<std::string>;

TEST_CASE("every field of the key is seen", "[automatic][key]") { CHECK(fields_that_the_key_misses() == Complaints{}); }
TEST_CASE("what changes no code does not miss", "[automatic][key]") { CHECK(what_the_key_sees_too_much() == Complaints{}); }
TEST_CASE("policies are in the key", "[automatic][key]") { CHECK(what_the_key_misses_of_policies() == Complaints{}); }

TEST_CASE("buckets of every policy hold their extent, and nothing beside", "[automatic][key]") {
  using P = jit::BucketPolicy;
  for (const P& p : {P::pow2(), P::exact(), P::dynamic(), P::multiple_of(1), P::multiple_of(7), P::edges({1}), P::edges({3, 8, 100})}) {
    INFO(p.text());
    for (int64_t e = 2; e < 300; ++e) {
      const P::Bucket b = p.bucket(e);
      CHECK(b.low < e);
      CHECK(e <= b.high);
      if (b.high < 1000) CHECK(p.bucket(b.high) == b);
      if (b.low >= 2) CHECK_FALSE(p.bucket(b.low) == b);
      if (b.low + 1 >= 2) CHECK(p.bucket(b.low + 1) == b);
    }
  }
  CHECK(jit::bucket_text(P::pow2().bucket(100)) == "(64, 128]");
  CHECK(jit::bucket_text(P::exact().bucket(100)) == "100");
  CHECK(jit::bucket_text(P::edges({8}).bucket(100)) == "(8, inf)");
}
