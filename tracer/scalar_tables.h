// The numbers of the tables that scalar functions look up (their order in tables()).
#pragma once
#include "tracer/scalar.h"

namespace frit::scalar {

constexpr int table_two_over_pi = 0;  // Float64: two zeros, then 2/pi in chunks of 24 bits, each an integer

}  // namespace frit::scalar
