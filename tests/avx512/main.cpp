// Generated AVX-512 code without the processor: kernels compiled here, run by Bochs with the same memory, and compared bit for bit with the
// interpreter (all NaNs are one value). Usage: avx512_image PATH_OF_BOCHS FOLDER [MODEL]. Cases are made in add_*; start at main.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <limits>
#include <sstream>
#include <tuple>
#include "jit/x86/compile.h"
#include "jit/x86/product_parts.h"
#include "runtime/cpu.h"
#include "tests/avx512/image.h"
#include "tests/support/fused_groups.h"
#include "tests/support/program_random.h"

using namespace frit;
using namespace frit::kernels;
using test::GuardedBuffer;

namespace {

// Two halves between two numbers of float16 each, to be rounded to the even one.
constexpr float ties[] = {1.00048828125f, 1.00146484375f};
[[gnu::target("avx,f16c"), gnu::noinline]] void round_ties(uint16_t* out) {
  for (int i = 0; i < 2; ++i) asm volatile("vmovss %1, %%xmm0\n\tvcvtps2ph $0, %%xmm0, %%xmm0\n\tvpextrw $0, %%xmm0, %0" : "=m"(out[i]) : "m"(ties[i]) : "xmm0");
}

// A call in the image, and what says whether its buffers are right afterwards: the first difference in words, or nothing.
struct Case {
  std::string name;
  std::vector<std::shared_ptr<GuardedBuffer>> buffers;
  std::function<std::string()> check;
  std::shared_ptr<void> keeps;
  bool rounds_to_float16 = false;
};
struct Suite {
  avx512::Image image;
  std::vector<Case> cases;
  std::mt19937_64 random{20261130};

