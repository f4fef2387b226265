// product_with_sums: a test.

#include <algorithm>
#include <vector>

constexpr long ROWS = 32;      // rows per chunk, at least
constexpr long COLS = 1024;    // columns that are accumulated at a time
constexpr long SPLITS = 256;   // chunks of the rows, at most
constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per chunk of rows and block of columns. The chunks' sums are added up in double.
extern "C" void product_with_sums(
    const float *x,  // (n_row, n_col)
    const float *y,  // (n_row, n_col)
    float *product,  // (n_row, n_col)
    float *sums,     // (n_col,)
    long n_row,
    long n_col) {
  const long n_splits = std::max(1L, std::min(SPLITS, n_row / ROWS));
  const long chunk = (n_row + n_splits - 1) / n_splits;
  std::vector<float> partial_4(n_splits * n_col);

#pragma omp parallel for collapse(2) if (n_row * n_col >= GRAIN)
  for (long split = 0; split < n_splits; ++split) {
    for (long begin = 0; begin < n_col; begin += COLS) {
      const long end = std::min(begin + COLS, n_col);
      const long row_end = std::min((split + 1) * chunk, n_row);
      float *sum_value = partial_4.data() + split * n_col;
      std::fill(sum_value + begin, sum_value + end, 0.0f);

      for (long row = split * chunk; row < row_end; ++row) {
        const float *x_row = x + row * n_col;
        const float *y_row = y + row * n_col;
        float *product_row = product + row * n_col;
#pragma omp simd
        for (long col = begin; col < end; ++col) {
          const float mul_value = x_row[col] * y_row[col];
          sum_value[col] += mul_value;
          product_row[col] = mul_value;
        }
      }
    }
  }

#pragma omp parallel for if (n_row * n_col >= GRAIN)
  for (long col = 0; col < n_col; ++col) {
    double sum_value = partial_4[col];
    // In order, so that the result does not depend on the number of threads.
    for (long split = 1; split < n_splits; ++split) {
      sum_value += partial_4[split * n_col + col];
    }
    sums[col] = sum_value;
  }
}
