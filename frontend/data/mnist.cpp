// idx files as tensors, and the datasets made of them.
#include "frit/data/mnist.h"
#include <cstring>
#include <filesystem>
#include "frontend/detail.h"
#include "runtime/idx.h"

namespace frit::data {

// A new tensor with these bytes. It is real at once, and its storage is Frit's own.
static Tensor copied(const void* bytes, const std::vector<int64_t>& extents, Dtype dtype) {
  const Tensor t = empty(extents, dtype);
  if (const size_t n = t.nbytes()) std::memcpy(frit::detail::value_of(t, "load").data(), bytes, n);
  return t;
}

Tensor load_idx(const std::string& path) {
  const IdxArray array = read_idx(path);
  return copied(array.bytes.data(), array.extents, array.dtype);
}

Tensor index_tensor(const std::vector<size_t>& indices) {
  const std::vector<int64_t> list(indices.begin(), indices.end());
  return copied(list.data(), {int64_t(list.size())}, kInt64);
}

namespace datasets {

namespace {
std::string find_file(const std::string& root, const std::string& name) {
  for (const char* ending : {".gz", ""})
    if (const std::string path = root + "/" + name + ending; std::filesystem::exists(path)) return path;
  throw FileError("there is no " + name + ".gz or " + name + " in " + root + ". Name the folder that holds the four files of the data set.");
}
}  // namespace

MNIST::MNIST(const std::string& root, Mode mode) : mode_(mode) {
  const std::string prefix = is_train() ? "train" : "t10k";
  const std::string images = find_file(root, prefix + "-images-idx3-ubyte"), labels = find_file(root, prefix + "-labels-idx1-ubyte");
  images_ = load_idx(images);
  const Tensor classes = load_idx(labels);
  if (images_.dtype() != kUInt8 || images_.dim() != 3) throw FileError(images + " holds no images: expected bytes of [count, rows, columns].");
  if (classes.dtype() != kUInt8 || classes.dim() != 1 || classes.size(0) != images_.size(0))
    throw FileError(labels + " does not hold the classes of " + std::to_string(images_.size(0)) + " images.");
  count_ = images_.size(0);
  images_ = images_.unsqueeze(1);
  targets_ = classes.to(kInt64);
}
Tensor MNIST::images() const { return images_.to(kFloat32).div(Scalar(255.0)); }
Example<> MNIST::get(size_t index) {
  const int64_t i = int64_t(index);
  return {images_.select(0, i).to(kFloat32).div(Scalar(255.0)), targets_.select(0, i)};
}
Example<> MNIST::get_stacked(const std::vector<size_t>& indices) {
  const Tensor at = index_tensor(indices);
  return {images_.index_select(0, at).to(kFloat32).div(Scalar(255.0)), targets_.index_select(0, at)};
}

static const std::string& checked(const std::string& root) {
  if (!std::filesystem::is_directory(root)) {
    std::string remedy = "Name the folder that holds the files.";
    if (root == FashionMNIST::default_root) remedy = "Install the Debian package dataset-fashion-mnist (apt install dataset-fashion-mnist), or name the folder that holds the files.";
    throw FileError("there is no folder " + root + " with the Fashion-MNIST images. " + remedy);
  }
  return root;
}
FashionMNIST::FashionMNIST(Mode mode, const std::string& root) : MNIST(checked(root), mode) {}

// ---- tensors as datasets ------------------------------------------------------------------------------------------------
TensorExample TensorDataset::get_stacked(const std::vector<size_t>& indices) { return tensor_.index_select(0, index_tensor(indices)); }
PairDataset::PairDataset(Tensor data, Tensor targets) : data_(std::move(data)), targets_(std::move(targets)) {
  if (data_.dim() == 0 || targets_.dim() == 0 || data_.size(0) != targets_.size(0))
    throw ShapeError("PairDataset: the data has shape " + frit::detail::shape_text(data_.sizes()) + ", the targets " + frit::detail::shape_text(targets_.sizes()) + ". Their first extents must be equal.");
}
Example<> PairDataset::get_stacked(const std::vector<size_t>& indices) {
  const Tensor at = index_tensor(indices);
  return {data_.index_select(0, at), targets_.index_select(0, at)};
}

}  // namespace datasets
}  // namespace frit::data
