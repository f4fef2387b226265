// column_sum: sums = sum(x * 2.0), column by column.
//
//     column_sum    return (x * 2).sum(0)
//
// Reads x once, writes sums once.

#include <algorithm>
#include <vector>

constexpr long ROWS = 32;      // rows per chunk, at least
constexpr long COLS = 1024;    // columns that are accumulated at a time
constexpr long SPLITS = 256;   // chunks of the rows, at most
constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per chunk of rows and block of columns. The chunks' sums are added up in double.
extern "C" void column_sum(
    const float *x,  // (n_rows, n_cols)
    float *sums,     // (n_cols,)
    long n_rows,
    long n_cols) {
  const long n_splits = std::max(1L, std::min(SPLITS, n_rows / ROWS));
  const long chunk = (n_rows + n_splits - 1) / n_splits;
  std::vector<float> partial(n_splits * n_cols);

#pragma omp parallel for collapse(2) if (n_rows * n_cols >= GRAIN)
  for (long split = 0; split < n_splits; ++split) {
    for (long begin = 0; begin < n_cols; begin += COLS) {
      const long end = std::min(begin + COLS, n_cols);
      const long row_end = std::min((split + 1) * chunk, n_rows);
      float *col_sum = partial.data() + split * n_cols;
      std::fill(col_sum + begin, col_sum + end, 0.0f);

      for (long row = split * chunk; row < row_end; ++row) {
        const float *x_row = x + row * n_cols;
#pragma omp simd
        for (long col = begin; col < end; ++col) {
          col_sum[col] += x_row[col] * 2.0f;
        }
      }
    }
  }

#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long col = 0; col < n_cols; ++col) {
    double col_sum = partial[col];
    // In order, so that the result does not depend on the number of threads.
    for (long split = 1; split < n_splits; ++split) {
      col_sum += partial[split * n_cols + col];
    }
    sums[col] = col_sum;
  }
}
