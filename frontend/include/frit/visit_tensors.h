// The tensors (and, for who asks, the numbers) inside a value: a tensor, containers and tuples of such values, and plain structs of up to eight of them.
#pragma once
#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>
#include "frit/tensor.h"

namespace frit::detail {

template <class T> struct Parts { static constexpr bool known = false; };
template <class T, class A> struct Parts<std::vector<T, A>> { static constexpr bool known = true; };
template <class T, size_t n> struct Parts<std::array<T, n>> { static constexpr bool known = true; };
template <class T> struct Parts<std::optional<T>> { static constexpr bool known = true; };
template <class K, class T, class C, class A> struct Parts<std::map<K, T, C, A>> { static constexpr bool known = true; };
template <class A, class B> struct Parts<std::pair<A, B>> { static constexpr bool known = true; };
template <class... T> struct Parts<std::tuple<T...>> { static constexpr bool known = true; };

struct AnyField { template <class T> operator T() const; };
template <class T> constexpr size_t field_count() {
  if constexpr (requires { T{AnyField{}, AnyField{}, AnyField{}, AnyField{}, AnyField{}, AnyField{}, AnyField{}, AnyField{}, AnyField{}}; }) return 9;
  else if constexpr (requires { T{AnyField{}, AnyField{}, AnyField{}, AnyField{}, AnyField{}, AnyField{}, AnyField{}, AnyField{}}; }) return 8;
  else if constexpr (requires { T{AnyField{}, AnyField{}, AnyField{}, AnyField{}, AnyField{}, AnyField{}, AnyField{}}; }) return 7;
  else if constexpr (requires { T{AnyField{}, AnyField{}, AnyField{}, AnyField{}, AnyField{}, AnyField{}}; }) return 6;
  else if constexpr (requires { T{AnyField{}, AnyField{}, AnyField{}, AnyField{}, AnyField{}}; }) return 5;
  else if constexpr (requires { T{AnyField{}, AnyField{}, AnyField{}, AnyField{}}; }) return 4;
  else if constexpr (requires { T{AnyField{}, AnyField{}, AnyField{}}; }) return 3;
  else if constexpr (requires { T{AnyField{}, AnyField{}}; }) return 2;
  else return 1;
}
// May f be called with every tensor in a T?
template <class T> constexpr bool has_visitable_tensors() {
  if constexpr (std::is_base_of_v<Tensor, T> || std::is_arithmetic_v<T> || std::is_enum_v<T> || Parts<T>::known) return true;
  else if constexpr (std::is_aggregate_v<T> && std::is_class_v<T>) return field_count<T>() <= 8;
  else return false;
}
template <class T, class F> void visit_tensors(T& value, F&& f) {
  using V = std::remove_const_t<T>;
  const auto each = [&](auto&... part) { (visit_tensors(part, f), ...); };
  if constexpr (std::is_base_of_v<Tensor, V>) f(value);
  else if constexpr (std::is_arithmetic_v<V> || std::is_enum_v<V>) { if constexpr (requires { f.number(value); }) f.number(value); }
  else if constexpr (requires { typename V::mapped_type; value.begin(); }) for (auto& [key, part] : value) visit_tensors(part, f);
  else if constexpr (requires { value.has_value(); *value; }) { if (value) visit_tensors(*value, f); }
  else if constexpr (requires { value.begin(); value.size(); }) for (auto& part : value) visit_tensors(part, f);
  else if constexpr (requires { std::tuple_size<V>::value; }) std::apply(each, value);
  else {
    constexpr size_t n = field_count<V>();
    if constexpr (n == 1) { auto& [a] = value; each(a); }
    else if constexpr (n == 2) { auto& [a, b] = value; each(a, b); }
    else if constexpr (n == 3) { auto& [a, b, c] = value; each(a, b, c); }
    else if constexpr (n == 4) { auto& [a, b, c, d] = value; each(a, b, c, d); }
    else if constexpr (n == 5) { auto& [a, b, c, d, e] = value; each(a, b, c, d, e); }
    else if constexpr (n == 6) { auto& [a, b, c, d, e, g] = value; each(a, b, c, d, e, g); }
    else if constexpr (n == 7) { auto& [a, b, c, d, e, g, h] = value; each(a, b, c, d, e, g, h); }
    else { auto& [a, b, c, d, e, g, h, i] = value; each(a, b, c, d, e, g, h, i); }
  }
}

}  // namespace frit::detail
