// The ring of launches. Start at LaunchScope::end.
#include "jit/history.h"
#include <algorithm>
#include <mutex>
#include "runtime/buffer.h"
#include "tracer/attention.h"

namespace frit::jit {

using namespace tracer;

namespace detail {
std::atomic<bool> recording{false};
}
namespace {
using Clock = std::chrono::steady_clock;
struct Ring {
  std::mutex lock;
  std::vector<Launched> records;
  size_t size = 0, next = 0;
  Clock::time_point began;
};
Ring& ring() {
  static Ring* r = new Ring;
  return *r;
}
int64_t bytes_of(const Trace& t, uint32_t n) { return t.numel(n) * int64_t(size_of(t.nodes[n].result.dtype)); }
int64_t flops_of(const Trace& t, uint32_t n) {
  const Call& call = t.nodes[n].call;
  switch (kind_of(call.op)) {
    case RowKind::pointwise: return t.numel(n);
    case RowKind::reduce:
    case RowKind::scan: return t.numel(call.in[0]);
    case RowKind::attention: {
      const auto last = [&](uint32_t m, int k) { return t.extent[t.nodes[m].result.size[t.rank_of(m) - k]]; };
      const uint32_t q = t.input(n, 0), k = t.input(n, 1), v = t.input(n, 2);
      const int64_t depth = last(q, 1), width = last(v, 1), scores = t.numel(q) / std::max<int64_t>(depth, 1) * last(k, 2);
      return scores * (call.op == Op::attention ? 2 * (depth + width) : 6 * depth + 4 * width) / (call.attr & causal_attention ? 2 : 1);
    }
    case RowKind::product: return 2 * t.numel(n) * t.extent[t.nodes[call.in[0]].result.size[t.rank_of(call.in[0]) - 1]];
    case RowKind::convolution: {  // a multiply and an add per place, output channel and element of a channel group's kernel
      const uint32_t places = call.op == Op::convolution ? n : call.in[0], weight = call.op == Op::convolution_weight ? n : call.in[1];
      const int64_t out_channels = t.extent[t.nodes[weight].result.size[0]];
      return out_channels ? 2 * t.numel(places) * (t.numel(weight) / out_channels) : 0;
    }
    default: return 0;
  }
}
}  // namespace

uint32_t thread_number() {
  static std::atomic<uint32_t> next{0};
  static thread_local const uint32_t mine = next++;
  return mine;
}
std::chrono::steady_clock::time_point launches_began() {
  Ring& r = ring();
  const std::lock_guard hold(r.lock);
  return r.began;
}
void keep_launches(size_t launches) {
  Ring& r = ring();
  const std::lock_guard hold(r.lock);
  r.records.clear();
  r.size = launches, r.next = 0, r.began = Clock::now();
  detail::recording = launches > 0;
}
std::vector<Launched> launch_history() {
  Ring& r = ring();
  const std::lock_guard hold(r.lock);
  std::vector<Launched> in_order(r.records.begin() + std::ptrdiff_t(r.records.size() < r.size ? 0 : r.next), r.records.end());
  if (r.records.size() == r.size) in_order.insert(in_order.end(), r.records.begin(), r.records.begin() + std::ptrdiff_t(r.next));
  return in_order;
}

void LaunchScope::begin() {
  on_ = true;
  start_ = Clock::now();
}
void LaunchScope::end() noexcept {
  const Clock::time_point stop = Clock::now();
  Launched record;
  record.tier = tier, record.thread = thread_number(), record.memory = memory_stats().current;
  record.seconds = std::chrono::duration<double>(stop - start_).count();
  std::vector<uint32_t> inside(nodes_, nodes_ + count_), read;
  for (uint32_t n : inside) {
    record.kernel += (record.kernel.empty() ? "" : " ") + std::string(op_name(trace_.nodes[n].call.op));
    record.flops += flops_of(trace_, n);
    if (trace_.value[n]) record.bytes += bytes_of(trace_, n);  // stored: others need it
    if (trace_.nodes[n].result.site) record.sites.push_back(trace_.nodes[n].result.site);
    for (int k = 0; k < trace_.input_count(n); ++k)
      if (const uint32_t i = trace_.input(n, k); i != scalar_operand && std::find(inside.begin(), inside.end(), i) == inside.end() && std::find(read.begin(), read.end(), i) == read.end())
        read.push_back(i), record.bytes += bytes_of(trace_, i);
  }
  std::sort(record.sites.begin(), record.sites.end());
  record.sites.erase(std::unique(record.sites.begin(), record.sites.end()), record.sites.end());
  Ring& r = ring();
  const std::lock_guard hold(r.lock);
  if (!r.size) return;
  record.start = std::chrono::duration<double>(start_ - r.began).count();
  if (r.records.size() < r.size) r.records.push_back(std::move(record));
  else r.records[r.next] = std::move(record), r.next = (r.next + 1) % r.size;
}

}  // namespace frit::jit
