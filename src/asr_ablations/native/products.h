// Matrix products. The left operand is read unchanged or transposed into blocks. The right operand is packed into panels
// that fill the registers.
//
// A core with two float32 units computes 2 · LANES multiply-adds per cycle. Without reuse, each of them would load an operand
// from memory. A tile of ROWS × 3 vectors of sums therefore stays in registers: each step of k loads 3 vectors of the right
// operand and ROWS numbers of the left operand for 3 · ROWS vector instructions.
#pragma once
#include "elementary.h"
#if defined(__AVX512BF16__) || defined(__AMX_BF16__)
#include <immintrin.h>
#endif

#ifdef __AVX512F__
constexpr long LANES = 16, ROWS = 8;  // sums occupy 24 of the 32 registers
#else
constexpr long LANES = 8, ROWS = 4;  // sums occupy 12 of the 16 registers
#endif
constexpr long PANEL = 3 * LANES;
constexpr long DEPTH = 128;  // words of k at a time: such a part of a panel (24 KB) fits into the first-level cache
#ifdef __AMX_BF16__
constexpr long PAD = 32;  // a row of a tile has 32 bfloat16 numbers
#else
constexpr long PAD = 16;
#endif
// Widths are rounded up to a multiple of PAD, so loops over units and tiles have no remainder.

typedef float Lanes __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef uint32_t WordLanes __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

static inline uint32_t bits_of(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return bits;
}
// Rounds a float32 to bfloat16 (nearest, ties to even), which is the upper half of a float32.
static inline uint32_t upper_half(float x) {
  uint32_t bits = bits_of(x);
  return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

// Number formats of operands. Products use 32-bit words: one float32, or two bfloat16 numbers that are adjacent in k.
struct Float32 {
  using Number = float;
  static constexpr long PER_WORD = 1, DEEP = 1;  // the number of words of k is padded to a multiple of DEEP
  static inline float narrow(float x) { return x; }
  static inline Lanes multiply_add(Lanes sum, uint32_t a, WordLanes b) {
    float number;
    std::memcpy(&number, &a, 4);
    return sum + number * (Lanes)b;
  }
};
#if defined(__AVX512BF16__) || defined(__AMX_BF16__)
struct BFloat16 {
  using Number = uint16_t;
#ifdef __AMX_BF16__
  static constexpr long PER_WORD = 2, DEEP = 16;
#else
  static constexpr long PER_WORD = 2, DEEP = 1;
#endif
  static inline uint16_t narrow(float x) { return uint16_t(upper_half(x)); }
#ifndef __AMX_BF16__
  static inline Lanes multiply_add(Lanes sum, uint32_t a, WordLanes b) {
    // the instruction itself, because with its intrinsic GCC 12 stores 15 of a tile's 24 sums in memory at each step
    const WordLanes pair = (WordLanes)_mm512_set1_epi32(int(a));
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(pair), "v"(b));
    return sum;
  }
#endif
};
#else
// Without a bfloat16 instruction, numbers are rounded to bfloat16 and multiplied in float32. These products are exact, so
// results differ only by the order of the sums.
struct BFloat16 : Float32 {
  static inline float narrow(float x) {
    uint32_t bits = upper_half(x) << 16;
    float rounded;
    std::memcpy(&rounded, &bits, 4);
    return rounded;
  }
};
#endif

template <class Op>
constexpr long words(long numbers) { return (numbers + Op::PER_WORD - 1) / Op::PER_WORD; }

template <class Op>
static void narrow_row(const float* from, typename Op::Number* to, long count, long width) {
  EACH for (long i = 0; i < count; i++) to[i] = Op::narrow(from[i]);
  for (long i = count; i < width; i++) to[i] = 0;
}

