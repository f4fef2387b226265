// transpose_add: a test.

#include "bfloat16.h"

#include <algorithm>

constexpr long TILE = 64;      // rows and columns of a tile
constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per tile.
extern "C" void transpose_add(
    const bfloat16 *x,  // (n_col, n_row)
    const bfloat16 *y,  // (n_row, n_col)
    bfloat16 *out,      // (n_row, n_col)
    long n_row,
    long n_col) {
#pragma omp parallel for collapse(2) if (n_row * n_col >= GRAIN)
  for (long row_tile = 0; row_tile < n_row; row_tile += TILE) {
    for (long col_tile = 0; col_tile < n_col; col_tile += TILE) {
      const long row_end = std::min(row_tile + TILE, n_row);
      const long col_end = std::min(col_tile + TILE, n_col);
      for (long row = row_tile; row < row_end; ++row) {
        const bfloat16 *x_column = x + row;
        const bfloat16 *y_row = y + row * n_col;
        bfloat16 *out_row = out + row * n_col;
#pragma omp simd
        for (long col = col_tile; col < col_end; ++col) {
          out_row[col] = x_column[col * n_row] + y_row[col];
        }
      }
    }
  }
}
