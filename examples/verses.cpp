// Trains a small causal transformer, character by character, on the 31,102 verses of the King James Bible and writes new ones.
// Every verse is a sequence of its own length; a batch holds verses of like length and is as long as its longest, so nearly every
// step has another shape. Start reading at train. The text is what Debian's package bible-kjv prints, or a file of lines.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>
#include <frit/frit.h>

using namespace frit;

namespace {

struct Settings {
  std::string file, losses;
  int64_t steps = 800, batch = 16, d = 128, layers = 2, heads = 4, seed = 0, threads = 0, sample = 200, warmup = 40, report = 100;
  double rate = 3e-3, temperature = 0.7, at_most = 0;
};

const char* const usage =
    "verses [options] [FILE]\n"
    "  FILE             a text, one sequence a line (default: what `bible` of the package bible-kjv prints)\n"
    "  --steps N        of training (800)\n"
    "  --batch N        verses in a step (16)\n"
    "  --d N            width (128); a multiple of --heads\n"
    "  --layers N       blocks (2)\n"
    "  --heads N        of attention (4)\n"
    "  --lr X           highest learning rate (0.003)\n"
    "  --warmup N       steps until it is reached (40)\n"
    "  --report N       steps between two reports (100)\n"
    "  --seed N         of the initial values, the order and the samples (0)\n"
    "  --threads N      0: all processors (0)\n"
    "  --mode M         automatic or eager (FRIT_MODE, else automatic)\n"
    "  --sample N       characters to write at the end, at most (200)\n"
    "  --temperature X  of the samples (0.7)\n"
    "  --losses FILE    writes each step's loss, as a hexadecimal number\n"
    "  --at-most X      fail when the final held-out loss is above X\n";

// ---- the text -------------------------------------------------------------------------------------------------------------
std::vector<std::string> lines_of_file(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error("cannot read " + path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) lines.push_back(line);
  return lines;
}
// Each line is a reference, a space and the verse.
std::vector<std::string> verses_of_bible() {
  std::string text;
  if (FILE* pipe = popen("bible -f 'gen1:1-rev22:21' 2>/dev/null </dev/null", "r")) {
    std::array<char, 65536> block;
    while (const size_t n = std::fread(block.data(), 1, block.size(), pipe)) text.append(block.data(), n);
    if (pclose(pipe) != 0) text.clear();
  }
  if (text.empty())
    throw std::runtime_error("the program `bible` does not print the verses: install the packages bible-kjv and bible-kjv-text, or name a text file");
  std::vector<std::string> verses;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size()), space = text.find(' ', at);
    if (space < end) verses.push_back(text.substr(space + 1, end - space - 1));
    at = end + 1;
  }
  return verses;
}

// The bytes that occur, numbered from 1. 0 begins and ends a verse.
struct Alphabet {
  std::array<int64_t, 256> number{};
  std::string bytes = std::string(1, '\n');
  explicit Alphabet(const std::vector<std::string>& lines) {
    std::array<bool, 256> seen{};
    for (const std::string& line : lines)
      for (unsigned char c : line) seen[c] = true;
    for (int c = 0; c < 256; ++c)
      if (seen[size_t(c)]) number[size_t(c)] = int64_t(bytes.size()), bytes += char(c);
  }
  int64_t size() const { return int64_t(bytes.size()); }
};

struct Batch {
  Tensor input, target;   // int64 [batch, seq]; beyond a verse's end the target is -100, which losses pass over
  int64_t tokens;
};
class Verses : public data::BatchDataset<Verses, Batch> {
 public:
  Verses(std::vector<std::string> lines, const Alphabet& alphabet) : lines_(std::move(lines)), alphabet_(alphabet) {}
  std::optional<size_t> size() const override { return lines_.size(); }
  std::vector<int64_t> lengths() const {
    std::vector<int64_t> l;
    for (const std::string& line : lines_) l.push_back(int64_t(line.size()) + 1);
    return l;
  }
  Batch get_batch(const std::vector<size_t>& indices) override {
    int64_t length = 0, tokens = 0;
    for (size_t i : indices) length = std::max(length, int64_t(lines_[i].size()) + 1);
    const int64_t count = int64_t(indices.size());
    std::vector<int64_t> input(size_t(count * length), 0), target(size_t(count * length), -100);
    for (size_t row = 0; row < indices.size(); ++row) {
      const std::string& line = lines_[indices[row]];
      int64_t *in = &input[row * size_t(length)], *out = &target[row * size_t(length)];
      for (size_t k = 0; k < line.size(); ++k) in[k + 1 < size_t(length) ? k + 1 : 0] = out[k] = alphabet_.number[static_cast<unsigned char>(line[k])];
      in[0] = out[line.size()] = 0;
      tokens += int64_t(line.size()) + 1;
    }
    const auto as_tensor = [&](const std::vector<int64_t>& v) { return named(tensor(v, kInt64).view({count, length}), "batch seq"); };
    return {as_tensor(input), as_tensor(target), tokens};
  }

