// bias_gelu: activated = gelu(x + bias).
//
//     bias_gelu    return F.gelu(x + bias)
//
// Reads x once, writes activated once; bias stays in cache.

#include "vector_math.h"

constexpr float SQRT_HALF = 0.70710677f;
constexpr long GRAIN = 4096;  // elements below which one thread does it all

// One thread per block of rows.
extern "C" void bias_gelu(
    const float *x,     // (n_rows, n_cols)
    const float *bias,  // (n_cols,)
    float *activated,   // (n_rows, n_cols)
    long n_rows,
    long n_cols) {
#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long row = 0; row < n_rows; ++row) {
    const float *x_row = x + row * n_cols;
    float *activated_row = activated + row * n_cols;

#pragma omp simd
    for (long col = 0; col < n_cols; ++col) {
      const float biased = x_row[col] + bias[col];
      activated_row[col] = biased * 0.5f * (vector_erf(biased * SQRT_HALF) + 1.0f);
    }
  }
}
