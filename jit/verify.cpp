// The shadow check: see verify.h. Start at run_verified. A difference is made small by cutting the trace: of the nodes that lead to the
// first differing root the last k stay, the others become leaves with the values that they had, for the smallest k that still differs when
// it is compiled anew.
#include "jit/verify.h"
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <fstream>
#include <mutex>
#include "jit/execute.h"
#include "jit/execute_parts.h"
#include "runtime/error.h"
#include "runtime/log.h"
#include "runtime/settings.h"
#include "tracer/layout.h"

namespace frit::jit {

using namespace tracer;

namespace {
using Owned = std::unique_ptr<Trace, void (*)(Trace*)>;
Owned own(Trace* t) { return {t, [](Trace* p) { release(p); }}; }

struct Check {
  std::mutex lock;
  std::vector<VerifyReport> reports;
  std::atomic<int64_t> every{settings().verify}, runs{0}, checked{0};
  std::atomic<bool> oracle{settings().verify_oracle};
  std::string folder = settings().verify_dir;
};
Check& check() {
  static Check* c = new Check;
  return *c;
}
constexpr size_t most_reports = 16;

// Bytes of one's own, with the value's layout.
Value* clone_storage(const Value& v) {
  const int64_t size = int64_t(size_of(v.dtype)), elements = int64_t(v.storage->bytes) / size;
  Value* whole = new_value(v.dtype, &elements, 1);
  std::memcpy(whole->storage->data, v.storage->data, size_t(elements * size));
  Layout l = layout_of(v);
  Value* copy = new_alias(*whole, l);
  release(whole);
  return copy;
}
// The same trace, not run: leaves whose storage it writes have a copy of it.
Owned again(const Trace& t) {
  Owned copy = own(new_trace());
  copy->nodes = t.nodes, copy->extent = t.extent, copy->parent = t.parent, copy->derived = t.derived, copy->name = t.name;
  copy->args = t.args, copy->lists = t.lists, copy->version = t.version, copy->written = t.written;
  copy->owner.assign(t.nodes.size(), nullptr);
  copy->value.assign(t.nodes.size(), nullptr);
  std::vector<const Storage*> written;
  for (uint32_t n : t.written)
    if (const Storage* s = t.outer_storage(n)) written.push_back(s);
  std::vector<std::pair<const Storage*, Value*>> cloned;
  for (uint32_t n = 0; n < t.nodes.size(); ++n) {
    if (t.nodes[n].call.op != Op::leaf) continue;
    Value* v = t.value[n];
    if (std::find(written.begin(), written.end(), v->storage) == written.end()) {
      retain(copy->value[n] = v);
      continue;
    }
    auto at = std::find_if(cloned.begin(), cloned.end(), [&](const auto& c) { return c.first == v->storage; });
    if (at == cloned.end()) at = cloned.insert(at, {v->storage, clone_storage(*v)});
    Layout l = layout_of(*v);
    copy->value[n] = new_alias(*at->second, l);
  }
  for (const auto& [storage, value] : cloned) release(value);
  return copy;
}

std::string hex(const void* bytes, size_t count) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string s;
  for (size_t i = 0; i < count; ++i) {
    const unsigned char b = static_cast<const unsigned char*>(bytes)[i];
    s += digits[b >> 4], s += digits[b & 15];
  }
  return s;
}
// The first element that is not the same bits (any NaN is any other), or how the layouts differ; empty: the same.
std::string difference(const Value& a, const Value& b) {
  if (a.dtype != b.dtype || a.rank != b.rank || !std::equal(a.extent, a.extent + a.rank, b.extent)) return "the shapes differ";
  const int64_t total = a.numel(), size = int64_t(size_of(a.dtype));
  for (int i = 0; i < a.rank && total; ++i)
    if (a.extent[i] > 1 && a.stride[i] != b.stride[i]) return "the strides of axis " + std::to_string(i) + " are " + std::to_string(a.stride[i]) + " and " + std::to_string(b.stride[i]);
  Cursor x(layout_of(a)), y(layout_of(b));
  for (int64_t i = 0; i < total; ++i, x.next(), y.next()) {
    const char *p = static_cast<const char*>(a.storage->data) + x.offset() * size, *q = static_cast<const char*>(b.storage->data) + y.offset() * size;
    if (!std::memcmp(p, q, size_t(size))) continue;
    const bool both_nan = dispatch(a.dtype, [&]<class T>(T) {
      T u, v;
      std::memcpy(&u, p, sizeof u), std::memcpy(&v, q, sizeof v);
      if constexpr (std::is_integral_v<T>) return false;
      else return std::isnan(double(float(u))) && std::isnan(double(float(v)));
    });
    if (!both_nan) return "element " + std::to_string(i) + " is 0x" + hex(p, size_t(size)) + " compiled, 0x" + hex(q, size_t(size)) + " node by node (bytes in memory order)";
  }
  return "";
}

void run_all(Trace& t, const std::vector<bool>& needed) {
  for (uint32_t n = 0; n < t.nodes.size(); ++n)
    if (t.nodes[n].call.op != Op::leaf && needed[n] && !t.value[n]) run_single(t, n);
}
// The first root that differs after the trace was compiled and run, beside the run of its copy.
std::string compare_runs(Trace& compiled, Trace& by_node, const std::vector<bool>& needed, const std::vector<bool>& roots, uint32_t& first) {
  const std::shared_ptr<Plan> p = build_plan(compiled, needed, roots);
  run_plan(p, compiled, CompileWhere::foreground);
  run_all(by_node, needed);
  for (uint32_t n = 0; n < roots.size(); ++n)
    if (roots[n] && compiled.nodes[n].call.op != Op::leaf)
      if (std::string d = difference(*compiled.value[n], *by_node.value[n]); !d.empty()) return first = n, d;
  return "";
}

// The nodes in `kept`, every other operand a leaf with its value of `from`. Null where a kept node writes in place: order matters then.
Owned cut(const Trace& from, const std::vector<bool>& kept, uint32_t root, uint32_t& new_root) {
  Owned t = own(new_trace());
  t->args = from.args;
  std::vector<uint32_t> to(from.nodes.size(), no_node);
  const auto append = [&](const Node& node, Value* v) {
    t->nodes.push_back(node), t->value.push_back(v), t->owner.push_back(nullptr), t->version.push_back(0);
    return uint32_t(t->nodes.size() - 1);
  };
  const auto leaf = [&](uint32_t n) {
    if (to[n] != no_node) return to[n];
    Value* v = from.value[n];
    Node node{};
    node.call = Call{.op = Op::leaf, .kind = uint8_t(v->dtype), .attr = v->rank};
    node.result.dtype = node.result.compute = v->dtype, node.result.rank = v->rank;
    for (int i = 0; i < v->rank; ++i) node.result.size[i] = t->new_size(v->extent[i]);
    node.result.size_end = uint16_t(t->extent.size()), node.result.join_end = uint16_t(t->joins);
    retain(v);
    return to[n] = append(node, v);
  };
  for (uint32_t n = 0; n <= root; ++n) {
    if (!kept[n]) continue;
    Node node = from.nodes[n];
    if (node.call.mode & (in_place | custom_gradient)) return own(nullptr);
    node.call.mode = 0;
    std::vector<uint32_t> in;
    for (int k = 0; k < from.input_count(n); ++k) {
      const uint32_t i = from.input(n, k);
      if (i != scalar_operand && !kept[i] && !from.value[i]) return own(nullptr);
      in.push_back(i == scalar_operand ? i : kept[i] ? to[i] : leaf(i));
    }
    if (inputs_of(node.call.op) < 0) {
      node.call.in[0] = uint32_t(t->lists.size());
      t->lists.insert(t->lists.end(), in.begin(), in.end());
    } else {
      std::copy(in.begin(), in.end(), node.call.in);
    }
    infer(*t, node.call, node.result, false);
    node.result.size_end = uint16_t(t->extent.size()), node.result.join_end = uint16_t(t->joins);
    to[n] = append(node, nullptr);
  }
  new_root = to[root];
  return t;
}

struct Small {
  Owned trace = own(nullptr);
  uint32_t root = no_node;
};
Small smallest(const Trace& by_node, uint32_t root) {
  std::vector<bool> leads(by_node.nodes.size());
  leads[root] = true;
  std::vector<uint32_t> order;  // the last first
  for (uint32_t n = root + 1; n-- > 0;) {
    if (!leads[n] || by_node.nodes[n].call.op == Op::leaf) continue;
    order.push_back(n);
    for (int k = 0; k < by_node.input_count(n); ++k)
      if (const uint32_t i = by_node.input(n, k); i != scalar_operand) leads[i] = true;
  }
  std::vector<bool> kept(by_node.nodes.size());
  for (size_t k = 0; k < order.size() && k < 200; ++k) {
    kept[order[k]] = true;
    Small s;
    s.trace = cut(by_node, kept, root, s.root);
    if (!s.trace) break;
    const Owned once = again(*s.trace), twice = again(*s.trace);
    const std::vector<bool> needed(s.trace->nodes.size(), true);
    std::vector<bool> roots(s.trace->nodes.size());
    roots[s.root] = true;
    uint32_t first;
    if (!compare_runs(*once, *twice, needed, roots, first).empty()) return s;
  }
  return {};
}

std::string program_of(const Trace& t, const std::vector<uint32_t>& roots, const std::string& what) {
  std::string s = "// Written by Frit's shadow check: " + what + "\n// Build: g++ -std=c++20 this.cpp -lfrit. It exits with 1 while the difference is there.\n";
  s += "#include <frit/verify.h>\n\nint main() {\n  return frit::jit::reproduce(R\"trace(" + text(t) + ")trace\", {";
  for (size_t i = 0; i < roots.size(); ++i) s += (i ? ", " : "") + std::to_string(roots[i]);
  s += "}, {\n";
  for (uint32_t n = 0; n < t.nodes.size(); ++n) {
    if (t.nodes[n].call.op != Op::leaf) continue;
    const Value& v = *t.value[n];
    s += "    {" + std::to_string(n) + ", {";
    for (int i = 0; i < v.rank; ++i) s += (i ? ", " : "") + std::to_string(v.stride[i]);
    s += "}, " + std::to_string(v.offset) + ", \"" + hex(v.storage->data, v.storage->bytes) + "\"},\n";
  }
  return s + "  });\n}\n";
}
std::string write_program(const std::string& folder, const std::string& text) {
  static std::atomic<int> next{0};
  const std::string path = folder + "/frit-verify-" + std::to_string(::getpid()) + "-" + std::to_string(next++) + ".cpp";
  std::ofstream out(path);
  out << text;
  out.flush();
  return out ? path : "";
}

// Every node in double precision, by the interpreter: how far the roots are from it, in units of their largest element.
double oracle_error(const Trace& t, const Trace& by_node, const std::vector<bool>& needed, const std::vector<bool>& roots) {
  Owned wide = own(new_trace());
  wide->args = t.args, wide->lists = t.lists, wide->extent = t.extent, wide->parent = t.parent, wide->derived = t.derived, wide->name = t.name;
  double worst = 0;
  for (uint32_t n = 0; n < t.nodes.size(); ++n) {
    Node node = t.nodes[n];
    const bool floating = is_floating(node.result.dtype);
    if (floating) node.result.dtype = Dtype::Float64;
    if (is_floating(node.result.compute)) node.result.compute = Dtype::Float64;
    wide->nodes.push_back(node), wide->value.push_back(nullptr), wide->owner.push_back(nullptr), wide->version.push_back(0);
    if (node.call.op == Op::leaf) {
      if (!floating) {
        retain(wide->value[n] = t.value[n]);
        continue;
      }
      wide->value[n] = new_value(Dtype::Float64, t.value[n]->extent, t.value[n]->rank);
      copy_values(*t.value[n], *wide->value[n]);
      continue;
    }
    if (!needed[n]) continue;
    std::vector<Value*> in;
    for (int k = 0; k < t.input_count(n); ++k) in.push_back(t.input(n, k) == scalar_operand ? nullptr : wide->value[t.input(n, k)]);
    if (is_floating(Dtype(node.call.kind)) && row(node.call.op).type == TypeRule::kind) wide->nodes[n].call.kind = uint8_t(Dtype::Float64);
    const RowKind kind = kind_of(node.call.op);
    ValueRef v = kind == RowKind::view ? run_view(*wide, n, *in[0]) : kind == RowKind::alias ? ValueRef::share(in[0]) : interpret(*wide, n, in.data());
    if (!v) v = run_reshape_copy(*wide, n, *in[0]);
    wide->value[n] = v.leave();
    if (!roots[n] || !floating) continue;
    double largest = 0, off = 0;
    Value* got = new_value(Dtype::Float64, wide->value[n]->extent, wide->value[n]->rank);
    Value* wanted = new_value(Dtype::Float64, wide->value[n]->extent, wide->value[n]->rank);
    copy_values(*by_node.value[n], *got), copy_values(*wide->value[n], *wanted);
    const double *x = reinterpret_cast<const double*>(got->data()), *y = reinterpret_cast<const double*>(wanted->data());
    for (int64_t i = 0; i < got->numel(); ++i)
      if (std::isfinite(x[i]) && std::isfinite(y[i])) largest = std::max(largest, std::abs(y[i])), off = std::max(off, std::abs(x[i] - y[i]));
    release(got), release(wanted);
    if (largest > 0) worst = std::max(worst, off / largest);
  }
  return worst;
}

void report(const Trace& by_node, const std::vector<bool>& roots, uint32_t root, const std::string& what, double error) {
  Check& c = check();
  VerifyReport r;
  r.op = op_name(by_node.nodes[root].call.op);
  r.difference = what;
  r.oracle_error = error;
  Small s = smallest(by_node, root);
  std::vector<uint32_t> wanted;
  if (s.trace) {
    wanted = {s.root};
  } else {  // the whole, with what it read (what it wrote in place it has written)
    s.trace = again(by_node);
    for (uint32_t n = 0; n < roots.size(); ++n)
      if (roots[n] && by_node.nodes[n].call.op != Op::leaf) wanted.push_back(n);
  }
  std::fill(s.trace->name.begin(), s.trace->name.end(), uint16_t(0));  // names are numbered by the process
  r.trace = text(*s.trace);
  r.program = write_program(c.folder.empty() ? "." : c.folder, program_of(*s.trace, wanted, r.op + ": " + what));
  FRIT_LOG_LINE(kernels, "verify: " + r.op + " differs: " + what + "; the plan is put out of use, see " + r.program);
  const std::lock_guard hold(c.lock);
  if (c.reports.size() < most_reports) c.reports.push_back(std::move(r));
}
}  // namespace

