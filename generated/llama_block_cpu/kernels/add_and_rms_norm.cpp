// add_and_rms_norm: h = x + attention_out; normed = h * rsqrt(mean(h**2) + eps) * weight, row by row.
//
//     LlamaBlock.forward    h = x + self.attention(self.attention_norm(x))
//     RMSNorm.forward    return normed.to(x.dtype) * self.weight
//
// Reads x and attention_out once, writes h and normed once; weight stays in cache.

#include <cmath>

constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of rows; a row stays in cache between the loops. Sums in double.
extern "C" void add_and_rms_norm(
    const float *x,              // (n_rows, n_cols)
    const float *attention_out,  // (n_rows, n_cols)
    const float *weight,         // (n_cols,)
    float *h,                    // (n_rows, n_cols)
    float *normed,               // (n_rows, n_cols); may be attention_out
    long n_rows,
    long n_cols,
    float eps) {
#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long row = 0; row < n_rows; ++row) {
    const float *x_row = x + row * n_cols;
    const float *attention_out_row = attention_out + row * n_cols;
    float *h_row = h + row * n_cols;
    float *normed_row = normed + row * n_cols;

    double sum_of_squares = 0.0;
#pragma omp simd reduction(+ : sum_of_squares)
    for (long col = 0; col < n_cols; ++col) {
      const float residual = x_row[col] + attention_out_row[col];
      h_row[col] = residual;
      sum_of_squares += residual * residual;
    }
    const float mean_square = sum_of_squares / n_cols;
    const float rstd = 1.0f / std::sqrt(mean_square + eps);

#pragma omp simd
    for (long col = 0; col < n_cols; ++col) {
      normed_row[col] = h_row[col] * rstd * weight[col];
    }
  }
}
