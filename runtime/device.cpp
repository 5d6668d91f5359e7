// Devices by their names.
#include "runtime/device.h"
#include <charconv>
#include "runtime/error.h"

namespace frit {

Device::Device(const std::string& text) {
  const size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  int index = -1;
  bool good = name == "cpu" || name == "cuda";
  if (good && colon != std::string::npos) {
    const char *first = text.data() + colon + 1, *last = text.data() + text.size();
    const auto [end, error] = std::from_chars(first, last, index);
    good = first != last && end == last && error == std::errc() && index >= 0 && index < 128;
  }
  if (!good) throw ValueError("Device: \"" + text + "\" is no device. Write cpu, cuda, or cuda and a number, as in cuda:1.");
  type_ = name == "cpu" ? DeviceType::CPU : DeviceType::CUDA;
  index_ = int8_t(index);
}

}  // namespace frit
