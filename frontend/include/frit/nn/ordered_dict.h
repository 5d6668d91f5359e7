// A short list of pairs in the order of their insertion, found by key: what named_parameters() and its like return.
#pragma once
#include <cstddef>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>
#include "runtime/error.h"

namespace frit {

template <class Key, class Value> class OrderedDict {
 public:
  class Item {
   public:
    Item(Key key, Value value) : pair_(std::move(key), std::move(value)) {}
    const Key& key() const noexcept { return pair_.first; }
    Value& value() noexcept { return pair_.second; }
    const Value& value() const noexcept { return pair_.second; }
    Value& operator*() noexcept { return pair_.second; }
    const Value& operator*() const noexcept { return pair_.second; }
    Value* operator->() noexcept { return &pair_.second; }
    const Value* operator->() const noexcept { return &pair_.second; }
    const std::pair<Key, Value>& pair() const noexcept { return pair_; }

   private:
    std::pair<Key, Value> pair_;
  };
  using Iterator = typename std::vector<Item>::iterator;
  using ConstIterator = typename std::vector<Item>::const_iterator;

  explicit OrderedDict(std::string key_description = "Key") : key_description_(std::move(key_description)) {}
  OrderedDict(std::initializer_list<Item> items) : key_description_("Key") {
    for (const Item& item : items) insert(item.key(), item.value());
  }

  // The value in the dictionary. Throws ValueError when the key is there already.
  Value& insert(Key key, Value value) {
    if (contains(key)) throw ValueError(key_description_ + " '" + text(key) + "' already defined. Choose another name.");
    items_.emplace_back(std::move(key), std::move(value));
    return items_.back().value();
  }
  void update(const OrderedDict& other) {
    for (const Item& item : other) insert(item.key(), item.value());
  }
  void erase(const Key& key) {
    (*this)[key];  // throws when it is not there
    items_.erase(items_.begin() + std::ptrdiff_t(index(key)));
  }
  void clear() { items_.clear(); }
  void reserve(size_t n) { items_.reserve(n); }

  Value* find(const Key& key) noexcept {
    const size_t i = index(key);
    return i < items_.size() ? &items_[i].value() : nullptr;
  }
  const Value* find(const Key& key) const noexcept { return const_cast<OrderedDict*>(this)->find(key); }
  bool contains(const Key& key) const noexcept { return find(key) != nullptr; }
  Value& operator[](const Key& key) {
    if (Value* v = find(key)) return *v;
    throw ValueError(key_description_ + " '" + text(key) + "' is not defined. There are: " + names() + ".");
  }
  const Value& operator[](const Key& key) const { return const_cast<OrderedDict&>(*this)[key]; }
  Item& operator[](size_t i) { return items_.at(i); }
  const Item& operator[](size_t i) const { return items_.at(i); }

  Iterator begin() { return items_.begin(); }
  Iterator end() { return items_.end(); }
  ConstIterator begin() const { return items_.begin(); }
  ConstIterator end() const { return items_.end(); }
  Item& front() { return items_.front(); }
  const Item& front() const { return items_.front(); }
  Item& back() { return items_.back(); }
  const Item& back() const { return items_.back(); }
  size_t size() const noexcept { return items_.size(); }
  bool is_empty() const noexcept { return items_.empty(); }
  const std::string& key_description() const noexcept { return key_description_; }
  const std::vector<Item>& items() const noexcept { return items_; }
  std::vector<Key> keys() const {
    std::vector<Key> list;
    for (const Item& item : items_) list.push_back(item.key());
    return list;
  }
  std::vector<Value> values() const {
    std::vector<Value> list;
    for (const Item& item : items_) list.push_back(item.value());
    return list;
  }

 private:
  size_t index(const Key& key) const noexcept {
    size_t i = 0;
    while (i < items_.size() && !(items_[i].key() == key)) ++i;
    return i;
  }
  static std::string text(const std::string& key) { return key; }
  template <class T> static std::string text(const T& key) { return std::to_string(key); }
  std::string names() const {
    std::string list;
    for (const Item& item : items_) list += (list.empty() ? "" : ", ") + text(item.key());
    return list.empty() ? "none" : list;
  }

  std::vector<Item> items_;
  std::string key_description_;
};

}  // namespace frit
