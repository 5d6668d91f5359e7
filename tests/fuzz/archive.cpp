// Checkpoints: lists and archives are read as far as they go. Loading may also throw ShapeError and the like, but only Frit's own types.
#include <sstream>
#include "frit/serialize.h"
#include "tests/fuzz/target.h"
#include "tests/support/files.h"

using namespace frit;

namespace {

struct Model {
  nn::Linear net{nn::LinearOptions(2, 2)};
  optim::Adam optimizer{net->parameters(), optim::AdamOptions(0.1).amsgrad(true)};
  Model() {
    net->forward(ones({1, 2})).sum().backward();
    optimizer.step();
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static Model* model = new Model;
  const auto attempt = [](const auto& f) {
    try {
      f();
    } catch (const Error&) {
    }
  };
  attempt([&] {
    serialize::InputArchive in;
    in.load_from(bytes, size);
    attempt([&] {
      std::vector<Tensor> list;
      in >> list;
    });
    attempt([&] { in.read("net", model->net); });
    attempt([&] { in.read("optimizer", model->optimizer); });
    for (const std::string& key : in.keys()) attempt([&] {
      serialize::InputArchive nested;
      in.try_read(key, nested);
      nested.keys();
    });
  });
  return 0;
}

std::vector<std::string> fuzz::seeds() {
  std::vector<std::string> list;
  Model model;
  std::ostringstream all, some;
  serialize::OutputArchive out;
  out.write("net", model.net);
  out.write("optimizer", model.optimizer);
  out.write("odd", -std::numeric_limits<double>::infinity());
  out.save_to(all);
  list.push_back(all.str());
  save(std::vector<Tensor>{ones({2}), Tensor(), arange(3)}, some);
  list.push_back(some.str());
  return list;
}
