// column_sum: d_y = sum(d_x), column by column.
//
//     Mlp.forward    return self.narrow(hidden)
//
// Reads d_x once, writes d_y once.

#include <algorithm>

constexpr long COLS = 256;     // columns that are accumulated at a time
constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of columns; it walks down the rows.
extern "C" void column_sum(
    const float *d_x,  // (n_rows, n_cols)
    float *d_y,        // (n_cols,)
    long n_rows,
    long n_cols) {
#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long begin = 0; begin < n_cols; begin += COLS) {
    const long end = std::min(begin + COLS, n_cols);
    double col_sum[COLS];
    std::fill_n(col_sum, COLS, 0.0);

    for (long row = 0; row < n_rows; ++row) {
      const float *d_x_row = d_x + row * n_cols;
#pragma omp simd
      for (long col = begin; col < end; ++col) {
        col_sum[col - begin] += d_x_row[col];
      }
    }
#pragma omp simd
    for (long col = begin; col < end; ++col) {
      d_y[col] = col_sum[col - begin];
    }
  }
}