std::vector<VerifyReport> verify_reports() {
  const std::lock_guard hold(check().lock);
  return check().reports;
}
int64_t verified_runs() { return check().checked; }
void set_verify(int64_t every, bool oracle, std::string folder) {
  const std::lock_guard hold(check().lock);
  check().every = every, check().oracle = oracle, check().folder = std::move(folder);
  check().reports.clear();
}
bool verify_due() {
  Check& c = check();
  const int64_t every = c.every.load(std::memory_order_relaxed);
  return every > 0 && c.runs.fetch_add(1, std::memory_order_relaxed) % every == 0;
}

void run_verified(const PlanUse& use, const std::shared_ptr<Plan>& plan, Trace& t, const std::vector<bool>& needed, const std::vector<bool>& roots, CompileWhere where) {
  Check& c = check();
  const Owned by_node = again(t);
  try {
    run_all(*by_node, needed);
  } catch (const Error&) {  // an error of the user's values: nothing to compare
    return run_plan(plan, t, where);
  }
  const double error = c.oracle ? oracle_error(t, *by_node, needed, roots) : 0;
  run_plan(plan, t, where);
  ++c.checked;
  std::string what;
  for (uint32_t n = 0; n < t.nodes.size(); ++n) {
    const bool written = t.nodes[n].call.op == Op::leaf;
    if (!written && !roots[n]) continue;
    const std::string d = difference(*t.value[n], *by_node->value[n]);
    if (d.empty()) continue;
    if (what.empty()) what = d, report(*by_node, roots, n, d, error);
    copy_values(*by_node->value[n], *t.value[n]);
  }
  if (what.empty()) return;
  retire_plan(use.plan);
}

