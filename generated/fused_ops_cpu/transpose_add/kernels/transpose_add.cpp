// transpose_add: out = x.t() + y, in square tiles.
//
//     transpose_add    return x.t().contiguous() + y
//
// Reads x and y once, writes out once.

#include <algorithm>

constexpr long TILE = 32;      // rows and columns of a tile
constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per tile.
extern "C" void transpose_add(
    const float *x,  // (n_cols, n_rows)
    const float *y,  // (n_rows, n_cols)
    float *out,      // (n_rows, n_cols)
    long n_rows,
    long n_cols) {
#pragma omp parallel for collapse(2) if (n_rows * n_cols >= GRAIN)
  for (long row_tile = 0; row_tile < n_rows; row_tile += TILE) {
    for (long col_tile = 0; col_tile < n_cols; col_tile += TILE) {
      const long row_end = std::min(row_tile + TILE, n_rows);
      const long col_end = std::min(col_tile + TILE, n_cols);
      for (long row = row_tile; row < row_end; ++row) {
        const float *x_column = x + row;
        const float *y_row = y + row * n_cols;
        float *out_row = out + row * n_cols;
#pragma omp simd
        for (long col = col_tile; col < col_end; ++col) {
          out_row[col] = x_column[col * n_rows] + y_row[col];
        }
      }
    }
  }
}