// Gates of `size` units each. In a padded matrix, a gate begins every `stride` rows, and the remaining rows are 0.
struct Gates {
  long count, size, stride;
  long padded() const { return count * stride; }
  long source(long padded_row) const {  // returns the row in the unpadded matrix, or -1 for padding
    long gate = padded_row / stride, unit = padded_row % stride;
    return unit < size ? gate * size + unit : -1;
  }
};

template <class Op>
struct Panels {  // the right operand (k, n), stored as [panel][word of k][PANEL]
  long k, n, deep;
  Buffer<uint32_t> buffer;
  Panels(long k, long n) : k(k), n(n), deep(rounded_up(words<Op>(k), Op::DEEP)), buffer(deep * rounded_up(n, PANEL)) {}
  uint32_t* panel(long p) const { return buffer.data + p * deep * PANEL; }
};

// Packs a float32 source (gates.count · gates.size, k). Its rows become the columns of the operand.
template <class Op>
static void pack_transposed(const float* source, const Gates& gates, Panels<Op>& to) {
  Buffer<typename Op::Number> row(to.deep * Op::PER_WORD);
  const uint32_t* narrowed = reinterpret_cast<const uint32_t*>(row.data);
  for (long n = 0; n < rounded_up(to.n, PANEL); n++) {
    uint32_t* column = to.panel(n / PANEL) + n % PANEL;
    long from = n < to.n ? gates.source(n) : -1;
    if (from < 0) {
      for (long k = 0; k < to.deep; k++) column[k * PANEL] = 0;
      continue;
    }
    narrow_row<Op>(source + from * to.k, row.data, to.k, to.deep * Op::PER_WORD);
    for (long k = 0; k < to.deep; k++) column[k * PANEL] = narrowed[k];
  }
}

// Packs a source whose rows are the rows of the operand. row(k) points to row k, or is null if row k is zero.
template <class Op, class Row>
static void pack_rows(const Row& row, Panels<Op>& to) {
  using Number = typename Op::Number;
  std::vector<Number> zeros(to.n, 0);
  for (long word = 0; word < to.deep; word++) {
    const Number* parts[Op::PER_WORD];
    for (long part = 0; part < Op::PER_WORD; part++) {
      long k = word * Op::PER_WORD + part;
      const Number* source = k < to.k ? row(k) : nullptr;
      parts[part] = source ? source : zeros.data();
    }
    for (long n = 0; n < to.n; n += PANEL) {
      long width = std::min(PANEL, to.n - n);
      uint32_t* out = to.panel(n / PANEL) + word * PANEL;
      if constexpr (Op::PER_WORD == 1) {
        std::memcpy(out, parts[0] + n, 4 * width);
      } else {
        const Number *low = parts[0] + n, *high = parts[Op::PER_WORD - 1] + n;
        EACH for (long i = 0; i < width; i++) out[i] = uint32_t(low[i]) | uint32_t(high[i]) << 16;
      }
      for (long i = width; i < PANEL; i++) out[i] = 0;
    }
  }
}

// The left operand. Element (m, k) is in the word at + m * by_row + (word of k) * by_word. If by_block is not 0, a block of
// ROWS rows begins every by_block words, and m counts from the first row of its block.
struct Left {
  const uint32_t* at;
  long by_row, by_word, by_block;
};

// The transpose of a source (k, m) whose rows are `stride` numbers apart, stored in blocks of ROWS rows (AMX: in whole rows).
template <class Op>
struct Transposed {
  static constexpr bool BLOCKS = Op::DEEP == 1;
  long deep;
  Buffer<uint32_t> buffer;
  Transposed(const typename Op::Number* source, long k, long m, long stride)
      : deep(rounded_up(words<Op>(k), Op::DEEP)), buffer(deep * rounded_up(m, ROWS)) {
    const long group = BLOCKS ? 1 : Op::DEEP;  // reads one cache line of each row at a time
    for (long word = 0; word < deep; word += group)
      for (long first = 0; first < m; first += ROWS)
        for (long w = word; w < word + group; w++) put(source, k, w, first, std::min(ROWS, m - first), stride);
  }
  Left left() const { return BLOCKS ? Left{buffer.data, 1, ROWS, deep * ROWS} : Left{buffer.data, deep, 1, 0}; }

