// A check that layers share: indices that are real already are looked at by the call, so that the message names the layer.
// Others are checked where they are used.
#pragma once
#include <string>
#include "frontend/detail.h"

namespace frit::nn {

// The first index that is neither in [0, count) nor `allowed`; nothing when all are fine or none can be read yet.
inline std::optional<int64_t> wrong_index(const Tensor& index, int64_t count, std::optional<int64_t> allowed = std::nullopt) {
  const tracer::Cell* cell = index.cell();
  if (cell->deferred || !cell->value || !cell->value->contiguous()) return std::nullopt;
  const tracer::Value& v = *cell->value;
  return dispatch(v.dtype, [&](auto type) -> std::optional<int64_t> {
    using T = decltype(type);
    if constexpr (std::is_integral_v<T>) {
      const T* p = reinterpret_cast<const T*>(v.data());
      for (int64_t i = 0, n = v.numel(); i < n; ++i)
        if (const int64_t at = int64_t(p[i]); (at < 0 || at >= count) && at != allowed) return at;
    }
    return std::nullopt;
  });
}

}  // namespace frit::nn
