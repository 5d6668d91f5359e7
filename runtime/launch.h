// The CPU launcher: splits an index range over threads. The only place that knows oneTBB.
#pragma once
#include <cstdint>
#include <type_traits>

namespace frit {

int num_threads();                // threads that parallel_for may use, the caller included
void set_num_threads(int n);      // 1 = serial; throws std::invalid_argument when n < 1

// A reference to any callable (int64_t begin, int64_t end); it allocates nothing and must not outlive the callable.
class RangeBody {
 public:
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, RangeBody>)
  RangeBody(F&& f)
      : object_(const_cast<void*>(static_cast<const volatile void*>(&f))),
        call_([](void* object, int64_t begin, int64_t end) { (*static_cast<std::remove_reference_t<F>*>(object))(begin, end); }) {}
  void operator()(int64_t begin, int64_t end) const { call_(object_, begin, end); }

 private:
  void* object_;
  void (*call_)(void*, int64_t, int64_t);
};

// Calls body(begin, end) on disjoint subranges that cover [0, count); each but the last holds a multiple of `grain`
// indices. Serial, on the caller's thread, when count <= grain or one thread is set, or inside another parallel_for.
// The body runs with default rounding and denormals kept, whatever the caller's mode is. Exceptions of a body reach the
// caller.
void parallel_for(int64_t count, int64_t grain, RangeBody body);

}  // namespace frit
