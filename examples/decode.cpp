// Generation with a key-value cache: each step takes one token, appends its keys and values, attends to all before it, and picks the
// next one, so that every step is one longer than the last. The weights are random; what counts is the speed, and that the cached
// steps give what a forward over the whole text gives. Start reading at generate.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>
#include <frit/frit.h>

using namespace frit;

namespace {

struct Settings {
  int64_t from = 256, to = 1280, d = 256, layers = 4, heads = 8, vocabulary = 256, batch = 1, seed = 0, threads = 0, checks = 4;
  bool grow = false;
  double tolerance = 1e-4;
};

const char* const usage =
    "decode [options]\n"
    "  --from N         tokens of the prompt (256)\n"
    "  --to N           tokens at the end (1280)\n"
    "  --batch N        texts side by side (1)\n"
    "  --d N            width (256); a multiple of --heads\n"
    "  --layers N       blocks (4)\n"
    "  --heads N        of attention (8)\n"
    "  --vocabulary N   different tokens (256)\n"
    "  --cache C        fixed: written in place into room for all; grown: by cat (fixed)\n"
    "  --mode M         automatic or eager (FRIT_MODE, else automatic)\n"
    "  --checks N       places at which a forward over the whole text is compared (4)\n"
    "  --tolerance X    of that comparison, relative to the largest logit (1e-4)\n"
    "  --seed N         of the weights and the prompt (0)\n"
    "  --threads N      0: all processors (0)\n";

// The keys and values of one block, [batch, heads, length, d / heads].
struct Cache {
  Tensor keys, values;
  int64_t length = 0;
  bool grow;

  Cache(const Settings& s) : grow(s.grow) {
    if (grow) return;
    keys = zeros({s.batch, s.heads, s.to, s.d / s.heads});
    values = zeros_like(keys);
  }
  // Everything up to and with the new ones.
  std::pair<Tensor, Tensor> append(const Tensor& k, const Tensor& v) {
    const int64_t added = k.size(2);
    if (grow) {
      keys = length ? cat({keys, k}, 2) : k;
      values = length ? cat({values, v}, 2) : v;
    } else {
      keys.narrow(2, length, added).copy_(k);
      values.narrow(2, length, added).copy_(v);
    }
    length += added;
    return {keys.narrow(2, 0, length), values.narrow(2, 0, length)};
  }
};

struct BlockImpl : nn::Module {
  int64_t heads;
  nn::RMSNorm before_attention{nullptr}, before_mlp{nullptr};
  nn::Linear qkv{nullptr}, join{nullptr}, up{nullptr}, down{nullptr};

  BlockImpl(int64_t d, int64_t heads) : heads(heads) {
    before_attention = register_module("before_attention", nn::RMSNorm(std::vector<int64_t>{d}));
    qkv = register_module("qkv", nn::Linear(nn::LinearOptions(d, 3 * d).bias(false)));
    join = register_module("join", nn::Linear(nn::LinearOptions(d, d).bias(false)));
    before_mlp = register_module("before_mlp", nn::RMSNorm(std::vector<int64_t>{d}));
    up = register_module("up", nn::Linear(nn::LinearOptions(d, 4 * d).bias(false)));
    down = register_module("down", nn::Linear(nn::LinearOptions(4 * d, d).bias(false)));
  }
  // `future` is undefined when no position lies after the last query.
  Tensor attention(const Tensor& x, const Tensor& future, Cache* cache) {
    const TensorList part = qkv(x).chunk(3, -1);
    const auto split = [&](const Tensor& t) { return rearrange(t, "b l (h d) -> b h l d", {{"h", heads}}); };
    const Tensor q = split(part[0]);
    Tensor k = split(part[1]), v = split(part[2]);
    if (cache) std::tie(k, v) = cache->append(k, v);
    Tensor scores = q.matmul(k.transpose(-2, -1)) * (1 / std::sqrt(double(q.size(-1))));
    if (future.defined()) scores = scores.masked_fill(future, -INFINITY);
    return join(rearrange(scores.softmax(-1).matmul(v), "b h l d -> b l (h d)"));
  }
  Tensor forward(Tensor x, const Tensor& future, Cache* cache) {
    x = x + attention(before_attention(x), future, cache);
    return x + down(silu(up(before_mlp(x))));
  }
};
FRIT_MODULE(Block);

struct Transformer : nn::Module {
  nn::Embedding token{nullptr}, place{nullptr};
  nn::ModuleList blocks{nullptr};
  nn::RMSNorm last{nullptr};
  nn::Linear head{nullptr};