 private:
  void put(const typename Op::Number* source, long k, long word, long first, long count, long stride) {
    const long by_row = BLOCKS ? 1 : deep;
    uint32_t* out = buffer.data + (BLOCKS ? (first / ROWS * deep + word) * ROWS : first * deep + word);
    for (long i = 0; i < ROWS; i++) {
      uint32_t bits = 0;
      for (long part = 0; i < count && part < Op::PER_WORD && word * Op::PER_WORD + part < k; part++) {
        typename Op::Number number = source[(word * Op::PER_WORD + part) * stride + first + i];
        if constexpr (Op::PER_WORD == 1) std::memcpy(&bits, &number, 4);
        else bits |= uint32_t(number) << 16 * part;
      }
      out[i * by_row] = bits;
    }
  }
};

template <class Op, int M>
static inline void tile(long deep, const uint32_t* a, const Left& left, const uint32_t* b, float* sums, long stride, bool add) {
  Lanes c[M][3];
#pragma GCC unroll 8
  for (int m = 0; m < M; m++)
#pragma GCC unroll 3
    for (int v = 0; v < 3; v++) c[m][v] = add ? *reinterpret_cast<Lanes*>(sums + m * stride + v * LANES) : Lanes{};
  for (long k = 0; k < deep; k++, a += left.by_word, b += PANEL) {
    WordLanes right[3];
#pragma GCC unroll 3
    for (int v = 0; v < 3; v++) right[v] = *reinterpret_cast<const WordLanes*>(b + v * LANES);
#pragma GCC unroll 8
    for (int m = 0; m < M; m++)
#pragma GCC unroll 3
      for (int v = 0; v < 3; v++) c[m][v] = Op::multiply_add(c[m][v], a[m * left.by_row], right[v]);
  }
#pragma GCC unroll 8
  for (int m = 0; m < M; m++)
#pragma GCC unroll 3
    for (int v = 0; v < 3; v++) *reinterpret_cast<Lanes*>(sums + m * stride + v * LANES) = c[m][v];
}

template <class Op, int M = ROWS>
static inline void tile_of(long m, long deep, const uint32_t* a, const Left& left, const uint32_t* b, float* sums, long stride, bool add) {
  if (m == M) return tile<Op, M>(deep, a, left, b, sums, stride, add);
  if constexpr (M > 1) tile_of<Op, M - 1>(m, deep, a, left, b, sums, stride, add);
}

// The memory for the sums of a tile. If a panel is wider than the rest of a row, sums are computed in a copy, because writing
// whole vectors would pass the end of the row.
struct Sums {
  float *place, *at;
  long stride, rows, width, step;  // step: distance between rows of `at`
  Sums(float* place, long stride, long rows, long width, float* copy, bool add) : place(place), stride(stride), rows(rows), width(width) {
    bool whole = width == PANEL;
    at = whole ? place : copy, step = whole ? stride : PANEL;
    if (whole || !add) return;
    for (long i = 0; i < rows; i++) std::memcpy(copy + i * PANEL, place + i * stride, 4 * width);
  }
  void put() const {
    for (long i = 0; at != place && i < rows; i++) std::memcpy(place + i * stride, at + i * PANEL, 4 * width);
  }
};

