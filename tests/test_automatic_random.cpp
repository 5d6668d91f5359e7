// Random programs, run eagerly, in automatic mode with compiles in the foreground and in the background, and through compile(f),
// whose body is called with other sizes each time: everything that they show must be equal bit for bit (all NaNs are one). Every
// third program runs on two threads where eager mode had one. A failure is made small and printed as C++.
// FRIT_RANDOM_PROGRAMS: how many programs (1500) · FRIT_RANDOM_FIRST: the first seed (1).
#include <catch2/catch.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include "jit/tiers.h"
#include "runtime/launch.h"
#include "tests/support/random_program.h"

using namespace frit;
using namespace frit::testing;

namespace {

int64_t from_environment(const char* name, int64_t standard) {
  const char* text = std::getenv(name);
  return text ? std::atoll(text) : standard;
}

// How many programs have what, by words of their text.
struct Share {
  const char* what;
  std::vector<const char*> words;
  int64_t programs = 0;
};
class Census {
 public:
  void add(const TensorProgram& p) {
    const std::string text = p.text();
    statements_.push_back(p.instructions.size());
    gradients_ += p.gradients, writes_ += p.view_writes;
    bool small = false;
    for (const auto& e : p.extents) small |= std::find_if(e.begin(), e.end(), [](int64_t x) { return x < 2; }) != e.end();
    small_ += small;
    for (Share& s : shares_) s.programs += std::any_of(s.words.begin(), s.words.end(), [&](const char* w) { return text.find(w) != std::string::npos; });
  }
  int64_t count() const { return int64_t(statements_.size()); }
  int64_t percent(int64_t n) const { return 100 * n / std::max<int64_t>(count(), 1); }
  int64_t gradients() const { return percent(gradients_); }
  int64_t writes() const { return percent(writes_); }
  size_t median() {
    std::sort(statements_.begin(), statements_.end());
    return statements_[statements_.size() / 2];
  }
  std::string text() {
    std::string s = "median " + std::to_string(median()) + " statements; percent of programs with gradients " + std::to_string(gradients()) + ", writes through views " +
                    std::to_string(writes()) + ", extents 0 or 1 " + std::to_string(percent(small_));
    for (const Share& x : shares_) s += std::string(", ") + x.what + " " + std::to_string(percent(x.programs));
    return s;
  }
  // Kinds of statement that too few programs have.
  std::string missing() const {
    std::string s;
    for (const Share& x : shares_)
      if (percent(x.programs) < 5) s += std::string(s.empty() ? "" : ", ") + x.what;
    return s;
  }

 private:
  std::vector<size_t> statements_;
  int64_t gradients_ = 0, writes_ = 0, small_ = 0;
  std::vector<Share> shares_ = {{"backward", {"backward("}},
                                {"create_graph", {", true, true);", ", {}, true);", "true, true, true)[0]", "false, true, true)[0]"}},
                                {"optimisers", {"optim::"}},
                                {"float64", {"kFloat64"}},
                                {"float16", {"kFloat16"}},
                                {"bfloat16", {"kBFloat16"}},
                                {"int64", {"kInt64"}},
                                {"bool", {"kBool"}},
                                {"NaN or infinite numbers", {"NAN", "INFINITY", "/* special"}},
                                {"reductions", {".sum(", ".mean(", ".amax(", ".amin(", ".prod(", ".var("}},
                                {"softmax", {"softmax("}},
                                {"norms", {"_norm("}},
                                {"products", {".matmul("}},
                                {"indexing", {"gather(", "scatter", "index_"}},
                                {"cat and stack", {"cat(", "stack("}},
                                {"random numbers", {" rand({", " randn({", " randint(", "dropout("}},
                                {"where", {"where(", "masked_fill"}},
                                {"axis names", {"named("}}};
};

std::string wrong(const TensorProgram& p, Way way) { return compare(p, run_eager(p), way); }

// Runs the program in every way; a difference is printed. True when there is none.
bool agrees(const TensorProgram& p) {
  const std::vector<Shown> wanted = run_eager(p);
  for (const Way way : all_ways) {
    const std::string first = compare(p, wanted, way);
    if (first.empty()) continue;
    const TensorProgram small = shrink(p, [&](const TensorProgram& q) { return !wrong(q, way).empty(); });
    const std::string again = wrong(small, way);
    std::printf("seed %llu differs, %s\n%s\n%s\n", static_cast<unsigned long long>(p.seed), way_name(way), (again.empty() ? first + "(it does not come again)" : again).c_str(),
                small.text().c_str());
    std::fflush(stdout);
    return false;
  }
  return true;
}

}  // namespace

TEST_CASE("random programs show the same bits in every way to run them", "[automatic]") {
  const int64_t programs = from_environment("FRIT_RANDOM_PROGRAMS", 1500), first = from_environment("FRIT_RANDOM_FIRST", 1);
  const jit::TierSettings before = jit::tier_settings();
  const int threads = num_threads();
  jit::tier_settings().hot = 2;
  Census census;
  int64_t differences = 0;
  for (int64_t seed = first; seed < first + programs && differences < 20; ++seed) {
    const TensorProgram p = random_tensor_program(uint64_t(seed));
    census.add(p);
    differences += !agrees(p);
    if (programs > 5000 && (seed - first) % 1000 == 999) std::printf("%lld programs, %lld differ\n", (long long)census.count(), (long long)differences), std::fflush(stdout);
  }
  jit::tier_settings() = before;
  set_num_threads(threads);
  std::printf("%lld random programs from seed %lld, %lld differ; %s\n", (long long)census.count(), (long long)first, (long long)differences, census.text().c_str());
  CHECK(differences == 0);
  if (census.count() >= 200) {
    CHECK(census.median() >= 20);
    CHECK(census.gradients() >= 30);
    CHECK(census.writes() >= 30);
    CHECK(census.missing() == "");
  }
}
