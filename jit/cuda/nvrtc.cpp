// CUDA C++ to cubins with NVRTC. The library is large and not everybody has it, so it is opened at the first compile and
// its functions are looked up by name; only its header is needed to build. Start with compile_cuda.
#include <dlfcn.h>
#include <nvrtc.h>

#include <stdexcept>
#include <iterator>

#include "jit/cuda/generate.h"

namespace frit::jit {
namespace {

#define FRIT_NVRTC_FUNCTIONS(X)                                                                             \
  X(nvrtcGetErrorString) X(nvrtcCreateProgram) X(nvrtcDestroyProgram) X(nvrtcCompileProgram) X(nvrtcGetCUBIN) \
  X(nvrtcGetCUBINSize) X(nvrtcGetProgramLog) X(nvrtcGetProgramLogSize)

struct Nvrtc {
#define X(name) decltype(&::name) name = nullptr;
  FRIT_NVRTC_FUNCTIONS(X)
#undef X
  bool complete = false;

  Nvrtc() {
    void* library = nullptr;
    for (const char* file : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"})
      if ((library = dlopen(file, RTLD_NOW | RTLD_LOCAL))) break;
    if (!library) return;
    complete = true;
#define X(function)                                                                   \
  function = reinterpret_cast<decltype(function)>(dlsym(library, #function));         \
  complete = complete && function;
    FRIT_NVRTC_FUNCTIONS(X)
#undef X
  }
};

// Opened once and never closed: other threads may be compiling at exit.
const Nvrtc& nvrtc() {
  static const Nvrtc& library = *new Nvrtc;
  return library;
}

struct Compilation {
  nvrtcProgram program = nullptr;
  ~Compilation() {
    if (program) nvrtc().nvrtcDestroyProgram(&program);
  }
};

// The number in front of `unit` in the assembler's report, summed over its lines; -1 when there is none.
int reported(const std::string& log, const std::string& unit) {
  int sum = -1;
  for (size_t at = log.find(unit); at != std::string::npos; at = log.find(unit, at + 1)) {
    size_t begin = at;
    while (begin > 0 && log[begin - 1] >= '0' && log[begin - 1] <= '9') --begin;
    if (begin < at) sum = (sum < 0 ? 0 : sum) + std::stoi(log.substr(begin, at - begin));
  }
  return sum;
}

std::string program_log(nvrtcProgram program) {
  size_t size = 0;
  nvrtc().nvrtcGetProgramLogSize(program, &size);
  std::string log(size, '\0');
  if (size) nvrtc().nvrtcGetProgramLog(program, log.data());
  while (!log.empty() && log.back() == '\0') log.pop_back();
  return log;
}

}  // namespace

bool nvrtc_available() { return nvrtc().complete; }

CudaImage compile_cuda(const CudaSource& source, int arch) {
  const auto check = [&](nvrtcResult result, const std::string& log) {
    if (result == NVRTC_SUCCESS) return;
    throw std::runtime_error("NVRTC cannot compile " + source.name + " for sm_" + std::to_string(arch) + ": " +
                             nvrtc().nvrtcGetErrorString(result) + "\n" + log + "\n" + source.text);
  };
  if (!nvrtc_available()) throw std::runtime_error("cannot compile the CUDA kernel " + source.name + ": libnvrtc cannot be opened");
  Compilation c;
  check(nvrtc().nvrtcCreateProgram(&c.program, source.text.c_str(), (source.name + ".cu").c_str(), 0, nullptr, nullptr), "");
  // A result has the same bits as on the CPU: no contraction, IEEE division and square root, denormals.
  const std::string target = "--gpu-architecture=sm_" + std::to_string(arch);
  const char* const options[] = {target.c_str(), "--std=c++17", "--fmad=false", "--prec-div=true", "--prec-sqrt=true", "--ftz=false",
                                 "--ptxas-options=-v"};
  const nvrtcResult result = nvrtc().nvrtcCompileProgram(c.program, int(std::size(options)), options);
  CudaImage image;
  image.log = program_log(c.program);
  check(result, image.log);
  size_t size = 0;
  check(nvrtc().nvrtcGetCUBINSize(c.program, &size), image.log);
  image.cubin.resize(size);
  check(nvrtc().nvrtcGetCUBIN(c.program, image.cubin.data()), image.log);
  image.registers = reported(image.log, " registers");
  const int stores = reported(image.log, " bytes spill stores"), loads = reported(image.log, " bytes spill loads");
  image.spill_bytes = stores < 0 || loads < 0 ? -1 : stores + loads;
  return image;
}

}  // namespace frit::jit
