// add_layer_norm: ln_f = layer_norm(x + mlp), row by row.
//
//     Block.forward    return x + self.mlp(self.ln_2(x))
//     GPT.forward    return self.head(self.ln_f(x))
//
// Reads x and mlp once, writes ln_f once; weight and bias stay in cache.

#include <cmath>

constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of rows; a row stays in cache between the loops (residual in ln_f). Sums in double.
extern "C" void add_layer_norm(
    const float *x,       // (n_rows, n_cols)
    const float *mlp,     // (n_rows, n_cols)
    const float *weight,  // (n_cols,)
    const float *bias,    // (n_cols,)
    float *ln_f,          // (n_rows, n_cols); may be mlp
    long n_rows,
    long n_cols,
    float eps) {
#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long row = 0; row < n_rows; ++row) {
    const float *x_row = x + row * n_cols;
    const float *mlp_row = mlp + row * n_cols;
    float *ln_f_row = ln_f + row * n_cols;

    double row_sum = 0.0;
#pragma omp simd reduction(+ : row_sum)
    for (long col = 0; col < n_cols; ++col) {
      const float residual = x_row[col] + mlp_row[col];
      ln_f_row[col] = residual;
      row_sum += residual;
    }
    const float mean = row_sum / n_cols;

    double sum_of_squares = 0.0;
#pragma omp simd reduction(+ : sum_of_squares)
    for (long col = 0; col < n_cols; ++col) {
      const float centered = ln_f_row[col] - mean;
      sum_of_squares += centered * centered;
    }
    const float variance = sum_of_squares / n_cols;
    const float rstd = 1.0f / std::sqrt(variance + eps);

#pragma omp simd
    for (long col = 0; col < n_cols; ++col) {
      const float centered = ln_f_row[col] - mean;
      const float normalized = centered * rstd;
      ln_f_row[col] = normalized * weight[col] + bias[col];
    }
  }
}