  explicit Transformer(const Settings& s) {
    token = register_module("token", nn::Embedding(s.vocabulary, s.d));
    place = register_module("place", nn::Embedding(s.to, s.d));
    blocks = register_module("blocks", nn::ModuleList());
    for (int64_t i = 0; i < s.layers; ++i) blocks->push_back(Block(s.d, s.heads));
    last = register_module("last", nn::RMSNorm(std::vector<int64_t>{s.d}));
    head = register_module("head", nn::Linear(nn::LinearOptions(s.d, s.vocabulary).bias(false)));
  }
  // Logits [batch, vocabulary] after the last of the tokens [batch, length], of which the first stands at `start`.
  Tensor forward(const Tensor& tokens, int64_t start, std::vector<Cache>* caches) {
    const int64_t length = tokens.size(1);
    const Tensor at = arange(start, start + length, kInt64);
    Tensor future, x = token(tokens) + place(at);
    if (length > 1) future = arange(start + length, kInt64).unsqueeze(0) > at.unsqueeze(1);
    for (size_t i = 0; i < blocks->size(); ++i) x = blocks->at<Block>(i).forward(x, future, caches ? &(*caches)[i] : nullptr);
    return head(last(x.select(1, -1)));
  }
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The largest difference between cached and whole forwards, relative to the largest logit.
double generate(const Settings& s) {
  if (s.threads) set_num_threads(int(s.threads));
  manual_seed(uint64_t(s.seed));
  NoGradGuard no_grad;
  Transformer net(s);
  net.eval();
  int64_t parameters = 0;
  for (const Tensor& p : net.parameters()) parameters += p.numel();
  std::printf("%lld blocks of width %lld with %lld heads, %lld parameters; batch %lld, %s cache, %d threads, %s\n\n", (long long)s.layers, (long long)s.d,
              (long long)s.heads, (long long)parameters, (long long)s.batch, s.grow ? "grown" : "fixed", num_threads(),
              jit::mode() == jit::Mode::eager ? "eager" : "automatic");

  std::vector<Cache> caches(size_t(s.layers), Cache(s));
  if (!s.grow)
    for (Cache& c : caches) c = Cache(s);  // room of its own for each block
  const Tensor prompt = randint(s.vocabulary, {s.batch, s.from});
  auto start = std::chrono::steady_clock::now();
  Tensor logits = net.forward(prompt, 0, &caches), next = logits.argmax(-1, true);
  synchronize();
  std::printf("prompt of %lld tokens in %.1f ms\n\n  length   tokens/s   ms/token   difference\n", (long long)s.from, 1e3 * seconds_since(start));

  TensorList text{prompt};
  double worst = 0, total = 0;
  for (int64_t part = 0, length = s.from; part < std::max<int64_t>(s.checks, 1) && length < s.to; ++part) {
    const int64_t first = length, end = s.from + (s.to - s.from) * (part + 1) / std::max<int64_t>(s.checks, 1);
    start = std::chrono::steady_clock::now();
    for (; length < end; ++length) {
      text.push_back(next);
      logits = net.forward(next, length, &caches);
      next = logits.argmax(-1, true);
      synchronize();
    }
    const double seconds = seconds_since(start);
    total += seconds;
    if (length == first) continue;
    std::printf("%8lld   %8.0f   %8.3f", (long long)length, double((length - first) * s.batch) / seconds, 1e3 * seconds / double(length - first));
    if (s.checks) {
      const Tensor whole = net.forward(cat(text, 1), 0, nullptr);
      const double difference = (whole - logits).abs().max().item<double>() / whole.abs().max().item<double>();
      if (!(difference <= s.tolerance)) worst = std::isfinite(difference) ? std::max(worst, difference) : INFINITY;
      worst = std::max(worst, difference);
      std::printf("   %10.1e", difference);
    }
    std::printf("\n");
    std::fflush(stdout);
  }
  const jit::Stats j = jit::stats();
  std::printf("\n%.0f tokens/s over %lld tokens\n%lld plans compiled (%lld recompiles, %.0f ms), %lld plan hits, %lld flushes before a plan was there, %lld kernels compiled; eager: %lld ops\n",
              double((s.to - s.from) * s.batch) / total, (long long)((s.to - s.from) * s.batch), (long long)j.plans_compiled, (long long)j.recompiles, j.compile_ms,
              (long long)j.plan_hits, (long long)j.tier0_flushes, (long long)j.kernels_compiled, (long long)j.eager_ops);
  return worst;
}

// ---- the command line ---------------------------------------------------------------------------------------------------------
[[noreturn]] void misuse(const std::string& why) {
  std::fprintf(stderr, "decode: %s\n%s", why.c_str(), usage);
  std::exit(2);
}
double number(const std::string& option, const char* text, bool whole, double least) {
  char* end = nullptr;
  const double v = text ? std::strtod(text, &end) : 0;
  if (!text || end == text || *end || !(v >= least && v < 1e15) || (whole && v != std::floor(v)))
    misuse(option + " needs a " + (whole ? "whole " : "") + "number of at least " + std::to_string(int(least)));
  return v;
}
Settings parse(int argc, char** argv) {
  Settings s;
  struct Whole { const char* name; int64_t* value; double least; };
  const Whole wholes[] = {{"--from", &s.from, 1}, {"--to", &s.to, 2}, {"--d", &s.d, 1}, {"--layers", &s.layers, 1}, {"--heads", &s.heads, 1}, {"--vocabulary", &s.vocabulary, 2},
                          {"--batch", &s.batch, 1}, {"--seed", &s.seed, 0}, {"--threads", &s.threads, 0}, {"--checks", &s.checks, 0}};
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    const auto whole = std::find_if(std::begin(wholes), std::end(wholes), [&](const Whole& w) { return option == w.name; });
    const auto word = [&](const char* one, const char* other) {
      const std::string given = argv[++i] ? argv[i] : "";
      if (given != one && given != other) misuse(option + " is " + one + " or " + other);
      return given == one;
    };
    if (option == "--help" || option == "-h") {
      std::fputs(usage, stdout);
      std::exit(0);
    } else if (whole != std::end(wholes)) {
      *whole->value = int64_t(number(option, argv[++i], true, whole->least));
    } else if (option == "--tolerance") {
      s.tolerance = number(option, argv[++i], false, 0);
    } else if (option == "--mode") {
      jit::set_mode(word("eager", "automatic") ? jit::Mode::eager : jit::Mode::automatic);
    } else if (option == "--cache") {
      s.grow = word("grown", "fixed");
    } else {
      misuse("there is no option " + option);
    }
  }
  if (s.d % s.heads) misuse("--d has to be a multiple of --heads");
  if (s.to <= s.from) misuse("--to has to be above --from");
  return s;
}

}  // namespace

int main(int argc, char** argv) {
  const Settings settings = parse(argc, argv);
  try {
    const double difference = generate(settings);
    if (difference <= settings.tolerance) return 0;
    std::fprintf(stderr, "decode: a cached step differs from the whole forward by %.1e of the largest logit\n", difference);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "decode: %s\n", e.what());
  }
  return 1;
}
