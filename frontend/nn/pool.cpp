// Pooling. Maxima are rows of their own, sums over small windows are convolutions. Large ones go axis by axis, as a chain of slices, or as one
// reduction where windows do not overlap. Start at pooling.
#include <algorithm>
#include <limits>
#include "frit/autograd.h"
#include "frontend/nn/windows.h"
#include "runtime/error.h"

namespace frit {

using detail::shape_text;
using detail::Sizes;
using nn::Window;

namespace {

std::string list_of(const std::vector<Window>& windows, int64_t Window::*what) {
  Sizes v;
  for (const Window& w : windows) v.push_back(w.*what);
  return shape_text(v);
}

// The windows of each spatial axis, by LibTorch's rules: with ceil_mode the last window may leave the input, but starts inside
// it or in the padding before.
std::vector<Window> pooling(const char* op, const Tensor& input, size_t n, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool ceil_mode) {
  const Sizes s = nn::shape_of(input, op);
  const size_t channel = nn::channel_axis(s, n, op);
  const Sizes k = nn::per_axis(kernel, n, 1, op, "kernel size"), step = stride.empty() ? k : nn::per_axis(stride, n, 1, op, "stride");
  const Sizes around = nn::per_axis(padding, n, 0, op, "padding"), apart = nn::per_axis(dilation, n, 1, op, "dilation");
  std::vector<Window> windows;
  for (size_t i = 0; i < n; ++i) windows.push_back({k[i], step[i], around[i], 0, apart[i], 0});
  for (size_t i = 0; i < n; ++i) {
    Window& w = windows[i];
    const int64_t length = s[channel + 1 + i];
    if (w.low > w.span() / 2)
      throw ValueError(std::string(op) + ": padding " + shape_text(around) + " is more than half of the kernel " + shape_text(k) + (w.dilation > 1 ? " with dilation " + shape_text(apart) : "") + ". Pad less.");
    const int64_t room = length + 2 * w.low - w.span();
    const int64_t up = room + (ceil_mode ? w.stride - 1 : 0);
    w.count = up < 0 ? 0 : up / w.stride + 1;
    if (ceil_mode && w.count > 0 && (w.count - 1) * w.stride >= length + w.low) --w.count;
    if (w.count < 1)
      throw ShapeError(std::string(op) + ": the kernel " + shape_text(k) + (w.dilation > 1 ? " with dilation " + shape_text(apart) : "") + " does not fit the input of shape " + shape_text(s) + " padded by " +
                       shape_text(around) + ". Give a larger input, more padding or a smaller kernel.");
    w.high = (w.count - 1) * w.stride + w.span() - length - w.low;
  }
  return windows;
}

// f over the windows of one axis: pairwise (of slices), or reduce(x, axis) of a last axis of windows.
template <class Pair, class Reduce>
Tensor along(const Tensor& x, int64_t axis, const Window& w, const Scalar& outside, const char* op, Pair pair, Reduce reduce) {
  const Tensor p = nn::padded(x, axis, w.low, w.high, kConstant, outside, op);
  if (w.kernel > 16 && w.stride == w.kernel && w.dilation == 1) return reduce(p.unflatten(axis, {w.count, w.kernel}), axis + 1);
  Tensor total = nn::window_slice(p, axis, w, 0);
  for (int64_t k = 1; k < w.kernel; ++k) total = pair(total, nn::window_slice(p, axis, w, k));
  return total;
}

// ---- maxima -----------------------------------------------------------------------------------------------------------
void check_windows(const char* op, const std::vector<Window>& windows, const Sizes& s) {
  for (size_t k = 0; k < windows.size(); ++k)
    for (int64_t i = 0; i < windows[k].count; ++i) {
      const Window& w = windows[k];
      int64_t at = i * w.stride - w.low;
      if (at < 0) at += (w.dilation - 1 - at) / w.dilation * w.dilation;
      if (at >= s[s.size() - windows.size() + k])
        throw ValueError(std::string(op) + ": a window of the kernel " + list_of(windows, &Window::kernel) + " with dilation " + list_of(windows, &Window::dilation) + " and padding " + list_of(windows, &Window::low) +
                         " holds nothing but padding. Pad less, or dilate less.");
    }
}
// A row of the op table over the windows, with or without a batch.
template <class F> Tensor over_windows(F row, const Tensor& input, const std::vector<Window>& windows, const Sizes& s) {
  std::vector<tracer::PoolAxis> axes;
  for (const Window& w : windows) axes.push_back({w.kernel, w.stride, w.dilation, w.low, w.count});
  const bool batched = s.size() == windows.size() + 2;
  const Tensor pooled(row(batched ? input : input.unsqueeze(0), axes));
  return batched ? pooled : pooled.squeeze(0);
}
Tensor elements_at(const Tensor& x, const Tensor& place, size_t n) {
  const int64_t last = -int64_t(n);
  return x.flatten(last, -1).gather(-1, place.flatten(last, -1)).reshape(tracer::sizes_of(place.cell()));
}
void check_ordered(const char* op, const Tensor& input) {
  if (input.dtype() == kBool) throw DtypeError(std::string(op) + ": the input holds bool. Convert it to a number type with to().");
}
Tensor max_pool(const char* op, size_t n, const Tensor& input, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool ceil_mode) {
  const auto windows = pooling(op, input, n, kernel, stride, padding, dilation, ceil_mode);
  const Sizes s = nn::shape_of(input, op);
  check_ordered(op, input);
  if (AutoGradMode::is_enabled() && input.requires_grad()) check_windows(op, windows, s);
  return over_windows(tracer::pool_max, input, windows, s);
}
std::tuple<Tensor, Tensor> max_pool_with_indices(const char* op, size_t n, const Tensor& input, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool ceil_mode) {
  const auto windows = pooling(op, input, n, kernel, stride, padding, dilation, ceil_mode);
  check_ordered(op, input);
  const Sizes s = nn::shape_of(input, op);
  check_windows(op, windows, s);
  const Tensor place = over_windows(tracer::pool_argmax, input, windows, s);
  return {elements_at(input, place, n), place};
}

// ---- means ------------------------------------------------------------------------------------------------------------
// How many elements each window of an axis counts; one number when all count as many.
Sizes counts(const Window& w, int64_t length, bool with_padding) {
  Sizes c;
  for (int64_t i = 0; i < w.count; ++i) {
    const int64_t start = i * w.stride - w.low, stop = std::min(start + w.kernel, length + w.low);
    c.push_back(with_padding ? stop - start : std::min(stop, length) - std::max<int64_t>(start, 0));
  }
  if (std::all_of(c.begin(), c.end(), [&](int64_t x) { return x == c[0]; })) c.resize(1);
  return c;
}
Tensor divided(const Tensor& sums, const std::vector<Sizes>& count) {
  double same = 1;
  Tensor different;
  for (size_t i = 0; i < count.size(); ++i) {
    if (count[i].size() == 1) {
      same *= double(count[i][0]);
      continue;
    }
    Sizes shape(count.size(), 1);
    shape[i] = int64_t(count[i].size());
    const Tensor t = tensor(std::vector<double>(count[i].begin(), count[i].end()), sums.dtype()).reshape(shape);
    different = different.defined() ? different * t : t;
  }
  if (!different.defined()) return sums.div(Scalar(same));
  return sums.div(same == 1 ? different : different * Scalar(same));
}
// Each channel's own convolution with ones; windows of many elements go axis by axis.
Tensor window_sums(Tensor x, const std::vector<Window>& windows, const Sizes& s, const char* op) {
  const size_t n = windows.size(), channel = s.size() - n - 1;
  Sizes kernel{s[channel], 1};
  std::vector<tracer::WindowAxis> axes;
  int64_t elements = 1;
  for (const Window& w : windows) {
    elements *= w.kernel;
    kernel.push_back(w.kernel);
    axes.push_back({w.stride, w.dilation, w.low, w.high});
  }
  if (elements <= 64) {
    const Tensor ones = full(Sizes(kernel.size(), 1), 1, x.dtype()).expand(kernel), sums(tracer::convolution(channel ? x : x.unsqueeze(0), ones, axes, s[channel]));
    return channel ? sums : sums.squeeze(0);
  }
  for (size_t i = n; i-- > 0;)
    x = along(x, int64_t(s.size() - n + i), windows[i], 0.0, op, [](const Tensor& a, const Tensor& b) { return a + b; }, [](const Tensor& a, int64_t axis) { return a.sum(axis); });
  return x;
}
Tensor avg_pool(const char* op, size_t n, const Tensor& input, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, bool ceil_mode, bool count_include_pad, std::optional<int64_t> divisor) {
  const auto windows = pooling(op, input, n, kernel, stride, padding, 1, ceil_mode);
  nn::check_floating(input, op);
  if (divisor == 0) throw ValueError(std::string(op) + ": divisor_override is 0. Give another number, or leave it out.");
  const Sizes s = nn::shape_of(input, op);
  Tensor x = input.to(compute_dtype(input.dtype()));
  std::vector<Sizes> count;
  for (size_t i = 0; i < n; ++i) count.push_back(divisor ? Sizes{i ? 1 : *divisor} : counts(windows[i], s[s.size() - n + i], count_include_pad));
  return divided(window_sums(x, windows, s, op), count).to(input.dtype());
}
// Sums over the parts of one axis, and what they count.
Tensor part_sums(const Tensor& x, int64_t axis, int64_t length, int64_t parts, Sizes& count) {
  if (parts > 0 && length % parts == 0) {
    count = {length / parts};
    return parts == length ? x : x.unflatten(axis, {parts, length / parts}).sum(axis + 1);
  }
  TensorList sums;
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t start = i * length / parts, stop = ((i + 1) * length + parts - 1) / parts;
    sums.push_back(x.narrow(axis, start, stop - start).sum(axis, true));
    count.push_back(stop - start);
  }
  return sums.empty() ? x.narrow(axis, 0, 0) : cat(sums, axis);
}
Tensor adaptive_avg_pool(const char* op, size_t n, const Tensor& input, IntArrayRef output_size) {
  const Sizes s = nn::shape_of(input, op);
  nn::channel_axis(s, n, op);
  nn::check_floating(input, op);
  const Sizes out = nn::per_axis(output_size, n, 0, op, "output size");
  Tensor x = input.to(compute_dtype(input.dtype()));
  std::vector<Sizes> count(n, Sizes{1});
  if (std::all_of(out.begin(), out.end(), [](int64_t o) { return o == 1; })) {  // all of a channel: one reduction
    Sizes axes;
    for (size_t i = 0; i < n; ++i) axes.push_back(int64_t(s.size() - n + i)), count[0][0] *= s[s.size() - n + i];
    x = x.sum(axes, true);
  } else {
    for (size_t i = n; i-- > 0;) count[i].clear(), x = part_sums(x, int64_t(s.size() - n + i), s[s.size() - n + i], out[i], count[i]);
  }
  for (Sizes& c : count)
    if (c.empty()) c = {1};
  return divided(x, count).to(input.dtype());
}

}  // namespace

