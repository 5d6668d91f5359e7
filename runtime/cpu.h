// What the processor can do, asked once.
#pragma once
#include <cstdint>
#include <string>

namespace frit {

struct CpuInfo {
  std::string name;                    // as the processor calls itself
  bool avx2 = false, fma = false, f16c = false, avx512 = false;  // usable: the system saves their registers too; avx512: F, BW, DQ, VL
  int64_t l1_bytes = 0, l2_bytes = 0, l3_bytes = 0;              // data caches; usual sizes where the system does not say
  int cores = 1;                       // processors that this process may run on

  bool generates_code() const { return avx2 && fma && f16c; }    // what jit/x86 needs
  std::string text() const;            // one line
};
const CpuInfo& cpu_info();

// Generated code uses AVX-512 where the processor has it, unless the setting says otherwise (FRIT_ISA=avx2). No bit of a result depends on it.
bool uses_avx512();
void use_avx512(bool on);  // from now on; nothing changes where the processor has none
void assume_avx512();      // code is generated for it all the same: for who has it run elsewhere (an emulator)

}  // namespace frit
