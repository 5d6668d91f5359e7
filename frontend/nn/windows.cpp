// Padding and windows: see windows.h. Padding is one cat per axis.
#include "frontend/nn/windows.h"
#include <algorithm>
#include "runtime/error.h"

namespace frit {

using detail::shape_text;

namespace nn {

void throw_wrong_count(size_t given, size_t wanted) {
  throw ValueError("options: " + std::to_string(given) + " numbers are given for " + std::to_string(wanted) + (wanted == 1 ? " axis. Give one." : " axes. Give one, or one for each axis."));
}
void check_parameter(const Tensor& t, const char* op, const char* what, const Sizes& wanted) {
  if (t.defined() && shape_of(t, op) != wanted)
    throw ShapeError(std::string(op) + ": the " + what + " has shape " + shape_text(shape_of(t, op)) + ". Give one of " + shape_text(wanted) + ".");
}
void check_types(const Tensor& input, const Tensor& weight, const Tensor& bias, const char* op) {
  if (input.dtype() != weight.dtype() || (bias.defined() && bias.dtype() != input.dtype()))
    throw DtypeError(std::string(op) + ": the input holds " + dtype_name(input.dtype()) + ", the weight " + dtype_name(weight.dtype()) + (bias.defined() ? std::string(", the bias ") + dtype_name(bias.dtype()) : std::string()) + ". Convert them to one type with to().");
}
void check_floating(const Tensor& t, const char* op) {
  if (!t.is_floating_point()) throw DtypeError(std::string(op) + ": the input holds " + dtype_name(t.dtype()) + ". Convert it to a floating type with to().");
}
Sizes per_axis(IntArrayRef given, size_t n, int64_t least, const char* op, const char* what) {
  if (given.size() != 1 && given.size() != n)
    throw ValueError(std::string(op) + ": the " + what + " has " + std::to_string(given.size()) + " numbers for " + std::to_string(n) + " spatial axes. Give one, or one for each axis.");
  Sizes v = given.vec();
  if (v.size() != n) v.resize(n, v[0]);
  for (int64_t x : v)
    if (x < least) throw ValueError(std::string(op) + ": the " + what + " is " + shape_text(v) + ". Give at least " + std::to_string(least) + " for each axis.");
  return v;
}
size_t channel_axis(const Sizes& s, size_t n, const char* op) {
  const char* spatial = n == 1 ? "length]" : "height, width]";
  if (s.size() != n + 1 && s.size() != n + 2)
    throw ShapeError(std::string(op) + ": the input has shape " + shape_text(s) + ". Give one of [batch, channels, " + spatial + " or [channels, " + spatial + ".");
  const size_t channel = s.size() - n - 1;
  for (size_t i = channel; i < s.size(); ++i)
    if (s[i] == 0) throw ShapeError(std::string(op) + ": the input has shape " + shape_text(s) + ". Only the batch may be empty.");
  return channel;
}

namespace {
Tensor constant_block(const Tensor& like, int64_t axis, int64_t length, const Scalar& value) {
  Sizes e = tracer::sizes_of(like.cell());
  e[size_t(axis)] = length;
  return full(Sizes(e.size(), 1), value, like.dtype()).expand(e);
}
// Outside elements from the input's own: of the side before (first) or after it.
Tensor outside(const Tensor& x, int64_t axis, int64_t length, bool before, PadMode mode, const Scalar& value) {
  const int64_t n = x.size(axis);
  switch (mode) {
    case PadMode::reflect: return x.narrow(axis, before ? 1 : n - 1 - length, length).flip({axis});
    case PadMode::circular: return x.narrow(axis, before ? n - length : 0, length);
    case PadMode::replicate: {
      Sizes e = tracer::sizes_of(x.cell());
      e[size_t(axis)] = length;
      return x.narrow(axis, before ? 0 : n - 1, 1).expand(e);
    }
    default: return constant_block(x, axis, length, value);
  }
}
}  // namespace

Tensor padded(const Tensor& x, int64_t axis, int64_t low, int64_t high, PadMode mode, const Scalar& value, const char* op) {
  const Sizes s = shape_of(x, op);
  const int64_t n = s[size_t(axis)], most = mode == PadMode::reflect ? n - 1 : mode == PadMode::circular ? n : INT64_MAX;
  if (mode != PadMode::constant && (std::max(low, high) > most || n == 0))
    throw ValueError(std::string(op) + ": padding of " + std::to_string(low) + " before and " + std::to_string(high) + " after axis " + std::to_string(axis) + " of shape " + shape_text(s) +
                     " is more than the input has. Pad by at most " + std::to_string(std::max<int64_t>(0, most == INT64_MAX ? 0 : most)) + ", or with a constant.");
  if (n + low + high < 0 || n + std::min<int64_t>(low, 0) + std::min<int64_t>(high, 0) < 0)
    throw ValueError(std::string(op) + ": padding of " + std::to_string(low) + " and " + std::to_string(high) + " takes away more than axis " + std::to_string(axis) + " of shape " + shape_text(s) + " has. Cut less away.");
  const int64_t cut_low = std::max<int64_t>(0, -low), cut_high = std::max<int64_t>(0, -high);
  const Tensor kept = cut_low || cut_high ? x.narrow(axis, cut_low, n - cut_low - cut_high) : x;
  TensorList parts;
  if (low > 0) parts.push_back(outside(x, axis, low, true, mode, value));
  parts.push_back(kept);
  if (high > 0) parts.push_back(outside(x, axis, high, false, mode, value));
  return parts.size() == 1 ? kept : cat(parts, axis);
}

Tensor window_slice(const Tensor& x, int64_t axis, const Window& w, int64_t i) {
  const int64_t start = i * w.dilation, stop = start + (w.count - 1) * w.stride + 1;
  if (start == 0 && stop == x.size(axis) && w.stride == 1) return x;
  return x.slice(axis, start, stop, w.stride);
}

namespace {
Tensor pad_axes(const Tensor& input, IntArrayRef pad, PadMode mode, const Scalar& value) {
  const Sizes s = shape_of(input, "pad");
  const size_t axes = pad.size() / 2;
  if (pad.size() % 2) throw ValueError("pad: " + std::to_string(pad.size()) + " numbers are given. Give two for each axis, from the last axis on.");
  if (axes > s.size()) throw ShapeError("pad: padding of " + std::to_string(axes) + " axes is asked for, but the input has shape " + shape_text(s) + ". Give two numbers for each axis at most.");
  if (mode != PadMode::constant && (axes + 1 > s.size() || axes > 3))
    throw ShapeError("pad: " + std::to_string(axes) + " axes of an input of shape " + shape_text(s) + ". Padding by the input's own elements takes one to three last axes of an input with channels before them.");
  Tensor x = input;
  for (size_t i = 0; i < axes; ++i) x = padded(x, int64_t(s.size() - 1 - i), pad[2 * i], pad[2 * i + 1], mode, value, "pad");
  return x.is_same(input) ? input.clone() : x;
}
PadMode pad_mode(const std::string& name) {
  if (name == "constant") return kConstant;
  if (name == "reflect") return kReflect;
  if (name == "replicate") return kReplicate;
  if (name == "circular") return kCircular;
  throw ValueError("pad: the mode \"" + name + "\" is not known. Use \"constant\", \"reflect\", \"replicate\" or \"circular\".");
}
}  // namespace
namespace functional {
Tensor pad(const Tensor& input, const PadFuncOptions& o) { return pad_axes(input, o.pad(), o.mode(), Scalar(o.value())); }
}  // namespace functional
}  // namespace nn

Tensor constant_pad_nd(const Tensor& input, IntArrayRef pad, const Scalar& value) { return nn::pad_axes(input, pad, kConstant, value); }
Tensor pad(const Tensor& input, IntArrayRef pad, const std::string& mode, std::optional<double> value) {
  const PadMode m = nn::pad_mode(mode);
  if (value && m != kConstant) throw ValueError("pad: the mode \"" + mode + "\" takes no value. Leave it out.");
  return nn::pad_axes(input, pad, m, Scalar(value.value_or(0)));
}

}  // namespace frit
