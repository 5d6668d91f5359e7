// Datasets give examples by index; map() puts a transform behind one. A dataset of tensors can gather a whole batch at once
// (get_stacked), which transforms keep where they can.
#pragma once
#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>
#include "frit/functions.h"

namespace frit::data {

namespace example {
struct NoTarget {};
}
template <class Data = Tensor, class Target = Tensor> struct Example {
  using DataType = Data;
  using TargetType = Target;
  Example() = default;
  Example(Data d, Target t) : data(std::move(d)), target(std::move(t)) {}
  Data data;
  Target target;
};
template <class Data> struct Example<Data, example::NoTarget> {
  using DataType = Data;
  using TargetType = example::NoTarget;
  Example() = default;
  Example(Data d) : data(std::move(d)) {}
  operator Data&() { return data; }
  operator const Data&() const { return data; }
  Data data;
};
using TensorExample = Example<Tensor, example::NoTarget>;

namespace transforms {

// From a batch of examples to a batch of another kind.
template <class InputBatch, class OutputBatch> class BatchTransform {
 public:
  using InputBatchType = InputBatch;
  using OutputBatchType = OutputBatch;
  virtual ~BatchTransform() = default;
  virtual OutputBatch apply_batch(InputBatch batch) = 0;
};
// Of each example by itself.
template <class Input, class Output> class Transform : public BatchTransform<std::vector<Input>, std::vector<Output>> {
 public:
  using InputType = Input;
  using OutputType = Output;
  virtual Output apply(Input input) = 0;
  std::vector<Output> apply_batch(std::vector<Input> batch) override {
    std::vector<Output> out;
    out.reserve(batch.size());
    for (Input& e : batch) out.push_back(apply(std::move(e)));
    return out;
  }
};

// Examples one behind the other along a new first axis.
template <class E = Example<>> struct Stack : BatchTransform<std::vector<E>, E> {
  E apply_batch(std::vector<E> examples) override {
    TensorList data;
    for (E& e : examples) data.push_back(std::move(e.data));
    if constexpr (std::is_same_v<typename E::TargetType, example::NoTarget>) {
      return E(stack(data));
    } else {
      TensorList targets;
      for (E& e : examples) targets.push_back(std::move(e.target));
      return E(stack(data), stack(targets));
    }
  }
};
// A function of each example.
template <class Input, class Output = Input> class Lambda : public Transform<Input, Output> {
 public:
  using Function = std::function<Output(Input)>;
  explicit Lambda(Function f) : function_(std::move(f)) {}
  Output apply(Input input) override { return function_(std::move(input)); }

 private:
  Function function_;
};
// A function of each example's data.
template <class Target = Tensor> class TensorTransform : public Transform<Example<Tensor, Target>, Example<Tensor, Target>> {
 public:
  using E = Example<Tensor, Target>;
  virtual Tensor operator()(Tensor input) = 0;
  E apply(E e) override {
    e.data = (*this)(std::move(e.data));
    return e;
  }
};
template <class Target = Tensor> class TensorLambda : public TensorTransform<Target> {
 public:
  explicit TensorLambda(std::function<Tensor(Tensor)> f) : function_(std::move(f)) {}
  Tensor operator()(Tensor input) override { return function_(std::move(input)); }

 private:
  std::function<Tensor(Tensor)> function_;
};
// (x - mean) / deviation; a list has one number for each channel of [channels, height, width].
template <class Target = Tensor> class Normalize : public TensorTransform<Target> {
 public:
  Normalize(double mean, double deviation) : Normalize(std::vector<double>{mean}, std::vector<double>{deviation}) {}
  Normalize(std::vector<double> mean, std::vector<double> deviation) : mean_(channels(mean)), deviation_(channels(deviation)) {}
  Tensor operator()(Tensor input) override { return input.sub(mean_).div_(deviation_); }
  // The same for many at once: their channels lie at the same place from the end.
  Example<Tensor, Target> apply_stacked(Example<Tensor, Target> batch) { return this->apply(std::move(batch)); }

 private:
  static Tensor channels(const std::vector<double>& v) {
    const Tensor t = tensor(v, kFloat32);
    return v.size() == 1 ? t.reshape({}) : t.reshape({int64_t(v.size()), 1, 1});
  }
  Tensor mean_, deviation_;
};

}  // namespace transforms

namespace datasets {

template <class Source, class Applied> class MapDataset;

template <class Self, class Batch = std::vector<Example<>>> class BatchDataset {
 public:
  using SelfType = Self;
  using BatchType = Batch;
  virtual ~BatchDataset() = default;
  virtual Batch get_batch(const std::vector<size_t>& indices) = 0;
  virtual std::optional<size_t> size() const = 0;
  template <class T> MapDataset<Self, T> map(T transform) & { return {static_cast<Self&>(*this), std::move(transform)}; }
  template <class T> MapDataset<Self, T> map(T transform) && { return {std::move(static_cast<Self&>(*this)), std::move(transform)}; }
};

template <class Self, class SingleExample = Example<>> class Dataset : public BatchDataset<Self, std::vector<SingleExample>> {
 public:
  using ExampleType = SingleExample;
  virtual SingleExample get(size_t index) = 0;
  std::vector<SingleExample> get_batch(const std::vector<size_t>& indices) override {
    std::vector<SingleExample> batch;
    batch.reserve(indices.size());
    for (size_t i : indices) batch.push_back(get(i));
    return batch;
  }
};

// One gather for a whole batch, instead of an example at a time.
template <class D> concept Stackable = requires(D d, const std::vector<size_t>& indices) { d.get_stacked(indices); };

template <class Source, class Applied> class MapDataset : public BatchDataset<MapDataset<Source, Applied>, typename Applied::OutputBatchType> {
 public:
  using OutputBatchType = typename Applied::OutputBatchType;
  MapDataset(Source source, Applied transform) : source_(std::move(source)), transform_(std::move(transform)) {}
  OutputBatchType get_batch(const std::vector<size_t>& indices) override {
    if constexpr (Stackable<Source> && stacks) return source_.get_stacked(indices);
    else return transform_.apply_batch(source_.get_batch(indices));
  }
  auto get_stacked(const std::vector<size_t>& indices)
    requires(Stackable<Source> && requires(Applied t, Source s) { t.apply_stacked(s.get_stacked(indices)); })
  {
    return transform_.apply_stacked(source_.get_stacked(indices));
  }
  std::optional<size_t> size() const override { return source_.size(); }
  const Source& dataset() const { return source_; }
  const Applied& transform() const { return transform_; }

 private:
  template <class T> struct IsStack : std::false_type {};
  template <class E> struct IsStack<transforms::Stack<E>> : std::true_type {};
  static constexpr bool stacks = IsStack<Applied>::value;

  Source source_;
  Applied transform_;
};

// The rows of one tensor.
class TensorDataset : public Dataset<TensorDataset, TensorExample> {
 public:
  explicit TensorDataset(Tensor tensor) : tensor_(std::move(tensor)) {}
  explicit TensorDataset(const std::vector<Tensor>& rows) : tensor_(stack(rows)) {}
  TensorExample get(size_t index) override { return tensor_[int64_t(index)]; }
  TensorExample get_stacked(const std::vector<size_t>& indices);
  std::optional<size_t> size() const override { return size_t(tensor_.size(0)); }

 private:
  Tensor tensor_;
};
// Row i of the data with row i of the targets.
class PairDataset : public Dataset<PairDataset> {
 public:
  PairDataset(Tensor data, Tensor targets);
  Example<> get(size_t index) override { return {data_[int64_t(index)], targets_[int64_t(index)]}; }
  Example<> get_stacked(const std::vector<size_t>& indices);
  std::optional<size_t> size() const override { return size_t(data_.size(0)); }

 private:
  Tensor data_, targets_;
};

}  // namespace datasets
using datasets::BatchDataset;
using datasets::Dataset;

// Indices as an int64 tensor.
Tensor index_tensor(const std::vector<size_t>& indices);

}  // namespace frit::data
