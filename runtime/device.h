// Where a tensor lives.
#pragma once
#include <cstdint>
#include <string>

namespace frit {

enum class DeviceType : uint8_t { CPU, CUDA };

struct Device {
  DeviceType type = DeviceType::CPU;
  int8_t index = -1;  // -1: the current one

  constexpr Device() = default;
  constexpr Device(DeviceType device_type, int device_index = -1) : type(device_type), index(int8_t(device_index)) {}
  constexpr bool is_cpu() const { return type == DeviceType::CPU; }
  constexpr bool is_cuda() const { return type == DeviceType::CUDA; }
  std::string str() const {  // "cpu", "cuda", "cuda:1"
    const std::string name = is_cpu() ? "cpu" : "cuda";
    return index < 0 ? name : name + ":" + std::to_string(int(index));
  }
  constexpr bool operator==(const Device&) const = default;
};

constexpr DeviceType kCPU = DeviceType::CPU, kCUDA = DeviceType::CUDA;

}  // namespace frit
