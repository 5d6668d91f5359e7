// save and load: tensors, lists, modules, optimisers, archives; damaged and foreign checkpoints; and training that is resumed from one
// and continues bit for bit.
#include <limits>
#include <sstream>
#include <catch2/catch.hpp>
#include "frit/serialize.h"
#include "tests/support/files.h"

using namespace frit;
using namespace frit::test;
using Catch::Matchers::Contains;

namespace {

struct Net : nn::Module {
  nn::Linear first{nullptr}, last{nullptr};
  nn::BatchNorm1d norm{nullptr};
  nn::Dropout dropout{nullptr};
  explicit Net(int64_t width = 16) {
    first = register_module("first", nn::Linear(8, width));
    norm = register_module("norm", nn::BatchNorm1d(width));
    dropout = register_module("dropout", nn::Dropout(0.4));
    last = register_module("last", nn::Linear(width, 3));
  }
  Tensor forward(const Tensor& x) { return last(dropout(relu(norm(first(x))))); }
};

std::string state_of(const nn::Module& module) {
  std::string bytes;
  for (const auto& p : module.named_parameters()) bytes += p.key() + bytes_of(p.value());
  for (const auto& b : module.named_buffers()) bytes += b.key() + bytes_of(b.value());
  return bytes;
}

using Make = std::function<std::unique_ptr<optim::Optimizer>(std::vector<Tensor>)>;
template <class O, class Options> Make maker(Options options) {
  return [options](std::vector<Tensor> p) { return std::make_unique<O>(std::move(p), options); };
}
const std::vector<std::pair<const char*, Make>> optimizers{
    {"SGD", maker<optim::SGD>(optim::SGDOptions(0.05))},
    {"SGD with momentum", maker<optim::SGD>(optim::SGDOptions(0.05).momentum(0.9).nesterov(true).weight_decay(1e-3))},
    {"Adam", maker<optim::Adam>(optim::AdamOptions(0.01).amsgrad(true))},
    {"AdamW", maker<optim::AdamW>(optim::AdamWOptions(0.01).betas({0.8, 0.95}))},
    {"RMSprop", maker<optim::RMSprop>(optim::RMSpropOptions(0.01).momentum(0.5).centered(true))}};

void train(Net& net, optim::Optimizer& optimizer, optim::StepLR& schedule, int steps) {
  for (int i = 0; i < steps; ++i) {
    const Tensor x = randn({12, 8}), target = randint(3, {12});
    optimizer.zero_grad();
    nn::functional::cross_entropy(net.forward(x), target).backward();
    optimizer.step();
    schedule.step();
  }
}

}  // namespace

TEST_CASE("tensors and lists come back, through files and streams", "[serialize]") {
  Folder folder;
  const Tensor t = randn({3, 4}).t();
  Tensor back;
  save(t, folder / "t");
  load(back, folder / "t");
  CHECK(same(back, t));
  CHECK_FALSE(back.requires_grad());

  const Tensor w = ones({2}, dtype(kFloat64).requires_grad(true));
  save(w, folder / "w");
  load(back, folder / "w");
  CHECK(back.requires_grad());
  CHECK(same(back, w));

  const std::vector<Tensor> list{t, Tensor(), arange(5), w, tensor(true), zeros({0, 2}, kBFloat16), Tensor()};
  std::stringstream stream;
  save(list, stream);
  std::vector<Tensor> lists{ones({1})};
  load(lists, stream);
  REQUIRE(lists.size() == list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    CHECK(lists[i].defined() == list[i].defined());
    if (list[i].defined()) CHECK(same(lists[i], list[i]));
  }
  CHECK(lists[3].requires_grad());
  save(std::vector<Tensor>(), folder / "none");
  load(lists, folder / "none");
  CHECK(lists.empty());
  const std::vector<Tensor> many(12, t);    // 10 and 11 sort before 2
  save(many, folder / "many");
  load(lists, folder / "many");
  CHECK(lists.size() == 12);

  // A safetensors file of others is a list too, where its names are numbers.
  save_safetensors(folder / "plain", {{"0", t}, {"1", w}});
  load(lists, folder / "plain");
  CHECK(lists.size() == 2);
  CHECK(same(lists[1], w));
  CHECK_THROWS_AS(save(Tensor(), folder / "u"), ValueError);
}

