// The constant tables of scalar functions.
#include "tracer/scalar_tables.h"

namespace frit::scalar {
namespace {

// 2/pi in chunks of 24 bits, most significant first, after two that are zero: enough for the largest double.
const double two_over_pi[] = {
    0, 0,
    0xa2f983, 0x6e4e44, 0x1529fc, 0x2757d1, 0xf534dd, 0xc0db62, 0x95993c, 0x439041,
    0xfe5163, 0xabdebb, 0xc561b7, 0x246e3a, 0x424dd2, 0xe00649, 0x2eea09, 0xd1921c,
    0xfe1deb, 0x1cb129, 0xa73ee8, 0x8235f5, 0x2ebb44, 0x84e99c, 0x7026b4, 0x5f7e41,
    0x3991d6, 0x398353, 0x39f49c, 0x845f8b, 0xbdf928, 0x3b1ff8, 0x97ffde, 0x05980f,
    0xef2f11, 0x8b5a0a, 0x6d1f6d, 0x367ecf, 0x27cb09, 0xb74f46, 0x3f669e, 0x5fea2d,
    0x7527ba, 0xc7ebe5, 0xf17b3d, 0x0739f7, 0x8a5292, 0xea6bfb, 0x5fb11f, 0x8d5d08,
    0x560330, 0x46fc7b, 0x6babf0, 0xcfbc20,
};

}  // namespace

const std::vector<Table>& tables() {
  static const auto* all = new std::vector<Table>{
      {"two_over_pi", Dtype::Float64, two_over_pi, sizeof two_over_pi / sizeof *two_over_pi},
  };
  return *all;
}

}  // namespace frit::scalar