 private:
  std::vector<std::string> lines_;
  Alphabet alphabet_;
};

// ---- the model --------------------------------------------------------------------------------------------------------------
struct BlockImpl : nn::Module {
  int64_t heads;
  nn::RMSNorm before_attention{nullptr}, before_mlp{nullptr};
  nn::Linear qkv{nullptr}, join{nullptr}, up{nullptr}, down{nullptr};

  BlockImpl(int64_t d, int64_t heads) : heads(heads) {
    before_attention = register_module("before_attention", nn::RMSNorm(std::vector<int64_t>{d}));
    qkv = register_module("qkv", nn::Linear(nn::LinearOptions(d, 3 * d).bias(false)));
    join = register_module("join", nn::Linear(nn::LinearOptions(d, d).bias(false)));
    before_mlp = register_module("before_mlp", nn::RMSNorm(std::vector<int64_t>{d}));
    up = register_module("up", nn::Linear(d, 4 * d));
    down = register_module("down", nn::Linear(4 * d, d));
  }
  Tensor attention(const Tensor& x, const Tensor& future) {
    const TensorList part = qkv(x).chunk(3, -1);
    const auto split = [&](const Tensor& t) { return rearrange(t, "b l (h d) -> b h l d", {{"h", heads}}); };
    const Tensor q = split(part[0]), k = split(part[1]), v = split(part[2]);
    const Tensor scores = q.matmul(k.transpose(-2, -1)) * (1 / std::sqrt(double(q.size(-1))));
    return join(rearrange(scores.masked_fill(future, -INFINITY).softmax(-1).matmul(v), "b h l d -> b l (h d)"));
  }
  Tensor forward(Tensor x, const Tensor& future) {
    x = x + attention(before_attention(x), future);
    return x + down(gelu(up(before_mlp(x)), "tanh"));
  }
};
FRIT_MODULE(Block);

struct Transformer : nn::Module {
  nn::Embedding token{nullptr}, place{nullptr};
  nn::ModuleList blocks{nullptr};
  nn::RMSNorm last{nullptr};
  nn::Linear head{nullptr};

  Transformer(int64_t vocabulary, int64_t longest, int64_t d, int64_t layers, int64_t heads) {
    token = register_module("token", nn::Embedding(vocabulary, d));
    place = register_module("place", nn::Embedding(longest, d));
    blocks = register_module("blocks", nn::ModuleList());
    for (int64_t i = 0; i < layers; ++i) blocks->push_back(Block(d, heads));
    last = register_module("last", nn::RMSNorm(std::vector<int64_t>{d}));
    head = register_module("head", nn::Linear(nn::LinearOptions(d, vocabulary).bias(false)));
    for (auto& p : named_parameters()) {
      if (p.value().dim() < 2) continue;
      const bool into_residual = p.key().ends_with("join.weight") || p.key().ends_with("down.weight");
      nn::init::normal_(p.value(), 0, into_residual ? 0.02 / std::sqrt(2.0 * double(layers)) : 0.02);
    }
  }
  // Logits [batch, seq, vocabulary] of what follows each token.
  Tensor forward(const Tensor& tokens) {
    const int64_t length = tokens.size(1);
    const Tensor at = arange(length, kInt64), future = at.unsqueeze(0) > at.unsqueeze(1);
    Tensor x = token(tokens) + place(at);
    for (auto& block : *blocks) x = block->as<Block>()->forward(x, future);
    return head(last(x));
  }
};

Tensor loss_of(Transformer& net, const Batch& batch, Reduction::Kind reduction) {
  return nn::functional::cross_entropy(net.forward(batch.input).flatten(0, 1), batch.target.flatten(),
                                       nn::functional::CrossEntropyFuncOptions().reduction(reduction));
}

float train_step(Transformer& net, optim::AdamW& optimizer, const Batch& batch) {
  optimizer.zero_grad();
  const Tensor loss = loss_of(net, batch, kMean);
  loss.backward();
  nn::utils::clip_grad_norm_(net.parameters(), 1.0);
  optimizer.step();
  return loss.item<float>();
}

