// centered_with_sums: a test.

#include <algorithm>
#include <vector>

constexpr long ROWS = 32;      // rows per chunk, at least
constexpr long SPLITS = 256;   // chunks of the rows, at most
constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per chunk of rows; a row stays in cache between the loops. Sums of rows in double. The chunks'
// sums are added up in double.
extern "C" void centered_with_sums(
    const float *x,  // (n_row, n_col)
    float *y,        // (n_row, n_col)
    float *sums,     // (n_col,)
    long n_row,
    long n_col) {
  const long n_splits = std::max(1L, std::min(SPLITS, n_row / ROWS));
  const long chunk = (n_row + n_splits - 1) / n_splits;
  std::vector<float> partial_7(n_splits * n_col);

#pragma omp parallel for if (n_row * n_col >= GRAIN)
  for (long split = 0; split < n_splits; ++split) {
    const long row_end = std::min((split + 1) * chunk, n_row);
    float *second_sum_value = partial_7.data() + split * n_col;

    for (long row = split * chunk; row < row_end; ++row) {
      const float *x_row = x + row * n_col;
      float *y_row = y + row * n_col;

      double sum_value = 0.0;
#pragma omp simd reduction(+ : sum_value)
      for (long col = 0; col < n_col; ++col) {
        sum_value += x_row[col];
      }
      const float row_ratio = sum_value / n_col;

#pragma omp simd
      for (long col = 0; col < n_col; ++col) {
        const float element = x_row[col];
        const float sub_value = element - row_ratio;
        second_sum_value[col] += sub_value * element;
        y_row[col] = sub_value;
      }
    }
  }

#pragma omp parallel for if (n_row * n_col >= GRAIN)
  for (long col = 0; col < n_col; ++col) {
    double second_sum_value = partial_7[col];
    // In order, so that the result does not depend on the number of threads.
    for (long split = 1; split < n_splits; ++split) {
      second_sum_value += partial_7[split * n_col + col];
    }
    sums[col] = second_sum_value;
  }
}
