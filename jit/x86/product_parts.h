// The parts of product_x86, from the inside out: generated micro-kernels, packing, the scratch memory of a thread, and
// the two drivers (matrices; a vector on one side). Only product*.cpp include this.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include "jit/x86/product.h"

namespace frit::jit::products {

constexpr int64_t panel_depth = 256;   // K panels and chunks are part of the result's definition (tracer/product.h),
constexpr int64_t chunk_depth = 1024;  // everything else here is schedule

// ---- micro-kernels: one or more tiles of C, `rows` x (`vectors` registers of 8 floats or 4 doubles, 16 or 8 with AVX-512)-----------------
enum class LeftMode : uint8_t { Packed, Rows, Columns };     // [k][rows] · in place, k contiguous · in place, rows contiguous
enum class RightMode : uint8_t { Packed, Rows, PackOnUse };  // [k][strip] · in place · in place, stored packed while used
struct TileArgs {  // strides in bytes
  const char* a;
  const char* b;
  char* c;
  char* packed;      // where PackOnUse stores the strip
  const char* next;  // rows to prefetch while a packed strip is used
  int64_t k, a_row, a_col, b_row, c_row;
  int64_t tiles, a_step;  // row tiles done in one call, one below the other in C
  int64_t strips = 1;     // of each row tile, one beside the other, where B is read in place
  const int32_t* mask;    // of the last vector, see tail_mask and mask_bits
};
using TileKernel = void (*)(const TileArgs*);
struct TileKey {
  bool wide = false;  // float64
  bool zmm = false;   // AVX-512
  int rows = 1, vectors = 1;
  LeftMode left = LeftMode::Packed;
  RightMode right = RightMode::Packed;
  bool accumulate = false;  // C += instead of C =
  bool masked = false;      // the last vector is partly outside of C
  bool prefetch = false;
};
constexpr int max_tile_rows = 14, max_tile_vectors = 6;
constexpr int prefetch_rows = 8;
TileKernel tile_kernel(const TileKey& key);  // lock-free after the first use of a key

// Mask of the first `count` elements of a register, count >= 0; size is 4 or 8 bytes.
extern const int32_t mask_words[16];
extern const int32_t mask_bits[16];  // as an opmask
inline const int32_t* tail_mask(int64_t count, int size) { return mask_words + 8 - count * (size / 4); }

// ---- packing: strips [depth][stride], widened to the computing type ------------------------------------------------------
// out[k * stride + j] = from[k * step_k + j * step_j] for j < width. stride is width, or width rounded up to whole registers
// (then zero-filled). May write up to one register past the end of the strip.
using PackStrip = void (*)(char* out, const char* from, int64_t step_k, int64_t step_j, int64_t depth, int64_t width, int64_t stride);
PackStrip pack_strip(Dtype storage);
constexpr int64_t pack_rows_at_once = 16;  // of a source whose rows are contiguous: its lines stay in L1
// Strips of so many columns, one after the other, the last one of whole registers of `lanes` elements.
void pack_strips(Dtype storage, char* out, const char* from, int64_t step_k, int64_t step_j, int64_t depth, int64_t columns, int64_t strip, int64_t lanes);
// Rounds a block of C, [rows][columns] with row stride `from_row` elements in the computing type, to its storage type and place.
void store_block(Dtype storage, char* c, int64_t c_row, int64_t c_col, const char* from, int64_t from_row, int64_t rows, int64_t columns);

// ---- scratch memory ---------------------------------------------------------------------------------------------------------
// The calling thread's buffer for as long as the object lives: kept between products, in huge pages when large.
class Scratch {
 public:
  explicit Scratch(size_t bytes);  // throws std::bad_alloc
  ~Scratch();
  Scratch(const Scratch&) = delete;
  char* data() const { return data_; }

 private:
  char* data_;
};

// ---- operands read through windows -----------------------------------------------------------------------------------------
// The matrix [channels * elements][places] of a convolution, which is nowhere in memory: element (k, place) is the pixel that element k % elements
// of the kernel sees in channel k / elements from that place; pixels outside are zero. Places are row-major, image after image.
struct Windows {
  Dtype storage;
  const char* from;
  int64_t image_step, channel_step, row_step, column_step;  // in elements
  int64_t rows, columns;                                    // of an image
  int64_t place_rows, place_columns;                        // of an image
  int64_t row_stride, column_stride;                        // pixels from a place to the next
  int64_t elements;
  const int64_t *element_row, *element_column;              // the pixel that a place at (0, 0) sees
  int64_t lowest_row, highest_row, lowest_column, highest_column;  // of those
  bool joined = false;                                      // places go on from image to image
  int64_t places() const { return place_rows * place_columns; }
};
size_t patch_bytes(const Windows& w, int64_t depth, int64_t places);  // that a panel of so many k and places needs at most

// A part of that matrix. Its pixels are copied to a dense patch first: widened, with the zeros around, and with columns that are a stride apart
// beside each other, so that from then on every place's pixels are a row of the patch at some distance. Pixels that need nothing of that stay
// where they are.
class WindowPanel {
 public:
  WindowPanel(const Windows& w, int64_t k, int64_t depth, int64_t place, int64_t places, char* patch);
  // out[i * stride + j] = element (k + i, place + from + j), i < depth, j < width <= 512; may write up to one register past the end.
  void copy(char* out, int64_t stride, int64_t from, int64_t width) const;
  // out[r * out_row + j] = the sum by panels of left[r * depth + i] times element (k + i, place + from + j), r < rows <= 4, j < width <= 512, all
  // in the computing type.
  void fold(char* out, int64_t out_row, const char* left, int64_t rows, int64_t from, int64_t width) const;