  std::shared_ptr<GuardedBuffer> memory(Dtype d, int64_t count) {
    auto b = std::make_shared<GuardedBuffer>(d, size_t(count), true);
    test::fill_random(*b, random);
    return b;
  }
  void add(Case c, const void* entry, const std::vector<uint64_t>& arguments) {
    std::vector<std::pair<const void*, size_t>> buffers;
    for (const auto& b : c.buffers) buffers.emplace_back(b->data(), b->bytes());
    image.bring_region(entry);
    image.call(entry, arguments, buffers);
    cases.push_back(std::move(c));
  }
  // given: the arguments in the image; run: those of the interpreter, where it does with less.
  void add(const std::string& name, test::RandomProgram p, std::vector<Slot> given, const jit::CpuSchedule& schedule = {});
};

// What is compiled while this lives may be for a processor that is not this one.
struct ForAnother {
  const bool before = uses_avx512();
  ForAnother() { assume_avx512(); }
  ~ForAnother() { use_avx512(before); }
};

int64_t instances_of(const test::RandomProgram& p) {
  int64_t n = 1;
  const std::vector<int64_t> all = extents(p.program, p.args.data());
  for (size_t a = 0; a < all.size(); ++a)
    if (p.program.axes[a].kind == AxisKind::grid || p.program.axes[a].kind == AxisKind::sequential) n *= all[a];
  return n;
}
void Suite::add(const std::string& name, test::RandomProgram p, std::vector<Slot> given, const jit::CpuSchedule& schedule) {
  const auto compiled = [&] {
    const ForAnother other;
    return jit::compile_x86(p.program, schedule);
  };
  auto kernel = std::make_shared<jit::CpuKernel>(compiled());
  auto arguments = std::make_shared<std::vector<Slot>>(std::move(given));
  image.bring(arguments->data(), arguments->size() * sizeof(Slot));
  auto program = std::make_shared<test::RandomProgram>(std::move(p));
  Case c{name, program->buffers, {}, {}};
  // Those that are written come out, where each pointer is a buffer's.
  std::vector<bool> writes(program->buffers.size());
  size_t known = 0;
  for (size_t k = 0; k < program->program.params.size(); ++k)
    for (size_t n = 0; n < writes.size(); ++n)
      if (program->program.params[k].kind == ParamKind::pointer && program->args[k] == reinterpret_cast<uint64_t>(program->buffers[n]->data())) {
        ++known;
        if (program->program.params[k].written) writes[n] = true;
      }
  if (known == writes.size()) {
    c.buffers.clear();
    for (size_t n = 0; n < writes.size(); ++n) {
      if (writes[n]) c.buffers.push_back(program->buffers[n]);
      else image.bring_buffer(program->buffers[n]->data(), program->buffers[n]->bytes());
    }
  }
  for (const Param& q : program->program.params) c.rounds_to_float16 |= q.written && q.dtype == Dtype::Float16;
  for (const Instr& i : program->program.instrs) c.rounds_to_float16 |= i.op == Op::scalar && i.prim == Prim::round_float16;
  std::shared_ptr<GuardedBuffer> scratch;
  if (kernel->scratch_bytes) {
    scratch = memory(Dtype::UInt8, int64_t(kernel->scratch_bytes * ((*arguments)[kernel->scratch_slot] + 64) + 127) / 64 * 64);
    image.bring_buffer(scratch->data(), scratch->bytes());
  }
  c.keeps = std::make_shared<std::tuple<decltype(kernel), decltype(arguments), decltype(scratch)>>(kernel, arguments, scratch);
  std::vector<std::string> before;
  for (const auto& b : program->buffers) before.emplace_back(b->data(), b->bytes());
  c.check = [program, before] {  // what the image left is in the buffers now; the interpreter begins with what was there before
    std::vector<std::string> left;
    for (size_t n = 0; n < before.size(); ++n) {
      GuardedBuffer& b = *program->buffers[n];
      left.emplace_back(b.data(), b.bytes());
      if (b.bytes()) std::memcpy(b.data(), before[n].data(), b.bytes());
    }
    const std::string wrong = test::difference(*program, [&](const Slot*) {
      for (size_t n = 0; n < left.size(); ++n)
        if (!left[n].empty()) std::memcpy(program->buffers[n]->data(), left[n].data(), left[n].size());
    });
    return wrong.empty() ? wrong : wrong + "\n" + program->program.text();
  };
  const int64_t count = instances_of(*program);
  add(std::move(c), reinterpret_cast<const void*>(kernel->entry), {reinterpret_cast<uint64_t>(arguments->data()), 0, uint64_t(count), 0, uint64_t(std::numeric_limits<int64_t>::max()), scratch ? reinterpret_cast<uint64_t>(scratch->data()) : 0});
}

// Every type, primitive, conversion, reduction and way of addressing.
void add_random(Suite& s, uint64_t first, int count) {
  for (int i = 0; i < count; ++i) {
    test::RandomProgram p = test::random_program(first + uint64_t(i));
    const std::vector<Slot> args = p.args;
    s.add("random program " + std::to_string(first + uint64_t(i)), std::move(p), args);
  }
}

// What fusion makes of user code, on rows of `columns` elements; `rows` of them.
void add_fused(Suite& s, const std::string& name, int64_t rows, int64_t columns, const std::function<std::vector<Tensor>()>& body) {
  int which = 0;
  for (const test::FusedGroup& g : test::fused_groups(body)) {
    test::RandomProgram p;
    p.program = test::program_of(g);
    const bool elements = g.code.kind == jit::GroupKind::elements;
    if (g.code.kind == jit::GroupKind::columns) throw std::runtime_error(name + ": reduces columns");
    const auto pointer = [&](Dtype d) {
      p.buffers.push_back(s.memory(d, rows * columns));
      p.args.push_back(reinterpret_cast<uint64_t>(p.buffers.back()->data()));
    };
    for (const auto& o : g.code.outputs) pointer(o.memory);
    for (const auto& o : g.code.operands) pointer(o.memory);
    p.args.insert(p.args.end(), g.numbers.begin(), g.numbers.end());
    if (elements) p.args.push_back(uint64_t(rows * columns));
    else {
      p.args.push_back(uint64_t(columns)), p.args.push_back(uint64_t(rows));
      p.args.insert(p.args.end(), p.buffers.size(), uint64_t(columns));
    }
    const std::vector<Slot> args = p.args;
    s.add(name + (which++ ? ", group " + std::to_string(which) : "") + ", " + std::to_string(rows) + " x " + std::to_string(columns), std::move(p), args);
  }
}
void add_user_code(Suite& s) {
  for (int64_t columns : {1, 15, 16, 33, 100, 257}) {
    const int64_t rows = 3;
    for (Dtype d : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
      const Tensor x = randn({rows, columns}).to(d), y = randn({rows, columns}).to(d), z = randn({rows, columns}).to(d);
      const std::string type = std::string(" ") + dtype_name(d);
      add_fused(s, "transcendental" + type, rows, columns, [&] { return std::vector<Tensor>{(x.exp() + y.log()).tanh() * x.sin() + y.erf() / (z.cos() + 1.5) + z.sigmoid().sqrt()}; });
      add_fused(s, "powers" + type, rows, columns, [&] { return std::vector<Tensor>{x.abs().pow(y) + z.expm1() - z.abs().log1p()}; });
      add_fused(s, "gelu and its kin" + type, rows, columns, [&] { return std::vector<Tensor>{gelu(x) * silu(y), where(x.gt(y), x, z).clamp(-1, 1)}; });
      if (columns > 1) {
        add_fused(s, "softmax" + type, rows, columns, [&] { return std::vector<Tensor>{(x * 0.5 + y).softmax(-1)}; });
        add_fused(s, "normalised" + type, rows, columns, [&] {
          const Tensor centred = x - x.mean({-1}, true);
          return std::vector<Tensor>{centred * (centred.square().mean({-1}, true) + 1e-5).rsqrt() * y + z};
        });
        add_fused(s, "sums and extremes" + type, rows, columns, [&] { return std::vector<Tensor>{(x * y).sum({-1}, true) + z, x.amax({-1}, true) - z}; });
      }
      for (Dtype to : {kFloat32, kFloat64, kFloat16, kBFloat16, kInt64, kInt32, kUInt8})
        if (to != d) add_fused(s, "converted" + type + " " + dtype_name(to), rows, columns, [&] { return std::vector<Tensor>{(x * 3 + y).to(to), (x - y).to(to)}; });
    }
    const Tensor a = randint(-1000000, 1000000, {rows, columns}, kInt64), b = randint(1, 1000, {rows, columns}, kInt64);
    add_fused(s, "whole numbers of 64 bits", rows, columns, [&] { return std::vector<Tensor>{(a * b + (a / b).to(kInt64)).bitwise_and(a).bitwise_xor(b) - a.remainder(b), where(a.lt(b), a, b * 3)}; });
  }
}

// Rounding to the half formats where there is one nearest number, and back.
void add_halves(Suite& s) {
  for (Dtype d : {kFloat16, kBFloat16})
    for (int64_t count : {1, 16, 31, 500}) {
      ProgramBuilder b("halves");
      test::RandomProgram p;
      const Value wide = b.pointer(kFloat32), half = b.pointer(d), narrowed = b.pointer(d, true), widened = b.pointer(kFloat32, true), n = b.integer();
      const Value at = b.index(b.axis(AxisKind::block, n));
      b.store(narrowed, at, b.load(wide, at));
      b.store(widened, at, b.load(half, at));
      p.program = b.finish();
      for (Dtype m : {kFloat32, d, d, kFloat32}) {
        p.buffers.push_back(s.memory(m, count));
        p.args.push_back(reinterpret_cast<uint64_t>(p.buffers.back()->data()));
      }
      for (int64_t k = 0; k < count; ++k) {
        uint32_t& bits = reinterpret_cast<uint32_t*>(p.buffers[0]->data())[k];
        if ((bits >> 23 & 255) != 255 && (bits & 0x7fffffff)) bits |= 1;  // never half way
      }
      p.args.push_back(uint64_t(count));
      const std::vector<Slot> args = p.args;
      s.add(std::string("rounded to ") + dtype_name(d) + " and back, " + std::to_string(count), std::move(p), args);
      s.cases.back().rounds_to_float16 = false;
    }
}

// Results larger than the caches: stored past them. The extent says so; a few instances run.
void add_streaming(Suite& s) {
  for (Dtype d : {kFloat32, kFloat64, kInt64})
    for (int64_t columns : {1024, 1016, 77}) {
      ProgramBuilder b("streaming");
      test::RandomProgram p;
      const Value in = b.pointer(d), out = b.pointer(d, true), rows = b.integer(), width = b.integer();
      const int row = b.axis(AxisKind::grid, rows), lane = b.axis(AxisKind::block, width);
      const Value at = b.add(b.mul(b.index(row), width), b.index(lane)), v = b.load(in, at);
      b.store(out, at, b.add(b.mul(v, v), v));
      p.program = b.finish();
      constexpr int64_t some = 5;
      for (int k = 0; k < 2; ++k) {
        p.buffers.push_back(s.memory(d, some * columns));
        p.args.push_back(reinterpret_cast<uint64_t>(p.buffers.back()->data()));
      }
      p.args.push_back(uint64_t(some)), p.args.push_back(uint64_t(columns));
      std::vector<Slot> given = p.args;
      given[2] = uint64_t(1) << 24;
      s.add(std::string("streaming stores ") + dtype_name(d) + " " + std::to_string(columns), std::move(p), given);
    }
}

// The product's micro-kernels on packed strips and on rows in place: each element is one chain of fused multiply-adds.
template <class T> void add_product(Suite& s, jit::products::TileKey key) {
  using namespace jit::products;
  constexpr Dtype d = sizeof(T) == 8 ? kFloat64 : kFloat32;
  const int64_t lanes = 64 / int64_t(sizeof(T)), k = 37, strips = key.right == RightMode::Rows && !key.masked ? 2 : 1;  // beside each other
  const int64_t strip = strips * key.vectors * lanes, columns = key.masked ? strip - 3 : strip;
  const auto a = s.memory(d, k * key.rows), b = s.memory(d, k * strip), c = s.memory(d, key.rows * strip);
  for (const auto& m : {a, b, c})
    for (size_t i = 0; i < m->count(); ++i) reinterpret_cast<T*>(m->data())[i] = T(int64_t(s.random() % 2001) - 1000) / T(64);
  auto g = std::make_shared<TileArgs>();
  const int64_t size = sizeof(T);
  *g = TileArgs{.a = a->data(), .b = b->data(), .c = c->data(), .packed = nullptr, .next = b->data(), .k = k, .a_row = 0, .a_col = 0, .b_row = strip * size, .c_row = strip * size, .tiles = 1, .a_step = 0, .strips = strips, .mask = nullptr};
  g->a_row = key.left == LeftMode::Rows ? k * size : size, g->a_col = key.left == LeftMode::Rows ? size : key.rows * size;
  g->mask = mask_bits + (columns - (key.vectors - 1) * lanes);
  auto wanted = std::make_shared<std::vector<T>>(reinterpret_cast<T*>(c->data()), reinterpret_cast<T*>(c->data()) + c->count());
  for (int64_t i = 0; i < key.rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      T sum = 0;
      for (int64_t l = 0; l < k; ++l) {
        const T left = reinterpret_cast<T*>(a->data())[key.left == LeftMode::Rows ? i * k + l : l * key.rows + i];
        sum = std::fma(left, reinterpret_cast<T*>(b->data())[l * strip + j], sum);
      }
      T& place = (*wanted)[size_t(i * strip + j)];
      place = key.accumulate ? place + sum : sum;
    }
  Case made{"product " + std::to_string(key.rows) + " x " + std::to_string(strip) + (key.masked ? " masked" : "") + (key.accumulate ? " added" : "") + " " + dtype_name(d), {a, b, c}, {}, g};
  made.check = [c, wanted] {
    for (size_t i = 0; i < wanted->size(); ++i)
      if (std::memcmp(&(*wanted)[i], c->data() + i * sizeof(T), sizeof(T))) return "element " + std::to_string(i) + ": expected " + std::to_string((*wanted)[i]) + ", got " + std::to_string(reinterpret_cast<T*>(c->data())[i]);
    return std::string();
  };
  s.image.bring(g.get(), sizeof(TileArgs)), s.image.bring(mask_bits, sizeof mask_bits);
  s.add(std::move(made), reinterpret_cast<const void*>(tile_kernel(key)), {reinterpret_cast<uint64_t>(g.get())});
}
void add_products(Suite& s) {
  using namespace jit::products;
  for (bool accumulate : {false, true})
    for (bool masked : {false, true})
      for (LeftMode left : {LeftMode::Packed, LeftMode::Rows})
        for (RightMode right : {RightMode::Packed, RightMode::Rows})
          for (const auto& [rows, vectors] : {std::pair{14, 2}, {9, 3}, {8, 3}, {6, 4}, {1, 4}, {3, 1}}) {
            const TileKey key{.zmm = true, .rows = rows, .vectors = vectors, .left = left, .right = right, .accumulate = accumulate, .masked = masked};
            add_product<float>(s, key);
            TileKey wide = key;
            wide.wide = true;
            add_product<double>(s, wide);
          }
}

std::string contents(const std::string& path) {
  std::ifstream f(path, std::ios::binary);
  std::stringstream s;
  s << f.rdbuf();
  return s.str();
}
std::string run_bochs(const std::string& bochs, const std::string& folder, const std::string& model, size_t disk_bytes) {
  std::ofstream(folder + "/bochsrc") << "megs: 512\nromimage: file=$BXSHARE/BIOS-bochs-latest\nvgaromimage: file=$BXSHARE/VGABIOS-lgpl-latest\n"
                                     << "ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14\nata0-master: type=disk, path=" << folder << "/disk.img, mode=flat, cylinders=" << disk_bytes / (16 * 63 * 512)
                                     << ", heads=16, spt=63\nboot: disk\ncpu: model=" << model << ", count=1, ips=100000000, reset_on_triple_fault=0\nport_e9_hack: enabled=1\n"
                                     << "display_library: term\nlog: " << folder << "/bochs.log\npanic: action=fatal\nerror: action=report\nclock: sync=none\n";
  std::ofstream(folder + "/commands") << "c\n";  // for builds with the debugger
  const std::string command = "timeout 250 " + bochs + " -q -f " + folder + "/bochsrc -rc " + folder + "/commands < /dev/null > " + folder + "/output 2> " + folder + "/messages";
  if (std::system(command.c_str()) == -1) throw std::runtime_error("cannot start " + bochs);
  return contents(folder + "/output");
}
}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: avx512_image PATH_OF_BOCHS FOLDER [MODEL]\n");
    return 2;
  }
  const std::string folder = argv[2], model = argc > 3 ? argv[3] : "corei7_skylake_x";
  if (!cpu_info().generates_code()) {
    std::puts("skipped: code generation needs a processor with AVX2, FMA and F16C");
    return 77;
  }
  manual_seed(1);
  Suite s;
  auto tied = std::make_shared<GuardedBuffer>(kInt16, 2, true);
  s.image.bring(ties, sizeof ties);
  s.add(Case{"ties", {tied}, [] { return std::string(); }, {}}, reinterpret_cast<const void*>(&round_ties), {reinterpret_cast<uint64_t>(tied->data())});
  add_random(s, 1, 200);
  add_halves(s);
  add_user_code(s);
  add_streaming(s);
  add_products(s);
  for (const scalar::Table& table : scalar::tables()) s.image.bring_region(table.data);
  s.image.write(folder + "/disk.img");
  const avx512::Outcome o = avx512::Image::read(run_bochs(argv[1], folder, model, s.image.bytes()));
  std::printf("%s, an image of %.1f MB\n%s\n", model.c_str(), double(s.image.bytes()) / 1e6, o.processor.text().c_str());
  int wrong = 0, excused = 0;
  bool rounds_ties = true;
  for (size_t n = 0; n < o.left.size() && n < s.cases.size(); ++n) {
    const Case& c = s.cases[n];
    size_t at = 0;
    for (const auto& b : c.buffers) {
      if (at + b->bytes() > o.left[n].size()) break;
      if (b->bytes()) std::memcpy(b->data(), o.left[n].data() + at, b->bytes());
      at += b->bytes();
    }
    const std::string what = at != o.left[n].size() ? "not all of its buffers came out" : c.check();
    if (n == 0) rounds_ties = reinterpret_cast<uint16_t*>(tied->data())[0] == 0x3c00 && reinterpret_cast<uint16_t*>(tied->data())[1] == 0x3c02;
    if (what.empty()) continue;
    if (c.rounds_to_float16 && !rounds_ties) ++excused;
    else if (++wrong <= 10) std::printf("%s: %s\n", c.name.c_str(), what.c_str());
  }
  if (!rounds_ties) std::printf("this emulator's vcvtps2ph does not round ties to even: %d calls that round to float16 differ and say nothing\n", excused);
  if (!o.ended) {
    std::printf("the machine stopped after %zu of %zu calls%s%s\n", o.left.size(), s.cases.size(), o.left.size() < s.cases.size() ? ", in " : "", o.left.size() < s.cases.size() ? s.cases[o.left.size()].name.c_str() : "");
    const std::string log = contents(folder + "/bochs.log");
    std::printf("the end of Bochs's log:\n%s\n", log.substr(log.size() > 1200 ? log.size() - 1200 : 0).c_str());
  }
  std::printf("%zu calls of generated AVX-512 code, %d wrong\n", o.left.size(), wrong);
  return wrong || !o.ended || o.left.size() != s.cases.size();
}
