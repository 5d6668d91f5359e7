// The MNIST family: four idx files of grey images and their classes, gzipped or plain.
#pragma once
#include <string>
#include "frit/data/dataset.h"

namespace frit::data {

// An idx file as a tensor of the file's type and extents. Throws FileError.
Tensor load_idx(const std::string& path);

namespace datasets {

// Examples are images of [1, rows, columns] in [0, 1], float32, and classes, int64.
class MNIST : public Dataset<MNIST> {
 public:
  enum class Mode : uint8_t { kTrain, kTest };
  explicit MNIST(const std::string& root, Mode mode = Mode::kTrain);
  Example<> get(size_t index) override;
  Example<> get_stacked(const std::vector<size_t>& indices);
  std::optional<size_t> size() const override { return size_t(count_); }
  bool is_train() const noexcept { return mode_ == Mode::kTrain; }
  Tensor images() const;                              // [count, 1, rows, columns] in [0, 1]
  const Tensor& targets() const { return targets_; }

 private:
  Mode mode_;
  int64_t count_ = 0;
  Tensor images_, targets_;                           // images as bytes
};
// Where Debian's package dataset-fashion-mnist puts it.
class FashionMNIST : public MNIST {
 public:
  static constexpr const char* default_root = "/usr/share/datasets/fashion-mnist";
  explicit FashionMNIST(Mode mode = Mode::kTrain, const std::string& root = default_root);
};

}  // namespace datasets
}  // namespace frit::data
