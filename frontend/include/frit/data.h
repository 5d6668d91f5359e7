// Data in LibTorch's manner: datasets, transforms, samplers, loaders; and idx files (the MNIST family) as tensors.
//
//   auto set = data::datasets::FashionMNIST().map(data::transforms::Normalize<>(0.286, 0.353)).map(data::transforms::Stack<>());
//   auto loader = data::make_data_loader<data::samplers::RandomSampler>(std::move(set), data::DataLoaderOptions().batch_size(256));
//   for (auto& batch : *loader) step(batch.data, batch.target);
#pragma once
#include "frit/data/bucket_sampler.h"
#include "frit/data/dataset.h"
#include "frit/data/loader.h"
#include "frit/data/mnist.h"
