// Anomaly mode's eyes: values are read one element at a time, which is slow and only done while a guard asks for it. Traces are run op
// by op then, so that every node's value is there when the flush is over. Start at find_first_nan.
#include "tracer/anomaly.h"
#include "runtime/source_line.h"

namespace frit::tracer {

namespace {
template <class T, class IsNan> bool any_nan(const Value& v, IsNan is_nan) {
  const int64_t count = v.numel();
  const T* data = reinterpret_cast<const T*>(v.data());
  int64_t at[max_rank] = {}, offset = 0;
  for (int64_t n = 0; n < count; ++n) {
    if (is_nan(data[offset])) return true;
    for (int i = v.rank; i-- > 0;) {
      offset += v.stride[i];
      if (++at[i] < v.extent[i]) break;
      offset -= v.stride[i] * at[i];
      at[i] = 0;
    }
  }
  return false;
}
}  // namespace

bool has_nan(const Value& v) {
  switch (v.dtype) {
    case Dtype::Float64: return any_nan<double>(v, [](double x) { return x != x; });
    case Dtype::Float32: return any_nan<float>(v, [](float x) { return x != x; });
    case Dtype::Float16: return any_nan<uint16_t>(v, [](uint16_t x) { return (x & 0x7fff) > 0x7c00; });
    case Dtype::BFloat16: return any_nan<uint16_t>(v, [](uint16_t x) { return (x & 0x7fff) > 0x7f80; });
    default: return false;
  }
}

void find_first_nan(const Trace& t, Anomaly& a) {
  for (uint32_t n = 0; n < t.nodes.size() && a.looking && !a.found; ++n) {
    const Node& node = t.nodes[n];
    if (node.call.op == Op::leaf || node.call.op == Op::full || !t.value[n] || !has_nan(*t.value[n])) continue;
    bool came_in = false;
    for (int k = node.call.mode & in_place ? 1 : 0; k < t.input_count(n); ++k)  // what was written is gone
      if (const uint32_t in = t.input(n, k); in != scalar_operand && t.value[in] && has_nan(*t.value[in])) came_in = true;
    if (!came_in) a.found = true, a.op = node.call.op, a.site = node.result.site;
  }
}
std::string first_nan_text(const Anomaly& a) {
  if (!a.found) return {};
  const std::string line = source_line(a.site);
  return std::string(" The first NaN of the forward computation was made by ") + op_name(a.op) + (line.empty() ? "" : " at " + line) + ".";
}

}  // namespace frit::tracer