std::string compare_trace(const std::string& source, const std::vector<uint32_t>& wanted, const std::vector<LeafBytes>& leaves) {
  const auto t = parse_trace(source);
  t->value.assign(t->nodes.size(), nullptr), t->owner.assign(t->nodes.size(), nullptr), t->version.assign(t->nodes.size(), 0);
  for (const LeafBytes& l : leaves) {
    const Node& node = t->nodes.at(l.node);
    const int64_t size = int64_t(size_of(node.result.dtype)), elements = int64_t(l.bytes.size()) / 2 / size;
    Value* whole = new_value(node.result.dtype, &elements, 1);
    for (size_t i = 0; i + 1 < l.bytes.size(); i += 2) static_cast<unsigned char*>(whole->storage->data)[i / 2] = static_cast<unsigned char>(std::stoi(l.bytes.substr(i, 2), nullptr, 16));
    Layout layout;
    layout.rank = node.result.rank, layout.offset = l.offset;
    t->sizes(l.node, layout.extent);
    std::copy(l.strides.begin(), l.strides.end(), layout.stride);
    t->value[l.node] = new_alias(*whole, layout);
    release(whole);
  }
  for (uint32_t n = 0; n < t->nodes.size(); ++n)
    if ((t->nodes[n].call.mode & in_place) && t->nodes[n].call.op != Op::write_view) t->written.push_back(n);
  std::vector<bool> roots(t->nodes.size());
  for (uint32_t n : wanted) roots.at(n) = true;
  const Owned by_node = again(*t);
  uint32_t first = no_node;
  const std::string d = compare_runs(*t, *by_node, std::vector<bool>(t->nodes.size(), true), roots, first);
  return d.empty() ? "" : std::string(op_name(t->nodes[first].call.op)) + " (node " + std::to_string(first) + "): " + d;
}

}  // namespace frit::jit