Tensor max_pool1d(const Tensor& input, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool ceil_mode) { return max_pool("max_pool1d", 1, input, kernel, stride, padding, dilation, ceil_mode); }
Tensor max_pool2d(const Tensor& input, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool ceil_mode) { return max_pool("max_pool2d", 2, input, kernel, stride, padding, dilation, ceil_mode); }
std::tuple<Tensor, Tensor> max_pool1d_with_indices(const Tensor& input, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool ceil_mode) {
  return max_pool_with_indices("max_pool1d", 1, input, kernel, stride, padding, dilation, ceil_mode);
}
std::tuple<Tensor, Tensor> max_pool2d_with_indices(const Tensor& input, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool ceil_mode) {
  return max_pool_with_indices("max_pool2d", 2, input, kernel, stride, padding, dilation, ceil_mode);
}
Tensor avg_pool1d(const Tensor& input, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, bool ceil_mode, bool count_include_pad) {
  return avg_pool("avg_pool1d", 1, input, kernel, stride, padding, ceil_mode, count_include_pad, std::nullopt);
}
Tensor avg_pool2d(const Tensor& input, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, bool ceil_mode, bool count_include_pad, std::optional<int64_t> divisor_override) {
  return avg_pool("avg_pool2d", 2, input, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override);
}
Tensor adaptive_avg_pool1d(const Tensor& input, IntArrayRef output_size) { return adaptive_avg_pool("adaptive_avg_pool1d", 1, input, output_size); }
Tensor adaptive_avg_pool2d(const Tensor& input, IntArrayRef output_size) { return adaptive_avg_pool("adaptive_avg_pool2d", 2, input, output_size); }

namespace nn::functional {
namespace {
template <size_t D> Sizes wanted(const Tensor& input, const AdaptiveAvgPoolOptions<D>& o, const char* op) {
  const Sizes s = shape_of(input, op);
  const size_t channel = channel_axis(s, D, op);
  Sizes out;
  for (size_t i = 0; i < D; ++i) out.push_back(o.output_size()[i].value_or(s[channel + 1 + i]));
  return out;
}
}  // namespace
Tensor adaptive_avg_pool1d(const Tensor& input, const AdaptiveAvgPool1dFuncOptions& o) { return frit::adaptive_avg_pool1d(input, wanted<1>(input, o, "adaptive_avg_pool1d")); }
Tensor adaptive_avg_pool2d(const Tensor& input, const AdaptiveAvgPool2dFuncOptions& o) { return frit::adaptive_avg_pool2d(input, wanted<2>(input, o, "adaptive_avg_pool2d")); }
}  // namespace nn::functional

}  // namespace frit