 private:
  struct Chunk {  // neighbouring places that lie beside each other, a register of them at most
    int64_t from;
    int32_t to, count;
  };
  int chunks(int64_t from, int64_t width, int lanes, Chunk* out) const;
  template <class S> void fill(S* patch) const;

  const Windows& w_;
  const int64_t depth_, place_, channel_, channels_, image_, images_;
  int64_t place_row_ = 0, row_, row_count_, width_;               // pixels: from row_ on, and from the lowest column on
  int64_t phases_, phase_width_;                                  // of the patch: columns that are a stride apart
  int64_t image_step_, channel_step_, row_step_, line_;           // line_: places that lie beside each other
  const char* data_;
  bool in_place_;
  std::array<int64_t, chunk_depth> offset_;                       // of each k
};

// The weight's gradient of groups of one channel each, at most a register of them from `channel` on: [channels][elements] in the storage type.
// The gradient is that of the first of them, its strides those of images, channels, rows and columns.
void channel_gradient(const Windows& w, int64_t channel, int64_t channels, int64_t images, const char* gradient, const int64_t* stride, char* out);

// ---- drivers ------------------------------------------------------------------------------------------------------------------
// Columns of C that are places of images: `columns` of a row, `rows` of an image; steps in elements.
struct Scattered {
  int64_t rows, columns, image_step, row_step, column_step;
};
// One product or a part of one, done by one thread; strides in elements of the storage type.
struct View {
  Dtype storage;
  int64_t m, n, k;
  const char *a, *b;
  char* c;
  int64_t a_row, a_col, b_row, b_col, c_row, c_col;
  // Of a convolution: B, or A, is read through windows, whose places, or k, begin at `first`.
  const Windows *left = nullptr, *right = nullptr;
  int64_t first = 0;
  const char* kept = nullptr;             // B, packed before this product (product_kept.cpp)
  bool accumulate = false;                // C += instead of C =
  bool wide_result = false;               // C has the computing type
  const struct Scattered* result = nullptr;  // where C's columns lie; null: c_col apart
  Epilogue* then = nullptr;
  Prologue* before = nullptr;
  int64_t then_row = 0, then_column = 0;  // where this part's C begins in all of it
  bool turned = false;                    // this C is the transpose of the user's
  void begins(int64_t row, int64_t rows) const {
    if (before) before->begin(then_row + row, rows);
  }
  void finished(int64_t row, int64_t rows, int64_t column, int64_t columns) const {
    if (!then) return;
    turned ? then->run(then_row + column, columns, then_column + row, rows) : then->run(then_row + row, rows, then_column + column, columns);
  }
  int compute_size() const { return storage == Dtype::Float64 ? 8 : 4; }
};

constexpr int64_t kept_right_bytes = int64_t(8) << 20;  // all K panels of a block's B are kept packed up to this size

struct Schedule {
  int register_bytes = 32;
  int rows = 6, vectors = 2;  // of a tile
  LeftMode left = LeftMode::Rows;
  RightMode right = RightMode::PackOnUse;
  bool prefetch = false;
  bool all_panels = false;  // a block of C is finished before the next; otherwise a panel is
  bool along_rows = false;  // B is read in place and lies in L2: a row tile is finished before the next; otherwise a strip is
  int64_t block_rows = 96, block_columns = 768;  // columns: whole strips of every tile
};
Schedule kept_schedule(const View& v);    // where B was packed before: strips of every tile's columns
// Where its strip of columns from `column` on begins for a panel; width: the strip's.
const char* kept_strip(const View& v, int64_t column, int64_t depth_from, int64_t width);
Schedule choose_schedule(const View& v);  // of a product with k >= 1; a pure function of the view, the caches and the instruction set

bool computes_transpose(const Product& p);

// The kernel calls of a product for which nothing is packed; the operands as distances from their beginnings.
struct TileCalls {
  static constexpr int most = 12;
  struct Call {
    TileKernel kernel;
    TileArgs args;
    int64_t a, b, c;
  };
  int count = 0;  // more than `most`: not all are here
  Call calls[most];
};
bool list_calls(const View& v, TileCalls& calls);  // false: something is packed, or there are too many; nothing is computed

// product_direct.cpp: small products of shapes that this thread has met, without the driver. False: not one of them.
bool multiply_known(const Product& p, const void* a, const void* b, void* c);
void remember(const Product& p, const View& v, bool transposed);  // for the next time, where it is of that kind

void multiply_matrices(const View& v);  // by panels; k >= 1; a part of a larger product may have one row or column
void multiply_vector(const View& v);    // by lanes and chunks; m = 1 or n = 1, k >= 1

}  // namespace frit::jit::products
