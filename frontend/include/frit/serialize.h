// save and load, of tensors, lists of tensors, modules and optimisers, as in LibTorch; archives, which hold several of them; and the state
// of the random numbers. Training that is resumed from them continues bit for bit:
//
//   serialize::OutputArchive out;                       serialize::InputArchive in;
//   out.write("net", net);                              in.load_from("checkpoint");
//   out.write("optimizer", optimizer);                  in.read("net", net);
//   out.write("random", get_rng_state());               in.read("optimizer", optimizer);
//   out.save_to("checkpoint");                          Tensor r; in.read("random", r); set_rng_state(r);
//
// The file is a safetensors file, with numbers and flags in its metadata; files are written whole or not at all (frit/files.h).
// What loading into a module or an optimiser throws, it throws before it has changed anything.
#pragma once
#include <iosfwd>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <variant>
#include <vector>
#include "frit/files.h"
#include "frit/nn/module.h"
#include "frit/optim.h"

namespace frit {

// The seed and the place in its stream, as 16 bytes.
Tensor get_rng_state();
void set_rng_state(const Tensor& state);

namespace serialize {

using Value = std::variant<bool, int64_t, double, std::string>;

namespace detail {
struct Content {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, Value> values;
  std::set<std::string> with_gradient;      // tensors that required gradients
  std::string source = "an archive";        // for messages
};
}  // namespace detail

// Named tensors and values. An archive that is written into another has its names after a dot.
class OutputArchive {
 public:
  // The tensor's elements are read when the archive is saved. An undefined tensor is left out.
  void write(const std::string& key, const Tensor& tensor, bool is_buffer = false);
  void write(const std::string& key, const OutputArchive& nested);
  void write(const std::string& key, bool value) { put(key, value); }
  void write(const std::string& key, int value) { put(key, int64_t(value)); }
  void write(const std::string& key, unsigned value) { put(key, int64_t(value)); }
  void write(const std::string& key, int64_t value) { put(key, value); }
  void write(const std::string& key, uint64_t value) { put(key, int64_t(value)); }
  void write(const std::string& key, double value) { put(key, value); }
  void write(const std::string& key, const char* value) { put(key, std::string(value)); }
  void write(const std::string& key, std::string value) { put(key, std::move(value)); }
  void write(const std::string& key, const std::vector<Tensor>& list);
  void write(const std::string& key, const nn::Module& module);
  template <nn::detail::Holder H> void write(const std::string& key, const H& holder) { write(key, *holder); }
  template <class M> void write(const std::string& key, const std::shared_ptr<M>& module) { write(key, *module); }
  void write(const std::string& key, const optim::Optimizer& optimizer);
  template <class... A> void operator()(A&&... arguments) { write(std::forward<A>(arguments)...); }

  void save_to(const std::string& path) const;
  void save_to(std::ostream& stream) const;
  void save_to(const char* path) const { save_to(std::string(path)); }

 private:
  friend class InputArchive;
  void put(const std::string& key, Value value);
  void check_new(const std::string& key) const;
  detail::Content content_;
};

class InputArchive {
 public:
  InputArchive();
  void load_from(const std::string& path);
  void load_from(const char* path) { load_from(std::string(path)); }
  void load_from(std::istream& stream);
  void load_from(const void* bytes, size_t size);

  // A tensor that is undefined becomes the one of the archive; another is overwritten in place and has to have its shape and type.
  // read throws FileError where there is none of that name, try_read returns false.
  void read(const std::string& key, Tensor& tensor, bool is_buffer = false);
  bool try_read(const std::string& key, Tensor& tensor, bool is_buffer = false);
  void read(const std::string& key, InputArchive& nested) const;
  bool try_read(const std::string& key, InputArchive& nested) const;
  void read(const std::string& key, bool& value) const { value = get<bool>(key, "a bool"); }
  void read(const std::string& key, int64_t& value) const { value = get<int64_t>(key, "a whole number"); }
  void read(const std::string& key, double& value) const { value = get<double>(key, "a floating number"); }
  void read(const std::string& key, std::string& value) const { value = get<std::string>(key, "a text"); }
  bool try_read(const std::string& key, Value& value) const;
  void read(const std::string& key, std::vector<Tensor>& list) const;
  void read(const std::string& key, nn::Module& module) const;
  template <nn::detail::Holder H> void read(const std::string& key, const H& holder) const { read(key, *holder); }
  template <class M> void read(const std::string& key, const std::shared_ptr<M>& module) const { read(key, *module); }
  void read(const std::string& key, optim::Optimizer& optimizer) const;
  template <class... A> void operator()(A&&... arguments) { read(std::forward<A>(arguments)...); }

  std::vector<std::string> keys() const;    // of this level, each once
  [[noreturn]] void fail(const std::string& reason) const;

 private:
  template <class T> T get(const std::string& key, const char* kind) const {
    Value v;
    if (!try_read(key, v)) fail("it holds no value '" + prefix_ + key + "'");
    if (const T* found = std::get_if<T>(&v)) return *found;
    fail("its value '" + prefix_ + key + "' is not " + kind);
  }
  std::shared_ptr<const detail::Content> content_;
  std::string prefix_;                      // "net." in an archive that was read from another
};

OutputArchive& operator<<(OutputArchive& archive, const Tensor& tensor);
InputArchive& operator>>(InputArchive& archive, Tensor& tensor);
OutputArchive& operator<<(OutputArchive& archive, const std::vector<Tensor>& list);
InputArchive& operator>>(InputArchive& archive, std::vector<Tensor>& list);
OutputArchive& operator<<(OutputArchive& archive, const nn::Module& module);
InputArchive& operator>>(InputArchive& archive, nn::Module& module);
OutputArchive& operator<<(OutputArchive& archive, const optim::Optimizer& optimizer);
InputArchive& operator>>(InputArchive& archive, optim::Optimizer& optimizer);
template <nn::detail::Holder H> OutputArchive& operator<<(OutputArchive& archive, const H& holder) { return archive << static_cast<const nn::Module&>(*holder); }
template <nn::detail::Holder H> InputArchive& operator>>(InputArchive& archive, const H& holder) { return archive >> static_cast<nn::Module&>(*holder); }
template <class M>
  requires std::is_base_of_v<nn::Module, M>
OutputArchive& operator<<(OutputArchive& archive, const std::shared_ptr<M>& module) {
  return archive << static_cast<const nn::Module&>(*module);
}
template <class M>
  requires std::is_base_of_v<nn::Module, M>
InputArchive& operator>>(InputArchive& archive, const std::shared_ptr<M>& module) {
  return archive >> static_cast<nn::Module&>(*module);
}

}  // namespace serialize

// To and from a path or a stream.
template <class T, class Where> void save(const T& value, Where&& where) {
  serialize::OutputArchive archive;
  archive << value;
  archive.save_to(std::forward<Where>(where));
}
template <class T, class... From> void load(T& value, From&&... from) {
  serialize::InputArchive archive;
  archive.load_from(std::forward<From>(from)...);
  archive >> value;
}

}  // namespace frit