template <class Loader> double held_out_loss(Transformer& net, Loader& loader) {
  NoGradGuard no_grad;
  double sum = 0;
  int64_t tokens = 0;
  for (auto& batch : loader) {
    sum += loss_of(net, batch, kSum).template item<double>();
    tokens += batch.tokens;
  }
  return sum / double(tokens);
}

std::string write_verse(Transformer& net, const Alphabet& alphabet, int64_t longest, double temperature) {
  NoGradGuard no_grad;
  std::vector<int64_t> text{0};
  std::string verse;
  while (int64_t(text.size()) <= longest) {
    const Tensor logits = net.forward(named(tensor(text, kInt64).unsqueeze(0), "batch seq")).select(1, -1).squeeze(0);
    const int64_t next = (logits / temperature).softmax(-1).multinomial(1).item<int64_t>();
    if (next == 0) break;
    text.push_back(next);
    verse += alphabet.bytes[size_t(next)];
  }
  return verse;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The loss on held-out verses after training, in nats per character.
double train(const Settings& s) {
  if (s.threads) set_num_threads(int(s.threads));
  manual_seed(uint64_t(s.seed));
  const std::vector<std::string> lines = s.file.empty() ? verses_of_bible() : lines_of_file(s.file);
  if (lines.size() < 100) throw std::runtime_error("the text has only " + std::to_string(lines.size()) + " lines; it takes at least 100");
  const Alphabet alphabet(lines);
  std::vector<std::string> training, held_out;
  for (size_t i = 0; i < lines.size(); ++i) (i % 100 == 0 ? held_out : training).push_back(lines[i]);

  const std::vector<int64_t> edges{48, 64, 80, 96, 112, 128, 144, 160, 192, 224, 256, 320, 384, 512};
  Verses training_set(std::move(training), alphabet), held_out_set(std::move(held_out), alphabet);
  const auto lengths = training_set.lengths(), held_out_lengths = held_out_set.lengths();
  const int64_t longest = std::max(*std::max_element(lengths.begin(), lengths.end()), *std::max_element(held_out_lengths.begin(), held_out_lengths.end()));
  buckets::set("seq", Buckets::edges(edges));
  auto loader = data::make_data_loader(std::move(training_set), data::BucketSampler(lengths, edges, data::BucketSamplerOptions().seed(uint64_t(s.seed))),
                                       data::DataLoaderOptions(size_t(s.batch)).drop_last(true));
  auto held_out_loader = data::make_data_loader(std::move(held_out_set), data::BucketSampler(held_out_lengths, edges, data::BucketSamplerOptions().shuffle(false)), 32);

  Transformer net(alphabet.size(), longest, s.d, s.layers, s.heads);
  optim::AdamW optimizer(net.parameters(), optim::AdamWOptions(s.rate).betas({0.9, 0.98}).weight_decay(0.01));
  optim::LambdaLR schedule(optimizer, [&s](unsigned step) {
    const double after = (double(step) - double(s.warmup)) / std::max(1.0, double(s.steps - s.warmup));
    return after < 0 ? double(step + 1) / double(s.warmup + 1) : 0.1 + 0.45 * (1 + std::cos(M_PI * std::min(1.0, after)));
  });
  FILE* losses = nullptr;
  if (!s.losses.empty() && !(losses = std::fopen(s.losses.c_str(), "w"))) throw std::runtime_error("cannot write " + s.losses);

  int64_t parameters = 0;
  for (const Tensor& p : net.parameters()) parameters += p.numel();
  std::printf("%zu verses to train on, %zu held out, %lld different characters, at most %lld in a verse\n"
              "%lld blocks of width %lld with %lld heads, %lld parameters; batch %lld, %d threads, %s\n\n",
              lengths.size(), held_out_lengths.size(), (long long)alphabet.size() - 1, (long long)longest - 1, (long long)s.layers, (long long)s.d,
              (long long)s.heads, (long long)parameters, (long long)s.batch, num_threads(), jit::mode() == jit::Mode::eager ? "eager" : "automatic");
  double final_loss = held_out_loss(net, *held_out_loader);
  std::printf("  step   training   held out   ms/step   tokens/s   seconds\n%6d          -   %8.4f\n", 0, final_loss);
  std::fflush(stdout);

  const auto start = std::chrono::steady_clock::now();
  auto since = start;
  double loss_sum = 0;
  int64_t step = 0, tokens = 0, steps = 0;
  while (step < s.steps) {
    for (auto& batch : *loader) {
      schedule.step();
      const float value = train_step(net, optimizer, batch);
      if (losses) std::fprintf(losses, "%a\n", double(value));
      if (!std::isfinite(value)) throw std::runtime_error("the loss is not finite; try a lower --lr");
      loss_sum += value, tokens += batch.tokens, ++step, ++steps;
      if (step % s.report == 0 || step == s.steps) {
        const double seconds = seconds_since(since);
        final_loss = held_out_loss(net, *held_out_loader);
        std::printf("%6lld   %8.4f   %8.4f   %7.1f   %8.0f   %7.1f\n", (long long)step, loss_sum / double(steps), final_loss, 1e3 * seconds / double(steps),
                    double(tokens) / seconds, seconds_since(start));
        std::fflush(stdout);
        loss_sum = 0, tokens = 0, steps = 0, since = std::chrono::steady_clock::now();
      }
      if (step == s.steps) break;
    }
    if (step == 0) throw std::runtime_error("no bucket has a full batch of " + std::to_string(s.batch) + " verses; try a smaller --batch");
  }
  if (losses && std::fclose(losses) != 0) throw std::runtime_error("cannot write " + s.losses);
  std::printf("\nheld-out loss %.4f nats (%.3f bits) a character\n", final_loss, final_loss / M_LN2);
  if (s.sample > 0)
    for (int i = 0; i < 3; ++i) std::printf("  \"%s\"\n", write_verse(net, alphabet, std::min(s.sample, longest - 1), s.temperature).c_str());
  const jit::Stats j = jit::stats();
  std::printf("\n%lld plans compiled (%lld recompiles, %.0f ms), %lld plan hits, %lld flushes before a plan was there, %lld kernels compiled, %lld launched; "
              "eager: %lld ops, %lld kernels\n",
              (long long)j.plans_compiled, (long long)j.recompiles, j.compile_ms, (long long)j.plan_hits, (long long)j.tier0_flushes, (long long)j.kernels_compiled,
              (long long)j.kernels_launched, (long long)j.eager_ops, (long long)j.eager_kernels);
  return final_loss;
}

// ---- the command line ---------------------------------------------------------------------------------------------------------
[[noreturn]] void misuse(const std::string& why) {
  std::fprintf(stderr, "verses: %s\n%s", why.c_str(), usage);
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
  struct Real { const char* name; double* value; };
  const Whole wholes[] = {{"--steps", &s.steps, 1}, {"--batch", &s.batch, 1}, {"--d", &s.d, 1}, {"--layers", &s.layers, 1}, {"--heads", &s.heads, 1},
                          {"--seed", &s.seed, 0}, {"--threads", &s.threads, 0}, {"--sample", &s.sample, 0}, {"--warmup", &s.warmup, 0}, {"--report", &s.report, 1}};
  const Real reals[] = {{"--lr", &s.rate}, {"--temperature", &s.temperature}, {"--at-most", &s.at_most}};
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    const auto whole = std::find_if(std::begin(wholes), std::end(wholes), [&](const Whole& w) { return option == w.name; });
    const auto real = std::find_if(std::begin(reals), std::end(reals), [&](const Real& r) { return option == r.name; });
    if (option == "--help" || option == "-h") {
      std::fputs(usage, stdout);
      std::exit(0);
    } else if (whole != std::end(wholes)) {
      *whole->value = int64_t(number(option, argv[++i], true, whole->least));
    } else if (real != std::end(reals)) {
      *real->value = number(option, argv[++i], false, 0);
    } else if (option == "--losses") {
      if (!argv[++i]) misuse("--losses needs a file");
      s.losses = argv[i];
    } else if (option == "--mode") {
      const std::string mode = argv[++i] ? argv[i] : "";
      if (mode != "eager" && mode != "automatic") misuse("--mode is eager or automatic");
      jit::set_mode(mode == "eager" ? jit::Mode::eager : jit::Mode::automatic);
    } else if (option[0] == '-') {
      misuse("there is no option " + option);
    } else {
      s.file = option;
    }
  }
  if (s.d % s.heads) misuse("--d has to be a multiple of --heads");
  if (s.temperature == 0) misuse("--temperature has to be above 0");
  return s;
}

}  // namespace

int main(int argc, char** argv) {
  const Settings settings = parse(argc, argv);
  try {
    const double loss = train(settings);
    if (settings.at_most == 0 || loss <= settings.at_most) return 0;
    std::fprintf(stderr, "verses: the held-out loss %.4f is above the %.4f that were asked for\n", loss, settings.at_most);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "verses: %s\n", e.what());
  }
  return 1;
}
