// Trains a classifier on the 60,000 images of Fashion-MNIST and measures it on the 10,000 test images after each epoch. Start
// reading at train. The data is Debian's package dataset-fashion-mnist, or a folder named on the command line.
#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <frit/frit.h>

using namespace frit;

namespace {

struct Settings {
  std::string folder = data::datasets::FashionMNIST::default_root;
  int64_t epochs = 8, batch = 256, seed = 0, threads = 0;
  double rate = 2e-3, at_least = 0;
};

const char* const usage =
    "fashion_mnist [options] [FOLDER]\n"
    "  FOLDER           with the four *-ubyte.gz files (default /usr/share/datasets/fashion-mnist)\n"
    "  --epochs N       times through the training images (8)\n"
    "  --batch N        images in a step (256)\n"
    "  --lr X           learning rate at the start (0.002)\n"
    "  --seed N         of the initial values, the order and the dropout (0)\n"
    "  --threads N      0: all processors (0)\n"
    "  --at-least X     fail when the final test accuracy is below X percent\n";

struct Net : nn::Module {
  nn::Linear first{nullptr}, second{nullptr}, last{nullptr};
  nn::Dropout dropout{nullptr};

  Net() {
    first = register_module("first", nn::Linear(784, 512));
    second = register_module("second", nn::Linear(512, 256));
    last = register_module("last", nn::Linear(256, 10));
    dropout = register_module("dropout", nn::Dropout(0.2));
  }
  Tensor forward(Tensor x) {
    x = x.flatten(1);
    x = dropout(relu(first(x)));
    x = dropout(relu(second(x)));
    return last(x);
  }
};

Tensor correct(const Tensor& logits, const Tensor& target) { return logits.argmax(1).eq(target).sum(); }

template <class Loader> double test_accuracy(Net& net, Loader& loader) {
  NoGradGuard no_grad;
  net.eval();
  int64_t hits = 0, images = 0;
  for (auto& batch : loader) {
    hits += correct(net.forward(batch.data), batch.target).template item<int64_t>();
    images += batch.data.size(0);
  }
  return 100.0 * double(hits) / double(images);
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The final accuracy on the test images, in percent.
double train(const Settings& s) {
  using data::datasets::FashionMNIST;
  if (s.threads) set_num_threads(int(s.threads));
  manual_seed(uint64_t(s.seed));

  FashionMNIST training(FashionMNIST::Mode::kTrain, s.folder), testing(FashionMNIST::Mode::kTest, s.folder);
  const int64_t count = int64_t(*training.size());
  const data::transforms::Normalize<> normalize(0.2860, 0.3530);
  auto loader = data::make_data_loader<data::samplers::RandomSampler>(training.map(normalize).map(data::transforms::Stack<>()),
                                                                     data::DataLoaderOptions(size_t(s.batch)).drop_last(true));
  auto test_loader = data::make_data_loader<data::samplers::SequentialSampler>(testing.map(normalize).map(data::transforms::Stack<>()), 1000);
  const int64_t steps = count / s.batch;
  if (steps == 0) throw std::runtime_error("a batch of " + std::to_string(s.batch) + " is larger than the " + std::to_string(count) + " training images");

  Net net;
  optim::AdamW optimizer(net.parameters(), optim::AdamWOptions(s.rate).weight_decay(0.05));
  const double total = double(steps * s.epochs);
  optim::LambdaLR schedule(optimizer, [total](unsigned step) { return 0.5 * (1 + std::cos(M_PI * step / total)); });
  nn::CrossEntropyLoss criterion(nn::CrossEntropyLossOptions().label_smoothing(0.05));

  int64_t parameters = 0;
  for (const Tensor& p : net.parameters()) parameters += p.numel();
  std::printf("%lld training images, %zu test images; 784-512-256-10, %lld parameters; batch %lld, %d threads\n\n", (long long)count, *testing.size(),
              (long long)parameters, (long long)s.batch, num_threads());
  std::printf("epoch    loss   train %%   test %%   seconds   images/s   peak MiB\n");
  const bool terminal = isatty(STDOUT_FILENO);
  double accuracy = 0, training_seconds = 0;
  for (int64_t epoch = 1; epoch <= s.epochs; ++epoch) {
    const auto start = std::chrono::steady_clock::now();
    memory::reset_peak();
    net.train();
    Tensor loss_sum = zeros({}), hits = zeros({}, kInt64);
    int64_t step = 0;
    for (auto& batch : *loader) {
      optimizer.zero_grad();
      const Tensor logits = net.forward(batch.data);
      const Tensor loss = criterion(logits, batch.target);
      loss.backward();
      optimizer.step();
      schedule.step();
      loss_sum += loss.detach();
      hits += correct(logits.detach(), batch.target);
      if (++step % 16 == 0 && terminal) {
        std::printf("\r%5lld  %3lld %%  loss %.4f", (long long)epoch, (long long)(100 * step / steps), loss_sum.item<double>() / double(step));
        std::fflush(stdout);
      }
    }
    const double loss = loss_sum.item<double>() / double(step), seconds = seconds_since(start);
    training_seconds += seconds;
    if (!std::isfinite(loss)) throw std::runtime_error("the loss is not finite; try a lower --lr");
    accuracy = test_accuracy(net, *test_loader);
    std::printf("%s%5lld  %6.4f   %7.2f  %7.2f  %8.2f  %9.0f  %9.1f\n", terminal ? "\r" : "", (long long)epoch, loss,
                100.0 * hits.item<double>() / double(step * s.batch), accuracy, seconds, double(step * s.batch) / seconds,
                double(memory::stats().peak) / 1048576.0);
    std::fflush(stdout);
  }
  std::printf("\ntest accuracy %.2f %% after %.1f s of training\n", accuracy, training_seconds);
  return accuracy;
}

[[noreturn]] void misuse(const std::string& why) {
  std::fprintf(stderr, "fashion_mnist: %s\n%s", why.c_str(), usage);
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
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    const auto whole = [&](double least) { return int64_t(number(option, argv[++i], true, least)); };
    if (option == "--help" || option == "-h") {
      std::fputs(usage, stdout);
      std::exit(0);
    } else if (option == "--epochs") {
      s.epochs = whole(1);
    } else if (option == "--batch") {
      s.batch = whole(1);
    } else if (option == "--seed") {
      s.seed = whole(0);
    } else if (option == "--threads") {
      s.threads = whole(0);
    } else if (option == "--lr") {
      s.rate = number(option, argv[++i], false, 0);
    } else if (option == "--at-least") {
      s.at_least = number(option, argv[++i], false, 0);
    } else if (option[0] == '-') {
      misuse("there is no option " + option);
    } else {
      s.folder = option;
    }
  }
  return s;
}

}  // namespace

int main(int argc, char** argv) {
  const Settings settings = parse(argc, argv);
  try {
    const double accuracy = train(settings);
    if (accuracy >= settings.at_least) return 0;
    std::fprintf(stderr, "fashion_mnist: %.2f %% is below the %.2f %% that were asked for\n", accuracy, settings.at_least);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "fashion_mnist: %s\n", e.what());
  }
  return 1;
}
