// gelu_residual: out = gelu(x + bias) + residual.
//
//     gelu_residual    return F.gelu(x + bias, approximate="tanh") + residual
//
// Reads x and residual once, writes out once; bias stays in cache.

#include "vector_math.h"

constexpr float TWO_SQRT_2_OVER_PI = 1.5957692f;
constexpr long GRAIN = 4096;  // elements below which one thread does it all

// One thread per block of rows.
extern "C" void gelu_residual(
    const float *x,         // (n_rows, n_cols)
    const float *bias,      // (n_cols,)
    const float *residual,  // (n_rows, n_cols)
    float *out,             // (n_rows, n_cols)
    long n_rows,
    long n_cols) {
#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long row = 0; row < n_rows; ++row) {
    const float *x_row = x + row * n_cols;
    const float *residual_row = residual + row * n_cols;
    float *out_row = out + row * n_cols;

#pragma omp simd
    for (long col = 0; col < n_cols; ++col) {
      const float biased = x_row[col] + bias[col];
      const float cubic = biased + biased * biased * biased * 0.044715f;
      const float activated = biased * (1.0f / (1.0f + vector_exp(-(cubic * TWO_SQRT_2_OVER_PI))));

      out_row[col] = activated + residual_row[col];
    }
  }
}