TEST_CASE("archives nest, and keep values exactly", "[serialize]") {
  Folder folder;
  serialize::OutputArchive out, inner;
  inner.write("t", arange(3));
  inner.write("deep", inner);
  const double odd[] = {0.1, -0.0, 1e-310, 5e-324, 1.7976931348623157e308, 1.0 / 3, 1e22, 123456789.0, std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
  for (size_t i = 0; i < std::size(odd); ++i) out.write("d" + std::to_string(i), odd[i]);
  out.write("nan", std::numeric_limits<double>::quiet_NaN());
  out.write("low", std::numeric_limits<int64_t>::min());
  out.write("high", std::numeric_limits<int64_t>::max());
  out.write("yes", true);
  out.write("text", "a \"b\"\n\xc3\xbc");
  out("inner", inner);
  out.save_to(folder / "a");

  serialize::InputArchive in, part;
  in.load_from(folder / "a");
  for (size_t i = 0; i < std::size(odd); ++i) {
    double d = 7;
    in.read("d" + std::to_string(i), d);
    CHECK(std::memcmp(&d, &odd[i], 8) == 0);
  }
  double d = 0;
  in.read("nan", d);
  CHECK(std::isnan(d));
  int64_t n = 0;
  in.read("low", n);
  CHECK(n == std::numeric_limits<int64_t>::min());
  in.read("high", n);
  CHECK(n == std::numeric_limits<int64_t>::max());
  bool yes = false;
  in("yes", yes);
  CHECK(yes);
  std::string text;
  in.read("text", text);
  CHECK(text == "a \"b\"\n\xc3\xbc");
  in.read("inner", part);
  CHECK(part.keys() == std::vector<std::string>{"deep", "t"});
  Tensor t;
  part.read("t", t);
  CHECK(same(t, arange(3)));
  Tensor filled = zeros({3}, kInt64), alias = filled;
  CHECK(part.try_read("deep.t", filled));
  CHECK(same(alias, arange(3)));

  CHECK_THROWS_WITH(part.read("none", t), Contains("inner.none") && Contains("deep, t"));
  CHECK_FALSE(part.try_read("none", t));
  CHECK_FALSE(in.try_read("none", part));
  CHECK_THROWS_AS(in.read("none", part), FileError);
  CHECK_THROWS_WITH(in.read("text", n), Contains("not a whole number"));
  CHECK_THROWS_WITH(in.read("none", n), Contains("no value 'none'"));
  Tensor wrong = zeros({4}, kInt64), type = zeros({3});
  CHECK_THROWS_AS(part.read("t", wrong), ShapeError);
  CHECK_THROWS_AS(part.read("t", type), ShapeError);
  CHECK_THROWS_WITH(out.write("yes", false), Contains("already"));
}

TEST_CASE("modules come back, by holder, pointer and reference", "[serialize]") {
  Folder folder;
  manual_seed(1);
  nn::Sequential a(nn::Linear(3, 4), nn::BatchNorm1d(4), nn::Linear(4, 2)), b(nn::Linear(3, 4), nn::BatchNorm1d(4), nn::Linear(4, 2));
  a->forward(randn({5, 3}));
  CHECK(state_of(*a) != state_of(*b));
  save(a, folder / "m");
  const Tensor weight = b->parameters()[0];
  load(b, folder / "m");
  CHECK(state_of(*a) == state_of(*b));
  CHECK(weight.is_same(b->parameters()[0]));
  CHECK(weight.requires_grad());
  CHECK(load_safetensors(folder / "m").count("0.weight") == 1);

  auto shared = std::make_shared<Net>();
  Net plain;
  std::stringstream stream;
  save(shared, stream);
  load(plain, stream);
  CHECK(state_of(plain) == state_of(*shared));
}

TEST_CASE("a checkpoint that does not fit is an error and changes nothing", "[serialize]") {
  Folder folder;
  Net wide(32), net, other;
  save(wide, folder / "wide");
  std::string before = state_of(net);
  CHECK_THROWS_WITH(load(net, folder / "wide"), Contains("first.weight") && Contains("[32, 8]") && Contains("[16, 8]"));
  CHECK(state_of(net) == before);
  nn::Linear small(8, 16);
  save(small, folder / "small");
  CHECK_THROWS_WITH(load(net, folder / "small"), Contains("no tensor 'first.weight'"));
  // Everything but the last parameter.
  save(other, folder / "other");
  auto tensors = load_safetensors(folder / "other");
  tensors.erase("last.bias");
  save_safetensors(folder / "other", tensors);
  CHECK_THROWS_AS(load(net, folder / "other"), FileError);
  CHECK(state_of(net) == before);
  Net half;
  half.to(kFloat16);
  CHECK_THROWS_AS(load(half, folder / "wide"), ShapeError);

  optim::Adam adam(net.parameters(), optim::AdamOptions(0.5));
  optim::SGD sgd(net.parameters(), optim::SGDOptions(0.25));
  optim::Adam fewer({net.parameters()[0]}, optim::AdamOptions(0.5));
  save(adam, folder / "adam");
  CHECK_THROWS_WITH(load(sgd, folder / "adam"), Contains("another kind") && Contains("Adam"));
  CHECK_THROWS_WITH(load(fewer, folder / "adam"), Contains("parameters"));
  CHECK_THROWS_AS(load(adam, folder / "wide"), FileError);
  CHECK(sgd.param_groups()[0].options().get_lr() == 0.25);
  // The same number of parameters of other shapes.
  Net trained;
  optim::Adam stateful(trained.parameters());
  trained.forward(randn({4, 8})).sum().backward();
  stateful.step();
  optim::Adam for_wide(wide.parameters());
  save(stateful, folder / "stateful");
  CHECK_THROWS_WITH(load(for_wide, folder / "stateful"), Contains("same parameters"));
  CHECK(for_wide.state(wide.parameters()[0]) == nullptr);
}

TEST_CASE("metadata of a hostile checkpoint is checked", "[serialize]") {
  Folder folder;
  const auto loads = [&](const StringMap& metadata) {
    save_safetensors(folder / "x", {{"0", ones({1})}, {"i", arange(2)}}, metadata);
    Tensor t;
    load(t, folder / "x");
  };
  loads({});
  loads({{"format", "pt"}, {"values", "no JSON"}});
  loads({{"format", "frit"}, {"values", "{\"a\": {\"double\": \"nan\"}}"}, {"requires_grad", "[\"0\"]"}});
  for (const std::string& values : {std::string("no JSON"), std::string("[]"), std::string("{\"a\":[1]}"), std::string("{\"a\":18446744073709551615}"), std::string("{\"a\":null}"),
                                    std::string("{\"a\":{\"double\":\"1\"}}"), std::string(100000, '[')})
    CHECK_THROWS_AS(loads({{"format", "frit"}, {"values", values}}), FileError);
  for (const char* flags : {"{}", "[1]", "[\"none\"]", "[\"i\"]", "["}) CHECK_THROWS_AS(loads({{"format", "frit"}, {"requires_grad", flags}}), FileError);
  for (const char* size : {"-1", "1000000000000", "true", "\"2\""}) {
    save_safetensors(folder / "x", {{"0", ones({1})}}, {{"format", "frit"}, {"values", std::string("{\"size\":") + size + "}"}});
    std::vector<Tensor> list;
    CHECK_THROWS_AS(load(list, folder / "x"), FileError);
  }
}

TEST_CASE("the state of the random numbers can be kept and given back", "[serialize]") {
  manual_seed(42);
  rand({3});
  const Tensor state = get_rng_state(), first = randn({4});
  const Tensor order = randperm(10);
  set_rng_state(state);
  CHECK(same(randn({4}), first));
  CHECK(same(randperm(10), order));
  CHECK_THROWS_AS(set_rng_state(ones({16})), ValueError);
  CHECK_THROWS_AS(set_rng_state(Tensor()), ValueError);
}

TEST_CASE("training that is resumed from a checkpoint continues bit for bit", "[serialize]") {
  Folder folder;
  for (const jit::Mode mode : {jit::Mode::automatic, jit::Mode::eager})
    for (const auto& [name, make] : optimizers) {
      CAPTURE(name);
      manual_seed(5);
      Net net, again;
      const jit::ModeGuard guard(mode);
      auto optimizer = make(net.parameters());
      optim::StepLR schedule(*optimizer, 3, 0.5);
      train(net, *optimizer, schedule, 4);
      serialize::OutputArchive out;
      out.write("net", net);
      out.write("optimizer", *optimizer);
      out.write("schedule", schedule.step_count());
      out.write("random", get_rng_state());
      out.save_to(folder / "checkpoint");
      train(net, *optimizer, schedule, 5);

      manual_seed(99);
      auto resumed = make(again.parameters());
      optim::StepLR resumed_schedule(*resumed, 3, 0.5);
      train(again, *resumed, resumed_schedule, 1);  // its state has to go
      serialize::InputArchive in;
      in.load_from(folder / "checkpoint");
      in.read("net", again);
      in.read("optimizer", *resumed);
      int64_t steps = 0;
      in.read("schedule", steps);
      resumed_schedule.set_step_count(unsigned(steps));
      Tensor random;
      in.read("random", random);
      set_rng_state(random);
      train(again, *resumed, resumed_schedule, 5);
      CHECK(state_of(again) == state_of(net));
      CHECK(resumed->param_groups()[0].options().get_lr() == optimizer->param_groups()[0].options().get_lr());
      for (size_t i = 0; i < net.parameters().size(); ++i) CHECK(resumed->state(again.parameters()[i])->step == optimizer->state(net.parameters()[i])->step);
    }
}

TEST_CASE("options of each group come back, and what was never stepped has no state", "[serialize]") {
  Folder folder;
  Net net, again;
  const auto groups = [](Net& n) {
    std::vector<optim::OptimizerParamGroup> list;
    list.emplace_back(n.first->parameters());
    list.emplace_back(n.last->parameters(), std::make_unique<optim::AdamWOptions>(optim::AdamWOptions(0.3).weight_decay(0.7)));
    return list;
  };
  optim::AdamW a(groups(net), optim::AdamWOptions(0.1)), b(groups(again), optim::AdamWOptions(0.9));
  static_cast<optim::AdamWOptions&>(a.param_groups()[1].options()).betas({0.25, 1.0 / 3}).amsgrad(true).eps(1e-5);
  net.first->weight.sum().backward();
  a.step();
  save(a, folder / "a");
  load(b, folder / "a");
  CHECK(b.param_groups()[0].options().get_lr() == 0.1);
  const auto& options = static_cast<const optim::AdamWOptions&>(b.param_groups()[1].options());
  CHECK(options.lr() == 0.3);
  CHECK(options.weight_decay() == 0.7);
  CHECK(options.eps() == 1e-5);
  CHECK(options.amsgrad());
  CHECK(options.betas() == std::tuple(0.25, 1.0 / 3));
  CHECK(b.state(again.first->weight)->step == 1);
  CHECK(b.state(again.last->weight) == nullptr);
}
