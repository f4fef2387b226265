// full_sum: a test.

#include <algorithm>
#include <vector>

constexpr long COLS = 8192;    // columns per chunk, at least
constexpr long SPLITS = 128;   // chunks of a row, at most
constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per chunk of a row. Sums in double.
extern "C" void full_sum(
    const float *x,  // (n_row_col,)
    float *mean,     // one element
    long n_row_col) {
  const long n_splits = std::max(1L, std::min(SPLITS, n_row_col / COLS));
  const long chunk = (n_row_col + n_splits - 1) / n_splits;
  std::vector<double> partial_1(n_splits);

#pragma omp parallel for if (n_row_col >= GRAIN)
  for (long split = 0; split < n_splits; ++split) {
    const long begin = split * chunk;
    const long end = std::min(begin + chunk, n_row_col);

    double sum_value = 0.0;
#pragma omp simd reduction(+ : sum_value)
    for (long row_col = begin; row_col < end; ++row_col) {
      sum_value += x[row_col];
    }
    partial_1[split] = sum_value;
  }

  double sum_value = partial_1[0];
  // In order, so that the result does not depend on the number of threads.
  for (long split = 1; split < n_splits; ++split) {
    sum_value += partial_1[split];
  }
  mean[0] = sum_value / n_row_col;
}
