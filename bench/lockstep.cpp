// Two trainings of the transformer of examples/verses.cpp side by side in one process, one in eager and one in automatic mode: the same
// batch is a step of the one, then of the other, so that both see the same machine. Prints milliseconds per step by windows of 20
// steps, their ratio, how many flushes had no plan yet, kernels launched, memory, and whether every loss had the same bits.
//   lockstep [steps (500)] [threads (1)] [each: 1 prints every step]
#define main verses_main
#include "../examples/verses.cpp"
#undef main
#include <map>

namespace {
struct Side {
  jit::Mode mode;
  Transformer net;
  optim::AdamW optimizer;
  double ms = 0;
  Side(jit::Mode mode, const Settings& s, int64_t vocabulary, int64_t longest)
      : mode(mode), net((manual_seed(0), vocabulary), longest, s.d, s.layers, s.heads),
        optimizer(net.parameters(), optim::AdamWOptions(s.rate).betas({0.9, 0.98}).weight_decay(0.01)) {}
  float step(const Batch& batch) {
    jit::ModeGuard guard(mode);
    const auto start = std::chrono::steady_clock::now();
    const float value = train_step(net, optimizer, batch);
    ms = 1e3 * seconds_since(start);
    return value;
  }
};
}  // namespace

int main(int argc, char** argv) {
  Settings s;
  const int64_t steps = argc > 1 ? std::atoll(argv[1]) : 500;
  set_num_threads(argc > 2 ? std::atoi(argv[2]) : 1);
  const bool each = argc > 3 && std::atoi(argv[3]);
  std::vector<std::string> lines = verses_of_bible();
  const Alphabet alphabet(lines);
  const std::vector<int64_t> edges{48, 64, 80, 96, 112, 128, 144, 160, 192, 224, 256, 320, 384, 512};
  Verses set(std::move(lines), alphabet);
  const auto lengths = set.lengths();
  const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  buckets::set("seq", Buckets::edges(edges));
  auto loader = data::make_data_loader(std::move(set), data::BucketSampler(lengths, edges, data::BucketSamplerOptions().seed(0)),
                                       data::DataLoaderOptions(size_t(s.batch)).drop_last(true));
  Side eager(jit::Mode::eager, s, alphabet.size(), longest), automatic(jit::Mode::automatic, s, alphabet.size(), longest);
  struct Window { double eager = 0, automatic = 0; int64_t without_plan = 0, launches = 0; } window;
  jit::Stats half{};
  int64_t half_reserved = 0, recorded = 0;
  int64_t step = 0, different = 0, slower = 0;
  std::printf("   steps   eager ms   automatic ms   ratio   without plan   plans   recompiles   launches/step   MiB held\n");
  while (step < steps)
    for (auto& batch : *loader) {
      const bool eager_first = step % 2 == 0;
      float of_eager = 0, of_automatic = 0;
      if (eager_first) of_eager = eager.step(batch);
      const jit::Stats at = jit::stats();
      of_automatic = automatic.step(batch);
      const jit::Stats now = jit::stats();
      const auto flushes = jit::flushes();
      for (size_t i = flushes.size() - std::min(flushes.size(), size_t(now.flushes - at.flushes)); i < flushes.size(); ++i) recorded += flushes[i].ops;
      if (!eager_first) of_eager = eager.step(batch);
      different += std::memcmp(&of_eager, &of_automatic, 4) != 0;
      window.eager += eager.ms, window.automatic += automatic.ms;
      window.without_plan += now.tier0_flushes - at.tier0_flushes, window.launches += now.kernels_launched - at.kernels_launched;
      ++step;
      if (step == steps / 2) half = jit::stats(), half_reserved = memory::stats(kCPU).reserved;
      if (each)
        std::printf("%8lld %5lld %10.2f %14.2f %7.3f   tier0 %lld plans %lld launches %lld\n", (long long)step, (long long)batch.input.size(1), eager.ms, automatic.ms,
                    automatic.ms / eager.ms, (long long)(now.tier0_flushes - at.tier0_flushes), (long long)(now.plans_compiled - at.plans_compiled),
                    (long long)(now.kernels_launched - at.kernels_launched));
      if (step % 20 == 0) {
        const jit::Stats after = jit::stats();
        const double ratio = window.automatic / window.eager;
        slower += ratio > 1.03;
        std::printf("%8lld %10.2f %14.2f %7.3f %14lld %7lld %12lld %15.1f %10.1f\n", (long long)step, window.eager / 20, window.automatic / 20, ratio,
                    (long long)window.without_plan, (long long)after.plans_compiled, (long long)after.recompiles,
                    double(window.launches) / 20, double(memory::stats(kCPU).current) / 1048576);
        std::fflush(stdout);
        window = {};
      }
      if (step == steps) break;
    }
  const jit::Stats end = jit::stats();
  std::printf("%lld losses differ; %lld windows slower by more than 3 %%\n", (long long)different, (long long)slower);
  std::printf("compiled %.1f ms in all; ops recorded in automatic mode %.1f a step\n", end.compile_ms, double(recorded) / double(step));
  const auto line = [](const char* when, const jit::Stats& s, int64_t reserved) {
    std::printf("%-9s %5lld plans, %5lld kernels, %8lld bytes of code, %7.1f MiB reserved\n", when, (long long)s.plans_compiled, (long long)s.kernels_compiled, (long long)s.cache_bytes,
                double(reserved) / 1048576);
  };
  line("half way:", half, half_reserved), line("end:", end, memory::stats(kCPU).reserved);
  std::map<std::string, int> reasons;
  for (const auto& r : jit::recompiles()) ++reasons[r.reason];
  for (const auto& [reason, times] : reasons) std::printf("  %d x %s\n", times, reason.c_str());
}
