// integer_rows: a test.

#include <cstdint>

constexpr int32_t THRESHOLD = 90;
constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of rows.
extern "C" void integer_rows(
    const int32_t *x,  // (n_row, n_col)
    int64_t *best,     // (n_row,)
    int64_t *total,    // (n_row,)
    bool *some,        // (n_row,)
    long n_row,
    long n_col) {
#pragma omp parallel for if (n_row * n_col >= GRAIN)
  for (long row = 0; row < n_row; ++row) {
    const int32_t *x_row = x + row * n_col;

    int32_t argmax_value_best = INT32_MIN;
    int64_t sum_value = 0;
    int any_value = 0;
#pragma omp simd reduction(max : argmax_value_best) reduction(+ : sum_value) reduction(| : any_value)
    for (long col = 0; col < n_col; ++col) {
      const int32_t element = x_row[col];
      argmax_value_best = element > argmax_value_best ? element : argmax_value_best;
      sum_value += static_cast<int64_t>(element);
      any_value |= element >= THRESHOLD;
    }

    // The first place of argmax_value_best.
    long argmax_value = n_col;
#pragma omp simd reduction(min : argmax_value)
    for (long col = 0; col < n_col; ++col) {
      const long place = x_row[col] == argmax_value_best ? col : n_col;
      argmax_value = place < argmax_value ? place : argmax_value;
    }
    best[row] = argmax_value;
    total[row] = sum_value;
    some[row] = any_value;
  }
}
