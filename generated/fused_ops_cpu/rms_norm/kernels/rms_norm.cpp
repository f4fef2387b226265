// rms_norm: normed = rms_norm(x), row by row.
//
//     rms_norm    return F.rms_norm(x, (x.shape[-1],), weight, eps=1e-6)
//
// Reads x once from memory and again from the cache, writes normed once; weight stays in cache.

#include <cmath>

constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of rows; a row stays in cache between the loops. Sums in double.
extern "C" void rms_norm(
    const float *x,       // (n_rows, n_cols)
    const float *weight,  // (n_cols,)
    float *normed,        // (n_rows, n_cols)
    long n_rows,
    long n_cols,
    float eps) {
#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long row = 0; row < n_rows; ++row) {
    const float *x_row = x + row * n_cols;
    float *normed_row = normed + row * n_cols;

    double sum_of_squares = 0.0;
#pragma omp simd reduction(+ : sum_of_squares)
    for (long col = 0; col < n_cols; ++col) {
      const float x_i = x_row[col];
      sum_of_squares += x_i * x_i;
    }
    const float mean_square = sum_of_squares / n_cols;
    const float rstd = 1.0f / std::sqrt(mean_square + eps);

#pragma omp simd
    for (long col = 0; col < n_cols; ++col) {
      const float normalized = x_row[col] * rstd;
      normed_row[col] = normalized * weight[col];
    }
  }
}
