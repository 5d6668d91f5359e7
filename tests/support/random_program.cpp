// The generator of random programs. It runs the program eagerly while it writes it, so that it knows types, ranks and which
// tensors want gradients; shapes are kept as dims, so that a statement fits every repetition's extents. Statements are drawn
// by weight; one that throws here is most often left out. Start at Generator::program.
#include <algorithm>
#include "tests/support/random_program_generator.h"

namespace frit::testing {

// ---- inputs ---------------------------------------------------------------------------------------------------------------
void Generator::input(bool fixed) {
  const Dtype d = pick(types_);
  const Dims dims = any_dims(fixed || once_);
  const int way = int(below(8)), special = special_;
  const bool leaf = p_.gradients && is_floating(d) && chance(once_ ? 85 : 45);
  std::string text = "random_data(seed, " + names(dims) + ", " + constant(d) + (special ? ", /* special: 1 in */ " + std::to_string(special) : ", 0") + ")";
  if (way) text += ".clone()";  // else the program's own memory, whose ops run at their calls
  if (leaf) text = "Tensor(" + text + ").requires_grad_()";
  make(dims, text, {}, [=](Machine& m) {
    Tensor t = random_data(m.data_seed(), m.sizes(dims), d, special);
    if (way) t = t.clone();
    if (leaf) t.requires_grad_();
    else if (way < 4) synchronize();  // real from here on
    return t;
  });
}
void Generator::source() {
  const Dims dims = any_dims(false);
  const Dtype d = pick(types_);
  const std::string k = ", " + constant(d) + ")";
  int drawn = -1;
  switch (below(8)) {
    case 0: make(dims, "zeros(" + names(dims) + k, {}, [=](Machine& m) { return zeros(m.sizes(dims), d); }); break;
    case 1: case 5: {
      Scalar s = 0;
      const std::string t = number(s);
      make(dims, "full(" + names(dims) + ", " + t + k, {}, [=](Machine& m) { return full(m.sizes(dims), s, d); });
      break;
    }
    case 2: drawn = make(dims, "rand(" + names(dims) + k, {}, [=](Machine& m) { return frit::rand(m.sizes(dims), d); }); break;
    case 3: drawn = make(dims, "randn(" + names(dims) + k, {}, [=](Machine& m) { return randn(m.sizes(dims), d); }); break;
    case 7: drawn = make(dims, "randint(-3, 5, " + names(dims) + k, {}, [=](Machine& m) { return randint(-3, 5, m.sizes(dims), d); }); break;
    case 4: {
      const int e = any_dim(false);
      drawn = make({e}, "arange(e" + std::to_string(e) + k, {}, [=](Machine& m) { return arange(m.dim[size_t(e)], d); });
      break;
    }
    default: {
      const int a = any_slot();
      if (a >= 0) make(slots_[size_t(a)].dims, "ones_like(" + name(a) + ")", {a}, [=](Machine& m) { return ones_like(m.slot[size_t(a)]); });
    }
  }
  if (drawn >= 0 && chance(40)) drawn = view(drawn);
  if (drawn >= 0 && chance(40)) binary_of(drawn);
}

// ---- gradients --------------------------------------------------------------------------------------------------------------
void Generator::backward() {
  const int a = slot_where([&](int s) { return at(s).requires_grad(); });
  if (a < 0) return;
  const bool retain = chance(35), create = chance(12);
  const std::string rest = std::string(retain ? ", true" : ", {}") + (create ? ", true);" : ");");
  if (chance(75)) {
    add(name(a) + ".sum().backward({}" + rest, {a}, [=](Machine& m) { m.slot[size_t(a)].sum().backward({}, retain ? std::optional<bool>(true) : std::nullopt, create); });
  } else {
    add(name(a) + ".backward(ones_like(" + name(a) + ")" + rest, {a},
        [=](Machine& m) { m.slot[size_t(a)].backward(ones_like(m.slot[size_t(a)]).detach(), retain ? std::optional<bool>(true) : std::nullopt, create); });
  }
}
void Generator::gradient() {
  const int a = slot_where([&](int s) { return at(s).requires_grad() && !at(s).is_leaf(); });
  const int x = slot_where([&](int s) { return at(s).requires_grad() && s != a; });
  if (a < 0 || x < 0) return;
  const bool retain = chance(50), create = chance(50), square = chance(40);
  const Dims d = slots_[size_t(x)].dims;
  make(d, "autograd::grad({" + name(a) + (square ? ".square()" : "") + ".sum()}, {" + name(x) + "}, {}, " + (retain ? "true" : "false") + ", " + (create ? "true" : "false") + ", true)[0]", {a, x}, [=](Machine& m) {
    const Tensor y = square ? m.slot[size_t(a)].square().sum() : m.slot[size_t(a)].sum();
    return autograd::grad({y}, {m.slot[size_t(x)]}, {}, retain, create, true)[0];
  });
}
void Generator::update() {
  const int a = slot_where([&](int s) { return at(s).requires_grad() && at(s).is_leaf(); });
  if (a < 0) return;
  switch (below(5)) {
    case 0: make(slots_[size_t(a)].dims, name(a) + ".grad()", {a}, [=](Machine& m) { return m.slot[size_t(a)].grad(); }); break;
    case 1: {
      const bool none = chance(50);
      add(name(a) + ".zero_grad(" + (none ? "true" : "false") + ");", {a}, [=](Machine& m) { m.slot[size_t(a)].zero_grad(none); });
      break;
    }
    default: {
      no_grad_ = true;
      const double rate = 0.0625;
      if (chance(60))
        add("if (" + name(a) + ".grad().defined()) " + name(a) + ".sub_(" + name(a) + ".grad() * 0.0625);", {a}, [=](Machine& m) {
          Tensor& t = m.slot[size_t(a)];
          if (t.grad().defined()) t.sub_(t.grad() * rate);
        });
      else
        add(name(a) + ".mul_(0.96875);", {a}, [=](Machine& m) { m.slot[size_t(a)].mul_(0.96875); });
      no_grad_ = false;
    }
  }
}
// An optimiser over the leaves that live through the repetitions.
void Generator::optimizer() {
  std::vector<int> leaves = slots_where([&](int s) { return slots_[size_t(s)].kept && at(s).requires_grad() && at(s).is_leaf(); });
  if (leaves.empty()) return;
  const int kind = int(below(4)), which = optimizers_;
  std::string list;
  for (int s : leaves) list += (list.empty() ? "" : ", ") + name(s);
  const char* const made[] = {"SGD({%}, SGDOptions(0.125))", "SGD({%}, SGDOptions(0.125).momentum(0.5).weight_decay(0.25))", "AdamW({%}, AdamWOptions(0.0625))", "Adam({%}, AdamOptions(0.0625).amsgrad(true))"};
  std::string text = made[kind];
  text.replace(text.find('%'), 1, list);
  once_ = plain_ = true;
  if (add("optim::" + text.insert(text.find('('), " o" + std::to_string(which)) + ";", leaves, [=](Machine& m) {
        std::vector<Tensor> all;
        for (int s : leaves) all.push_back(m.slot[size_t(s)]);
        m.optimizers.resize(size_t(which) + 1);
        std::shared_ptr<optim::Optimizer>& o = m.optimizers[size_t(which)];
        if (kind == 0) o = std::make_shared<optim::SGD>(all, optim::SGDOptions(0.125));
        else if (kind == 1) o = std::make_shared<optim::SGD>(all, optim::SGDOptions(0.125).momentum(0.5).weight_decay(0.25));
        else if (kind == 2) o = std::make_shared<optim::AdamW>(all, optim::AdamWOptions(0.0625));
        else o = std::make_shared<optim::Adam>(all, optim::AdamOptions(0.0625).amsgrad(true));
      }))
    ++optimizers_;
  once_ = plain_ = false;
}
void Generator::train() {
  if (!optimizers_) return;
  const size_t which = size_t(below(optimizers_));
  const std::string o = "o" + std::to_string(which);
  if (chance(60)) backward();
  add(o + ".step();", {}, [=](Machine& m) {
    if (which < m.optimizers.size() && m.optimizers[which]) m.optimizers[which]->step();
  });
  const bool none = chance(70);
  if (chance(80))
    add(o + ".zero_grad(" + (none ? "true" : "false") + ");", {}, [=](Machine& m) {
      if (which < m.optimizers.size() && m.optimizers[which]) m.optimizers[which]->zero_grad(none);
    });
}
void Generator::hook() {
  const int a = slot_where([&](int s) { return at(s).requires_grad(); });
  if (a < 0) return;
  switch (below(3)) {
    case 0: add(name(a) + ".retain_grad();", {a}, [=](Machine& m) { m.slot[size_t(a)].retain_grad(); }); break;
    case 1: add(name(a) + ".register_hook([](const Tensor& g) { return g * 0.5; });", {a}, [=](Machine& m) { m.slot[size_t(a)].register_hook([](const Tensor& g) { return g * 0.5; }); }); break;
    default:
      add("if (" + name(a) + ".grad().defined()) show(" + name(a) + ".grad());", {a}, [=](Machine& m) {
        if (const Tensor g = m.slot[size_t(a)].grad(); g.defined()) m.show(g);
      });
  }
}

// ---- handles, reads ------------------------------------------------------------------------------------------------------------
void Generator::drop() {
  const int a = slot_where([&](int s) { return !slots_[size_t(s)].kept; });
  if (a < 0) return;
  plain_ = true;
  add(name(a) + " = Tensor();", {a}, [=](Machine& m) { m.slot[size_t(a)] = Tensor(); });
  plain_ = false;
  slots_[size_t(a)].live = false;
}
void Generator::read() {
  const int a = any_slot();
  if (a < 0) return;
  switch (below(5)) {
    case 0: add("synchronize();", {}, [](Machine&) { synchronize(); }); break;
    case 1: add("show(" + name(a) + ".is_contiguous());", {a}, [=](Machine& m) { m.show(m.slot[size_t(a)].is_contiguous() ? "contiguous" : "not contiguous"); }); break;
    default: add("show(" + name(a) + ");", {a}, [=](Machine& m) { m.show(m.slot[size_t(a)]); });
  }
}

TensorProgram Generator::program() {
  const jit::ModeGuard eager(jit::Mode::eager);
  const int repetitions = 4 + int(below(3));
  const std::vector<int64_t> usual{1, 2, 3, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17}, wide{0, 0, 1, 1, 2, 3, 5, 8, 9, 16, 17, 31, 33, 64, 65, 100, 130};
  // The generator itself runs with four different extents; its first repetition is dropped at the end.
  p_.extents.push_back({4, 3, 5, 2});
  const std::vector<int64_t> fixed{chance(3) ? 0 : pick(usual), pick(usual)};
  while (int(p_.extents.size()) <= repetitions) {
    std::vector<int64_t> e{fixed[0], fixed[1], pick(wide), pick(wide)};
    if (p_.extents.size() > 1 && chance(35)) e = p_.extents.back();
    if (e[0] * e[1] * e[2] * e[3] > 20000) continue;
    p_.extents.push_back(e);
  }
  limit_ = 30000;
  for (int i = 0; i < base_extents; ++i) p_.dims.push_back({Dim::base, i});
  p_.dims.push_back({Dim::constant, 1});
  p_.gradients = chance(55);
  few_dims_ = chance(35);
  p_.waits = chance(70);
  special_ = chance(50) ? int(3 + below(20)) : 0;
  types_ = {kFloat32, kFloat32, kFloat32};
  if (chance(35)) types_.push_back(pick(std::vector<Dtype>{kFloat16, kBFloat16, kFloat64}));
  if (chance(25)) types_.push_back(pick(std::vector<Dtype>{kInt64, kInt32, kBool, kUInt8, kInt8, kInt16}));
  if (chance(8)) types_ = {kFloat16, kBFloat16, kFloat64, kInt64, kBool, kFloat32, kInt32, kUInt8};
  if (chance(4)) types_ = {pick(std::vector<Dtype>{kFloat16, kBFloat16, kFloat64})};
  m_.program = &p_, m_.shown = &shown_;
  manual_seed(p_.seed);
  m_.enter(0);
  once_ = plain_ = true;
  for (int64_t n = 1 + below(3); n > 0; --n) input(true);
  p_.kept_slots = int(slots_.size());
  once_ = plain_ = false;
  if (p_.gradients && chance(45)) optimizer();
  for (int64_t n = 1 + below(3); n > 0; --n) input(false);
  const size_t wanted = p_.instructions.size() + 18 + size_t(below(30));
  const int reads = int(below(4)), writes = int(below(6)), views = int(below(6)), names = chance(30) ? 3 : 0;
  struct Choice { int weight; void (Generator::*f)(); };
  std::vector<Choice> choices = {{14, &Generator::unary}, {18, &Generator::binary}, {4, &Generator::ternary}, {10, &Generator::reduce},
                                 {6, &Generator::rows}, {2, &Generator::norm}, {names, &Generator::rename}, {4, &Generator::product}, {3, &Generator::windows}, {3 + views, &Generator::shape}, {writes, &Generator::write_view},
                                 {3, &Generator::index}, {writes / 2, &Generator::write_index}, {3, &Generator::join}, {4, &Generator::source},
                                 {3, &Generator::convert}, {5, &Generator::drop}, {reads, &Generator::read}, {2, &Generator::attention}};
  // Each program has its own taste: some kinds of statement not at all, some much more often. What needs several of one kind to go
  // wrong is found sooner so.
  for (Choice& c : choices) c.weight *= pick(std::vector<int>{0, 1, 1, 1, 4});
  choices[1].weight += 4;
  const auto write_any = [](Generator& g) { g.write(); };
  int total = writes;
  for (const Choice& c : choices) total += c.weight;
  const int gradient_weight = p_.gradients ? 10 : 0;
  for (int tries = 0; p_.instructions.size() < wanted && tries < 400; ++tries) {
    int64_t k = below(total + gradient_weight);
    if (k >= total) {
      switch (below(6)) {
        case 0: backward(); break;
        case 1: gradient(); break;
        case 2: update(); break;
        case 3: hook(); break;
        case 4: optimizers_ ? train() : backward(); break;
        default: write_any(*this);
      }
      continue;
    }
    for (const Choice& c : choices) {
      if ((k -= c.weight) < 0) {
        (this->*c.f)();
        break;
      }
    }
    if (k >= 0) write_any(*this);
  }
  if (p_.gradients) backward(), optimizers_ ? train() : update();
  plain_ = true;
  const int shows = int(below(101));  // how many of the results are shown; the others die unread
  for (size_t s = 0; s < slots_.size(); ++s)
    if (slots_[s].live && at(int(s)).defined() && (chance(shows) || s + 1 == slots_.size()))
      add("show(" + name(int(s)) + ");", {int(s)}, [s](Machine& m) { m.show(m.slot[s]); });
  p_.slots = int(slots_.size());
  p_.extents.erase(p_.extents.begin());
  return std::move(p_);
}

TensorProgram random_tensor_program(uint64_t seed) { return Generator(seed).program(); }

}  // namespace frit::testing
