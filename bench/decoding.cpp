// Decoding with a key-value cache (examples/decode.cpp), in eager and in automatic mode, token by token side by side in one process: milliseconds
// per token by windows of 20, whether all logits had the same bits, what was compiled; and, at some lengths, the same token again
// and again as a frozen compiled function of exactly that shape.
//   decoding [tokens to (1280)] [threads (1)] [each: 1 prints every window]
#define main decode_main
#include "../examples/decode.cpp"
#undef main
#include <algorithm>
#include <cstring>

namespace {
struct Side {
  jit::Mode mode;
  std::vector<Cache> caches;
  Tensor logits, next;
  double ms = 0;
  Side(jit::Mode mode, const Settings& s) : mode(mode) {
    for (int64_t i = 0; i < s.layers; ++i) caches.emplace_back(s);
  }
  void step(Transformer& net, const Tensor& tokens, int64_t length) {
    const jit::ModeGuard guard(mode);
    const auto start = std::chrono::steady_clock::now();
    logits = net.forward(tokens, length, &caches);
    next = logits.argmax(-1, true);
    synchronize();
    ms = 1e3 * seconds_since(start);
  }
};
bool same_bits(const Tensor& a, const Tensor& b) { return std::memcmp(a.const_data_ptr<float>(), b.const_data_ptr<float>(), size_t(a.numel()) * 4) == 0; }
double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + std::ptrdiff_t(v.size() / 2), v.end());
  return v[v.size() / 2];
}
}  // namespace

int main(int argc, char** argv) {
  Settings s;
  if (argc > 1) s.to = std::atoll(argv[1]);
  set_num_threads(argc > 2 ? std::atoi(argv[2]) : 1);
  const bool each = argc > 3 && std::atoi(argv[3]);
  manual_seed(0);
  NoGradGuard no_grad;
  Transformer net(s);
  net.eval();
  const Tensor prompt = randint(s.vocabulary, {s.batch, s.from});
  Side eager(jit::Mode::eager, s), automatic(jit::Mode::automatic, s);
  eager.step(net, prompt, 0), automatic.step(net, prompt, 0);
  int64_t different = !same_bits(eager.logits, automatic.logits), slower = 0, late = 0, windows = 0;
  double sum_eager = 0, sum_automatic = 0, all_eager = 0, all_automatic = 0;
  std::vector<double> recent;
  std::printf("  length   automatic ms   frozen ms   frozen/automatic\n");
  for (int64_t length = s.from, done = 1; length < s.to; ++length, ++done) {
    const Tensor token = eager.next;
    const jit::Stats before = jit::stats();
    jit::Stats after;
    if (done % 2) eager.step(net, token, length);
    const jit::Stats at = done % 2 ? jit::stats() : before;
    automatic.step(net, token, length);
    after = jit::stats();
    if (done % 2 == 0) eager.step(net, token, length);
    if (done > 50) late += after.tier0_flushes - at.tier0_flushes;
    if (each && after.tier0_flushes != at.tier0_flushes) std::printf("  length %lld: run op by op\n", (long long)length);
    different += !same_bits(eager.logits, automatic.logits);
    sum_eager += eager.ms, sum_automatic += automatic.ms;
    recent.push_back(automatic.ms);
    if (done % 20 == 0) {
      slower += sum_automatic > 1.03 * sum_eager, ++windows;
      if (each) std::printf("  window to %lld: eager %.3f automatic %.3f ratio %.3f\n", (long long)length, sum_eager / 20, sum_automatic / 20, sum_automatic / sum_eager);
      all_eager += sum_eager, all_automatic += sum_automatic;
      sum_eager = sum_automatic = 0;
    }
    if (done % 256 == 0) {  // this token once more, and again: exactly this shape, the body skipped
      auto frozen = compile([&](const Tensor& t) {
        for (Cache& c : automatic.caches) c.length = length;
        return net.forward(t, length, &automatic.caches).argmax(-1, true);
      }, jit::Options().frozen(true));
      std::vector<double> times;
      for (int i = 0; i < 64; ++i) {
        const auto start = std::chrono::steady_clock::now();
        const Tensor n = frozen(token);
        synchronize();
        times.push_back(1e3 * seconds_since(start));
      }
      for (Cache& c : automatic.caches) c.length = length + 1;
      const double of_frozen = median({times.begin() + 16, times.end()}), of_automatic = median({recent.end() - 64, recent.end()});
      std::printf("%8lld %14.3f %11.3f %18.2f\n", (long long)length, of_automatic, of_frozen, of_frozen / of_automatic);
    }
  }
  const jit::Stats j = jit::stats();
  std::printf("eager %.3f, automatic %.3f ms per token; %lld of %lld windows slower by more than 3 %%; %lld logits differ; flushes without a plan after 50 tokens: %lld\n"
              "%lld plans, %lld recompiles, %lld kernels\n",
              all_eager / double(windows * 20), all_automatic / double(windows * 20), (long long)slower, (long long)windows, (long long)different, (long long)late,
              (long long)j.plans_compiled, (long long)j.recompiles, (long long)j.kernels_compiled);
  for (const auto& r : jit::recompiles()) std::printf("  %s\n", r.reason.c_str());
}
