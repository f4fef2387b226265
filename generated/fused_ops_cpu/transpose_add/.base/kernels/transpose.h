// transpose.h: copies a part of a matrix into an array, transposed, so that a loop may read along the other
// side.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

constexpr long CACHE_LINE = 64;  // bytes

#if defined(__AVX512BW__)
constexpr long REGISTER_BYTES = 64;
#elif defined(__AVX2__)
constexpr long REGISTER_BYTES = 32;
#else
constexpr long REGISTER_BYTES = 16;
#endif

// A square of elements; a row of it fills a register.
template <typename T>
struct Square {
  static constexpr long SIDE = std::min<long>(REGISTER_BYTES / sizeof(T), 32);
  using Narrow = std::conditional_t<sizeof(T) == 2, uint16_t, uint8_t>;
  using Half = std::conditional_t<sizeof(T) == 4, uint32_t, Narrow>;
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, Half>;
  typedef Bits Row __attribute__((vector_size(SIDE * sizeof(T)), aligned(alignof(T)), may_alias));
};

// to[col][row] = from[row][col]. The rows are riffled like the two halves of a deck of cards, elements taken
// in turns: each time the first bit of an element's place moves to the end, so log2(SIDE) times exchange row
// and column.
template <typename T>
inline void transpose_square(const T *from, long from_stride, T *to, long to_stride) {
  constexpr long SIDE = Square<T>::SIDE;
#if __has_builtin(__builtin_shuffle)
  using Row = typename Square<T>::Row;
  Row rows[SIDE], riffled[SIDE], first, second;
#pragma GCC unroll 32
  for (long lane = 0; lane < SIDE; ++lane) {
    rows[lane] = *reinterpret_cast<const Row *>(from + lane * from_stride);
    first[lane] = lane / 2 + lane % 2 * SIDE;
    second[lane] = first[lane] + SIDE / 2;
  }
#pragma GCC unroll 5
  for (long done = 1; done < SIDE; done *= 2) {
#pragma GCC unroll 16
    for (long row = 0; row < SIDE / 2; ++row) {
      riffled[2 * row] = __builtin_shuffle(rows[row], rows[row + SIDE / 2], first);
      riffled[2 * row + 1] = __builtin_shuffle(rows[row], rows[row + SIDE / 2], second);
    }
    std::copy_n(riffled, SIDE, rows);
  }
#pragma GCC unroll 32
  for (long lane = 0; lane < SIDE; ++lane) {
    *reinterpret_cast<Row *>(to + lane * to_stride) = rows[lane];
  }
#else  // not g++
  for (long row = 0; row < SIDE; ++row) {
    for (long col = 0; col < SIDE; ++col) {
      to[col * to_stride + row] = from[row * from_stride + col];
    }
  }
#endif
}

// tile[row][col] = from[col * stride + row]
template <typename T, long N>
inline void load_transposed(const T *from, long stride, long n_rows, long n_cols, T (*tile)[N]) {
  constexpr long SIDE = Square<T>::SIDE;
  for (long col = 0; col < n_cols; col += SIDE) {
    for (long row = 0; row < n_rows; row += SIDE) {
      if (row + SIDE <= n_rows && col + SIDE <= n_cols) {
        transpose_square(from + col * stride + row, stride, &tile[row][col], N);
        continue;
      }
      for (long c = col; c < std::min(col + SIDE, n_cols); ++c) {
        for (long r = row; r < std::min(row + SIDE, n_rows); ++r) {
          tile[r][c] = from[c * stride + r];
        }
      }
    }
  }
}
