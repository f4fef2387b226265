// transpose_add: out = x.t() + y, in tiles.
//
//     transpose_add    return x.t().contiguous() + y
//
// Reads x and y once, writes out once.

#include "transpose.h"

#include <algorithm>

constexpr long TILE_ROWS = 64;   // rows of a tile
constexpr long TILE_COLS = 256;  // columns of a tile
constexpr long GRAIN = 32768;    // elements below which one thread does it all

// One thread per tile.
extern "C" void transpose_add(
    const float *x,  // (n_cols, n_rows)
    const float *y,  // (n_rows, n_cols)
    float *out,      // (n_rows, n_cols)
    long n_rows,
    long n_cols) {
#pragma omp parallel for collapse(2) if (n_rows * n_cols >= GRAIN)
  for (long row_tile = 0; row_tile < n_rows; row_tile += TILE_ROWS) {
    for (long col_tile = 0; col_tile < n_cols; col_tile += TILE_COLS) {
      const long row_end = std::min(row_tile + TILE_ROWS, n_rows);
      const long col_end = std::min(col_tile + TILE_COLS, n_cols);

      alignas(CACHE_LINE) float x_tile[TILE_ROWS][TILE_COLS];
      load_transposed(
          x + col_tile * n_rows + row_tile, n_rows, row_end - row_tile, col_end - col_tile, x_tile);

      for (long row = row_tile; row < row_end; ++row) {
        const float *y_row = y + row * n_cols;
        float *out_row = out + row * n_cols;
#pragma omp simd
        for (long col = col_tile; col < col_end; ++col) {
          out_row[col] = x_tile[row - row_tile][col - col_tile] + y_row[col];
        }
      }
    }
  }
}
