// frit doctor: what this machine and this installation have, what they reach, and the settings. Start at doctor_command.
#include <dlfcn.h>
#include <unistd.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include "frontend/cli/commands.h"
#include "frontend/cli/machine.h"
#include "runtime/cpu.h"
#include "runtime/disk_cache.h"
#include "runtime/launch.h"
#include "runtime/settings.h"

namespace frit::cli {

using nlohmann::json;

namespace {
struct Finding {
  std::string section, name, value;
  Tone tone = Tone::plain;
};
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// Where a library is found, opened as Frit would open it; empty when it is not.
void* open_first(std::initializer_list<const char*> names, std::string& name) {
  for (const char* n : names)
    if (void* library = ::dlopen(n, RTLD_LAZY | RTLD_LOCAL)) return name = n, library;
  return nullptr;
}
std::string driver_text() {
  std::string name;
  void* const driver = open_first({"libcuda.so.1"}, name);
  if (!driver) return "none (libcuda.so.1 is not there)";
  using Init = int (*)(unsigned);
  using Number = int (*)(int*);
  const auto init = reinterpret_cast<Init>(::dlsym(driver, "cuInit"));
  const auto version = reinterpret_cast<Number>(::dlsym(driver, "cuDriverGetVersion")), count = reinterpret_cast<Number>(::dlsym(driver, "cuDeviceGetCount"));
  int v = 0, devices = 0;
  if (!version || version(&v)) return "found, but it does not tell its version";
  std::string text = "CUDA " + std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10);
  if (!init || init(0) || !count || count(&devices)) return text + ", no device can be used";
  text += ", " + std::to_string(devices) + (devices == 1 ? " device" : " devices");
  const auto name_of = reinterpret_cast<int (*)(char*, int, int)>(::dlsym(driver, "cuDeviceGetName"));
  for (int d = 0; d < devices && name_of; ++d) {
    char device[128] = {};
    if (!name_of(device, sizeof device, d)) text += std::string(d ? ", " : ": ") + device;
  }
  return text;
}
std::string nvrtc_text() {
  // Where the library itself looks first is its own; here what the system finds.
  std::string name;
  void* const library = open_first({"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}, name);
  if (!library) return "not found by the system";
  const auto version = reinterpret_cast<int (*)(int*, int*)>(::dlsym(library, "nvrtcVersion"));
  int major = 0, minor = 0;
  if (version) version(&major, &minor);
  return std::to_string(major) + "." + std::to_string(minor) + " (" + name + ")";
}
std::string opened_text(std::initializer_list<const char*> names) {
  std::string name;
  return open_first(names, name) ? name : "not found";
}
void add_cache(std::vector<Finding>& f) {
  const std::string folder = cache_folder();
  if (!settings().cache) return f.push_back({"cache", "folder", "off (FRIT_CACHE=0)", Tone::faint});
  if (folder.empty()) return f.push_back({"cache", "folder", "none: neither HOME nor XDG_CACHE_HOME is set; set FRIT_CACHE_DIR", Tone::bad});
  std::error_code error;
  std::string nearest = folder;
  while (!std::filesystem::exists(nearest, error) && nearest.size() > 1) nearest = std::filesystem::path(nearest).parent_path();
  const bool writable = ::access(nearest.c_str(), W_OK) == 0;
  f.push_back({"cache", "folder", folder + (writable ? "" : " (cannot be written)"), writable ? Tone::plain : Tone::bad});
  if (DiskCache* const kernels = kernel_disk_cache()) {
    int64_t bytes = 0;
    const auto list = kernels->list();
    for (const auto& e : list) bytes += e.bytes;
    f.push_back({"cache", "kernels", std::to_string(list.size()) + ", " + bytes_text(double(bytes)) + " of at most " + bytes_text(double(settings().cache_limit))});
  }
}
void add_compilers(std::vector<Finding>& f) {
  const auto list = compilers("");
  if (list.empty()) f.push_back({"scripts", "compiler", "none: frit run and frit bench need clang++ or g++", Tone::bad});
  for (const Compiler& c : list) f.push_back({"scripts", &c == &list[0] ? "compiler" : "another", first_line(capture({c.path, "--version"}).text) + (c.linker.empty() ? "" : ", " + c.linker[0])});
}
std::vector<Finding> findings() {
  std::vector<Finding> f;
  const CpuInfo& cpu = cpu_info();
  f.push_back({"processor", "name", cpu.name});
  f.push_back({"processor", "cores", std::to_string(cpu.cores) + " for this process, " + std::to_string(num_threads()) + " used for one op"});
  std::string sets;
  for (const auto& [on, name] : {std::pair{cpu.avx2, "AVX2"}, {cpu.fma, "FMA"}, {cpu.f16c, "F16C"}, {cpu.avx512, "AVX-512"}})
    if (on) sets += std::string(sets.empty() ? "" : ", ") + name;
  f.push_back({"processor", "vectors", sets.empty() ? "none that Frit uses" : sets});
  f.push_back({"processor", "caches", bytes_text(double(cpu.l1_bytes)) + " L1, " + bytes_text(double(cpu.l2_bytes)) + " L2, " + bytes_text(double(cpu.l3_bytes)) + " L3"});
  f.push_back({"processor", "kernels", cpu.generates_code() ? "generated" : "interpreted, slow: AVX2, FMA and F16C are needed", cpu.generates_code() ? Tone::good : Tone::bad});
  f.push_back({"frit", "version", FRIT_VERSION});
  f.push_back({"frit", "library", installation().library});
  f.push_back({"frit", "headers", installation().includes[0]});
  add_compilers(f);
  f.push_back({"cuda", "driver", driver_text()});
  f.push_back({"cuda", "NVRTC", nvrtc_text()});
  f.push_back({"cuda", "cuBLAS", opened_text({"libcublas.so.13", "libcublas.so.12", "libcublas.so"})});
  f.push_back({"libraries", "LAPACK", opened_text({"liblapack.so.3", "libopenblas.so.0"})});
  add_cache(f);
  return f;
}
void add_limits(std::vector<Finding>& f, std::vector<MachineLimits>& limits) {
  const Progress progress("measuring memory and arithmetic");
  limits.push_back(measure_machine(1));
  if (num_threads() > 1) limits.push_back(measure_machine(num_threads()));
  for (const MachineLimits& m : limits) {
    const std::string threads = std::to_string(m.threads) + (m.threads == 1 ? " thread" : " threads");
    f.push_back({"measured", threads, number_text(m.memory_bandwidth / 1e9) + " GB/s copied in memory, " + number_text(m.cache_bandwidth / 1e9) + " GB/s in the second cache, " +
                                          (m.flops > 0 ? number_text(m.flops / 1e9) + " GFLOP/s of float32 multiply-add" : "no multiply-add unit")});
  }
}
}  // namespace

void check_device(const std::string& device) {
  if (device != "cuda") return;
  const std::string driver = driver_text();
  throw UsageError("--device cuda: " + (driver.starts_with("none") || driver.ends_with("can be used") ? "there is no CUDA device: driver " + driver : "the driver is there (" + driver + "), but tensors of this build live in the processor's memory") + ". Use --device cpu; frit doctor says what was found.");
}

int doctor_command(const DoctorOptions& options) {
  if (options.settings) return std::printf("%s", settings_text().c_str()), done;
  std::vector<Finding> f = findings();
  std::vector<MachineLimits> limits;
  if (!options.quick) add_limits(f, limits);
  if (options.json) {
    json j;
    for (const Finding& x : f) j[x.section][x.name] = x.value;
    for (const MachineLimits& m : limits) j["limits"].push_back({{"threads", m.threads}, {"memory_bandwidth", m.memory_bandwidth}, {"cache_bandwidth", m.cache_bandwidth}, {"flops", m.flops}});
    for (const SettingRow& row : setting_rows()) j["settings"][row.name] = {{"value", row.value}, {"from_environment", row.from_environment}};
    std::printf("%s\n", j.dump(2).c_str());
    return done;
  }
  std::string section;
  for (const Finding& x : f) {
    if (x.section != section) std::printf("%s%s\n", section.empty() ? "" : "\n", toned(x.section, Tone::bold).c_str());
    section = x.section;
    std::printf("  %-10s %s\n", x.name.c_str(), toned(x.value, x.tone).c_str());
  }
  std::string set;
  for (const SettingRow& row : setting_rows())
    if (row.from_environment) set += "  " + row.name + "=" + row.value + "\n";
  std::printf("\n%s\n%s", toned("settings", Tone::bold).c_str(), set.empty() ? "  all at their defaults; frit doctor --settings lists them\n" : set.c_str());
  return done;
}

}  // namespace frit::cli