// Computes to = left · right, or to += left · right if `add` is set; to has shape (m, right.n). Each element is summed in the
// order of k for any m, so an utterance's result does not depend on the other utterances in the batch.
template <class Op>
static void multiply(long m, const Left& left, const Panels<Op>& right, float* to, long stride, bool add) {
  float copy[ROWS * PANEL] = {};
  for (long k = 0; k < right.deep || k == 0; k += DEPTH)  // runs once if k is 0, to set the sums to 0
    for (long n = 0; n < right.n; n += PANEL)             // the inner loop, to keep this part of the left operand in a cache
      for (long row = 0; row < m; row += ROWS) {
        long rows = std::min(ROWS, m - row), block = left.by_block ? row / ROWS * left.by_block : row * left.by_row;
        Sums sums(to + row * stride + n, stride, rows, std::min(PANEL, right.n - n), copy, add || k > 0);
        tile_of<Op>(rows, std::min(DEPTH, right.deep - k), left.at + block + k * left.by_word, left, right.panel(n / PANEL) + k * PANEL, sums.at, sums.step, add || k > 0);
        sums.put();
      }
}

#ifdef __AMX_BF16__
// One AMX tile product multiplies 16 rows of 32 numbers (left operand) by 16 words of 16 columns (panel). These are 16 · 16 ·
// 32 multiply-adds in 16 cycles, 16 times the rate of float32. With six tiles of sums, each tile of a panel is used twice.
struct alignas(64) TileShapes {
  uint8_t palette = 1, start = 0, reserved[14] = {};
  uint16_t bytes[16] = {};
  uint8_t rows[16] = {};
  explicit TileShapes(long left) {  // tiles 0 to 5 hold sums, tile 6 the left operand, tile 7 a part of a panel
    for (int tile = 0; tile < 8; tile++) bytes[tile] = 64, rows[tile] = uint8_t(tile < 7 ? left : 16);
  }
};

#define EACH_OF_SUMS(call) call(0, 3, 0) call(1, 4, 16) call(2, 5, 32)
#define LOAD(upper, lower, column)                                      \
  if (add) _tile_loadd(upper, sums + column, step);                     \
  else _tile_zero(upper);                                               \
  if (two && add) _tile_loadd(lower, sums + 16 * stride + column, step); \
  else _tile_zero(lower);
#define UPPER(upper, lower, column) _tile_loadd(7, b + column, PANEL * 4); _tile_dpbf16ps(upper, 6, 7);
#define LOWER(upper, lower, column) _tile_loadd(7, b + column, PANEL * 4); _tile_dpbf16ps(lower, 6, 7);
#define STORE(upper, lower, column)          \
  _tile_stored(upper, sums + column, step);  \
  if (two) _tile_stored(lower, sums + 16 * stride + column, step);
static inline void tiles(long deep, const uint32_t* a, long by_row, bool two, const uint32_t* b, float* sums, long stride, bool add) {
  const long step = stride * 4;
  EACH_OF_SUMS(LOAD)
  for (long k = 0; k < deep; k += 16, b += 16 * PANEL) {
    _tile_loadd(6, a + k, by_row * 4);
    EACH_OF_SUMS(UPPER)
    if (!two) continue;
    _tile_loadd(6, a + 16 * by_row + k, by_row * 4);
    EACH_OF_SUMS(LOWER)
  }
  EACH_OF_SUMS(STORE)
}

template <>
void multiply<BFloat16>(long m, const Left& left, const Panels<BFloat16>& right, float* to, long stride, bool add) {
  alignas(64) float copy[32 * PANEL] = {};
  for (long row = 0, shaped = 0, rows; row < m; row += rows) {
    // processes 32 or 16 rows at once, or the remaining ones, because no tile may access rows that do not exist
    const bool two = m - row >= 32;
    const long shape = std::min(16L, m - row);
    rows = two ? 32 : shape;
    if (shaped != shape) {
      TileShapes shapes(shape);
      _tile_loadconfig(&shapes);
      shaped = shape;
    }
    for (long n = 0; n < right.n; n += PANEL) {
      Sums sums(to + row * stride + n, stride, rows, std::min(PANEL, right.n - n), copy, add);
      tiles(right.deep, left.at + row * left.by_row, left.by_row, two, right.panel(n / PANEL), sums.at, sums.step, add);
      sums.put();
    }
  }
  _tile_release();
}
#endif
