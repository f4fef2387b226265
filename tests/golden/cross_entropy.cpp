// cross_entropy: a test.

#include "bfloat16.h"
#include "vector_math.h"

#include <cmath>
#include <cstdint>

constexpr long GRAIN = 4096;  // elements below which one thread does it all

// One thread per block of rows; a row stays in cache between the loops.
extern "C" void cross_entropy(
    const bfloat16 *logits,  // (n_row, n_col)
    const int64_t *target,   // (n_row,)
    float *loss,             // (n_row,)
    long n_row,
    long n_col) {
#pragma omp parallel for if (n_row * n_col >= GRAIN)
  for (long row = 0; row < n_row; ++row) {
    const bfloat16 *logits_row = logits + row * n_col;

    float max_value = -INFINITY;
#pragma omp simd reduction(max : max_value)
    for (long col = 0; col < n_col; ++col) {
      max_value = logits_row[col] > max_value ? logits_row[col] : max_value;
    }

    float sum_value = 0.0f;
#pragma omp simd reduction(+ : sum_value)
    for (long col = 0; col < n_col; ++col) {
      sum_value += vector_exp(logits_row[col] - max_value);
    }
    loss[row] = max_value + logf(sum_value) - logits_row[target[row]];
  }
}
