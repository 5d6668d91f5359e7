// Out of memory is a typed error that says how much was asked for, how much is held, and by what; and everything goes on after it.
#include <catch2/catch.hpp>
#include <frit/frit.h>
#include "runtime/buffer.h"

using namespace frit;
#define HAS(text, ...) CHECK_THAT(text, Catch::Matchers::Contains(__VA_ARGS__))

namespace {
struct Limit {
  explicit Limit(int64_t more) {
    memory::empty_cache();
    set_memory_limit(memory_stats().reserved + more);
  }
  ~Limit() { set_memory_limit(0); }
};
}  // namespace

TEST_CASE("out of memory: asked, held, and by which ops and lines, in every mode") {
  for (const char* mode : {"eager", "automatic", "compiled"}) {
    const jit::ModeGuard guard(mode[0] == 'e' ? jit::Mode::eager : jit::Mode::automatic);
    const Tensor x = randn({1 << 20}).requires_grad_();  // 4 MiB
    synchronize();
    std::string text;
    int saved = 0;
    {
      const Limit limit(40 << 20);
      const auto body = [&] {
        Tensor y = x;
        saved = __LINE__ + 1;
        for (int i = 0; i < 50; ++i) y = y.sin();
        return y;
      };
      auto compiled = compile(body);
      try {
        const Tensor y = mode[0] == 'c' ? compiled() : body();
        synchronize();
      } catch (const OutOfMemoryError& e) {
        text = e.what();
      }
    }
    INFO(mode << ": " << text);
    HAS(text, "out of memory: 4.0 MiB asked for");
    HAS(text, "held");
    HAS(text, "limit FRIT_MEMORY_LIMIT");
    if (mode[0] != 'c') {  // where the ops are one kernel, none has got its memory yet
      HAS(text, "saved for backward: ");
      HAS(text, "most by sin at ");
    }
    HAS(text, "test_out_of_memory.cpp:" + std::to_string(saved));
    HAS(text, "Leaves that require gradients: 4.0 MiB");
    const Tensor after = (x.detach() * 2).sum();
    CHECK(std::isfinite(after.item<float>()));
  }
}
