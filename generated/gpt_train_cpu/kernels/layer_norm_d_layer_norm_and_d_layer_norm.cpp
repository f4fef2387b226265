// layer_norm_d_layer_norm_and_d_layer_norm: mul, layer norm, mean and sub in one pass, from x and d_ln_f to
// ln_f and d_x, row by row.
//
//     GPT.forward    return self.head(self.ln_f(x))
//
// Reads x and d_ln_f once from memory and again from the cache, writes ln_f and d_x once; weight stays in
// cache.

#include <cmath>

constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of rows; a row stays in cache between the loops.
extern "C" void layer_norm_d_layer_norm_and_d_layer_norm(
    const float *x,       // (n_rows, n_cols)
    const float *d_ln_f,  // (n_rows, n_cols)
    const float *weight,  // (n_cols,)
    float *ln_f,          // (n_rows, n_cols)
    float *d_x,           // (n_rows, n_cols)
    long n_rows,
    long n_cols,
    float eps) {
#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long row = 0; row < n_rows; ++row) {
    const float *x_row = x + row * n_cols;
    const float *d_ln_f_row = d_ln_f + row * n_cols;
    float *ln_f_row = ln_f + row * n_cols;
    float *d_x_row = d_x + row * n_cols;

    double row_sum = 0.0;
    double product_sum = 0.0;
#pragma omp simd reduction(+ : row_sum, product_sum)
    for (long col = 0; col < n_cols; ++col) {
      const float product = d_ln_f_row[col] * weight[col];
      ln_f_row[col] = product;
      row_sum += x_row[col];
      product_sum += product;
    }
    const float mean = row_sum / n_cols;
    const float row_ratio_value = product_sum / n_cols;

    double sum_of_squares = 0.0;
#pragma omp simd reduction(+ : sum_of_squares)
    for (long col = 0; col < n_cols; ++col) {
      const float centered = x_row[col] - mean;
      sum_of_squares += centered * centered;
    }
    const float variance = sum_of_squares / n_cols;
    const float rstd = 1.0f / std::sqrt(variance + eps);

    double ln_f_sum = 0.0;
#pragma omp simd reduction(+ : ln_f_sum)
    for (long col = 0; col < n_cols; ++col) {
      const float centered = x_row[col] - mean;
      const float ln_f_value = centered * rstd;
      ln_f_sum += ln_f_row[col] * ln_f_value;
      ln_f_row[col] = ln_f_value;
    }
    const float row_ratio = ln_f_sum / n_cols;

#pragma omp simd
    for (long col = 0; col < n_cols; ++col) {
      const float centered = x_row[col] - mean;
      const float ln_f_value = centered * rstd;
      const float product = d_ln_f_row[col] * weight[col];
      const float difference = product - ln_f_value * row_ratio - row_ratio_value;

      d_x_row[col] = difference * rstd;
    }
  }
}
