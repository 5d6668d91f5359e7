// Sizes, memory and bytes of tensors for the file formats.
#include "frontend/files/elements.h"
#include <algorithm>
#include <bit>
#include <cstring>
#include "frit/autograd.h"
#include "frontend/detail.h"

namespace frit::files {

static_assert(std::endian::native == std::endian::little);

std::optional<uint64_t> byte_count(const std::vector<int64_t>& extents, Dtype dtype) {
  int64_t bytes = int64_t(size_of(dtype));
  bool empty = false;
  for (int64_t e : extents) {  // strides count an extent of 0 as 1, so they have to fit as well
    empty |= e == 0;
    if (e < 0 || __builtin_mul_overflow(bytes, std::max<int64_t>(e, 1), &bytes)) return std::nullopt;
  }
  return empty ? 0 : uint64_t(bytes);
}
std::string extents_text(const std::vector<int64_t>& extents) { return detail::shape_text(extents); }
std::string name_text(std::string_view name) {
  constexpr size_t longest = 80;
  std::string text = "'";
  for (char c : name.substr(0, longest)) text += uint8_t(c) < 0x20 || c == 0x7f ? '?' : c;
  return text + (name.size() > longest ? "…'" : "'");
}
Tensor new_tensor(const std::vector<int64_t>& extents, Dtype dtype) { return empty(extents, dtype); }
void* elements_of(const Tensor& t) { return detail::value_of(t, "file").data(); }
Tensor contiguous_elements(const Tensor& t, const std::string& op) {
  if (!t.defined()) throw ValueError(op + ": the tensor is undefined. Give it a value first.");
  NoGradGuard no_grad;
  const Tensor whole = t.detach().contiguous();
  detail::value_of(whole, "save");
  return whole;
}
std::optional<uint64_t> first_bad_bool(const Tensor& t) {
  const auto* bytes = static_cast<const uint8_t*>(elements_of(t));
  const uint64_t n = uint64_t(t.numel());
  const auto* bad = std::find_if(bytes, bytes + n, [](uint8_t b) { return b > 1; });
  if (bad == bytes + n) return std::nullopt;
  return uint64_t(bad - bytes);
}
void reverse_bytes(const Tensor& t) {
  const auto swap_all = [&]<class Word>(Word, auto swap) {
    auto* p = static_cast<char*>(elements_of(t));
    for (int64_t i = 0, n = t.numel(); i < n; ++i, p += sizeof(Word)) {
      Word w;
      std::memcpy(&w, p, sizeof w);
      w = swap(w);
      std::memcpy(p, &w, sizeof w);
    }
  };
  switch (t.element_size()) {
    case 2: return swap_all(uint16_t(), [](uint16_t w) { return __builtin_bswap16(w); });
    case 4: return swap_all(uint32_t(), [](uint32_t w) { return __builtin_bswap32(w); });
    case 8: return swap_all(uint64_t(), [](uint64_t w) { return __builtin_bswap64(w); });
  }
}

}  // namespace frit::files
