// transpose_add: a test.

#include "bfloat16.h"
#include "transpose.h"

#include <algorithm>

constexpr long TILE_ROWS = 64;   // rows of a tile
constexpr long TILE_COLS = 256;  // columns of a tile
constexpr long GRAIN = 32768;    // elements below which one thread does it all

// One thread per tile.
extern "C" void transpose_add(
    const bfloat16 *x,  // (n_col, n_row)
    const bfloat16 *y,  // (n_row, n_col)
    bfloat16 *out,      // (n_row, n_col)
    long n_row,
    long n_col) {
#pragma omp parallel for collapse(2) if (n_row * n_col >= GRAIN)
  for (long row_tile = 0; row_tile < n_row; row_tile += TILE_ROWS) {
    for (long col_tile = 0; col_tile < n_col; col_tile += TILE_COLS) {
      const long row_end = std::min(row_tile + TILE_ROWS, n_row);
      const long col_end = std::min(col_tile + TILE_COLS, n_col);

      alignas(CACHE_LINE) bfloat16 x_tile[TILE_ROWS][TILE_COLS];
      load_transposed(x + col_tile * n_row + row_tile, n_row, row_end - row_tile, col_end - col_tile, x_tile);

      for (long row = row_tile; row < row_end; ++row) {
        const bfloat16 *y_row = y + row * n_col;
        bfloat16 *out_row = out + row * n_col;
#pragma omp simd
        for (long col = col_tile; col < col_end; ++col) {
          out_row[col] = x_tile[row - row_tile][col - col_tile] + y_row[col];
        }
      }
    }
  }
}
