// Words and memory. Each function picks the two types once and runs a loop of plain C++ conversions; start with
// load_words.
#include "tracer/numbers.h"

namespace frit::tracer {

uint64_t convert_word(uint64_t w, Dtype from, Dtype to) {
  return dispatch_compute(from, [&]<class F>(F) {
    return dispatch_compute(to, [&]<class T>(T) { return value_word(convert_value<T>(word_value<F>(w))); });
  });
}
uint64_t copied_word(uint64_t w, Dtype from, Dtype to) {
  return dispatch_compute(from, [&]<class F>(F) {
    return dispatch_compute(to, [&]<class T>(T) {
      const F v = word_value<F>(w);
      if constexpr (std::is_floating_point_v<F> && std::is_integral_v<T> && !std::is_same_v<T, bool>) {
        if (v != v) return value_word(T(0));
        if (v >= F(std::numeric_limits<T>::max())) return value_word(std::numeric_limits<T>::max());
        if (v <= F(std::numeric_limits<T>::min())) return value_word(std::numeric_limits<T>::min());
      }
      return value_word(convert_value<T>(v));
    });
  });
}
uint64_t number_word(uint64_t argument, Category c, Dtype d) {
  return convert_word(argument, c == Category::floating ? Dtype::Float64 : c == Category::integer ? Dtype::Int64 : Dtype::Bool, d);
}
uint64_t load_word(const void* element, Dtype d) {
  return dispatch(d, [&]<class M>(M) { return value_word(ComputeType<M>(*static_cast<const M*>(element))); });
}
void store_word(void* element, Dtype d, uint64_t w) {
  dispatch(d, [&]<class M>(M) { *static_cast<M*>(element) = M(word_value<ComputeType<M>>(w)); });
}

void load_words(const void* base, Dtype memory, const int64_t* offset, size_t count, Dtype as, uint64_t* out) {
  dispatch(memory, [&]<class M>(M) {
    dispatch_compute(as, [&]<class T>(T) {
      const M* data = static_cast<const M*>(base);
      for (size_t i = 0; i < count; ++i) out[i] = value_word(convert_value<T>(ComputeType<M>(data[offset[i]])));
    });
  });
}
void store_words(void* base, Dtype memory, int64_t first, size_t count, Dtype from, const uint64_t* words) {
  dispatch(memory, [&]<class M>(M) {
    dispatch_compute(from, [&]<class F>(F) {
      M* data = static_cast<M*>(base) + first;
      for (size_t i = 0; i < count; ++i) data[i] = M(convert_value<ComputeType<M>>(word_value<F>(words[i])));
    });
  });
}

}  // namespace frit::tracer
