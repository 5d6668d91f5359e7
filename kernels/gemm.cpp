// The matrix product as a block program: see gemm.h.
#include "kernels/gemm.h"

namespace frit::kernels {

Program gemm(Dtype storage, int64_t tile) {
  ProgramBuilder b("gemm");
  const Value a = b.pointer(storage), other = b.pointer(storage), c = b.pointer(storage, true);
  const Value m = b.integer(), n = b.integer(), k = b.integer();
  Value step[6];
  for (Value& s : step) s = b.integer();
  const Value side = b.integer_constant(tile);
  const auto blocks = [&](Value length) { return b.apply(Prim::div, Dtype::Int64, {b.add(length, b.integer_constant(tile - 1)), side}); };
  const auto extent = [&](Value length, Value first) { return b.apply(Prim::min, Dtype::Int64, {side, b.apply(Prim::sub, Dtype::Int64, {length, first})}); };
  const auto place = [&](Value row, Value row_step, Value column, Value column_step) { return b.add(b.mul(row, row_step), b.mul(column, column_step)); };
  const int across = b.axis(AxisKind::grid, blocks(m)), along = b.axis(AxisKind::grid, blocks(n));
  const Value first_row = b.mul(b.index(across), side), first_column = b.mul(b.index(along), side);
  const int row = b.axis(AxisKind::block, extent(m, first_row)), column = b.axis(AxisKind::block, extent(n, first_column)), depth = b.axis(AxisKind::block, k);
  const Value i = b.add(first_row, b.index(row)), j = b.add(first_column, b.index(column)), l = b.index(depth);
  const Value product = b.dot(b.load(a, place(i, step[0], l, step[1])), b.load(other, place(l, step[2], j, step[3])), depth);
  b.store(c, place(i, step[4], j, step[5]), product);
  return b.finish();
}

}  // namespace frit::kernels
