// softmax: weights = softmax(x * 0.125 + w), row by row.
//
//     softmax    scores = x * 0.125 + w
//     softmax    return torch.softmax(scores, dim=-1)
//
// Reads x once, writes weights once; w stays in cache.

#include "vector_math.h"

#include <cmath>

constexpr long GRAIN = 4096;  // elements below which one thread does it all

// One thread per block of rows; a row stays in cache between the loops (score, then numerator in weights).
// Sums in double.
extern "C" void softmax(
    const float *x,  // (n_rows, n_cols)
    const float *w,  // (n_cols,)
    float *weights,  // (n_rows, n_cols)
    long n_rows,
    long n_cols) {
#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long row = 0; row < n_rows; ++row) {
    const float *x_row = x + row * n_cols;
    float *weights_row = weights + row * n_cols;

    float row_max = -INFINITY;
#pragma omp simd reduction(max : row_max)
    for (long col = 0; col < n_cols; ++col) {
      const float score = x_row[col] * 0.125f + w[col];
      weights_row[col] = score;
      row_max = score > row_max ? score : row_max;
    }

    double denominator = 0.0;
#pragma omp simd reduction(+ : denominator)
    for (long col = 0; col < n_cols; ++col) {
      const float numerator = vector_exp(weights_row[col] - row_max);
      weights_row[col] = numerator;
      denominator += numerator;
    }
    const float inverse = 1.0 / denominator;

#pragma omp simd
    for (long col = 0; col < n_cols; ++col) {
      weights_row[col] = weights_row[col] * inverse;
    }
  }
}
