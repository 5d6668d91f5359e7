// Where a tensor lives.
#pragma once
#include <cstdint>
#include <string>

namespace frit {

enum class DeviceType : uint8_t { CPU, CUDA };

class Device {
 public:
  constexpr Device() = default;
  constexpr Device(DeviceType type, int index = -1) : type_(type), index_(int8_t(index)) {}
  Device(const std::string& text);  // "cpu", "cuda", "cuda:1"; throws ValueError
  Device(const char* text) : Device(std::string(text)) {}
  constexpr DeviceType type() const { return type_; }
  constexpr int index() const { return index_; }  // -1: the current one
  constexpr bool has_index() const { return index_ >= 0; }
  constexpr bool is_cpu() const { return type_ == DeviceType::CPU; }
  constexpr bool is_cuda() const { return type_ == DeviceType::CUDA; }
  std::string str() const {
    const std::string name = is_cpu() ? "cpu" : "cuda";
    return index_ < 0 ? name : name + ":" + std::to_string(int(index_));
  }
  constexpr bool operator==(const Device&) const = default;

 private:
  DeviceType type_ = DeviceType::CPU;
  int8_t index_ = -1;
};

constexpr DeviceType kCPU = DeviceType::CPU, kCUDA = DeviceType::CUDA;

}  // namespace frit
