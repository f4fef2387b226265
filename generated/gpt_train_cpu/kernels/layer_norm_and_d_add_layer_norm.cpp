// layer_norm_and_d_add_layer_norm: ln_2 = layer_norm(x); normalized = normalize(x); d_x = d_x_plus_mlp +
// d_layer_norm(d_ln_2, x), row by row.
//
//     Block.forward    return x + self.mlp(self.ln_2(x))
//
// Reads d_x_plus_mlp once and x and d_ln_2 once from memory and again from the cache, writes ln_2, normalized
// and d_x once; weight and bias stay in cache.

#include <cmath>

constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of rows; a row stays in cache between the loops (d_normalized in ln_2). Sums in
// double.
extern "C" void layer_norm_and_d_add_layer_norm(
    const float *x,             // (n_rows, n_cols)
    const float *weight,        // (n_cols,)
    const float *bias,          // (n_cols,)
    const float *d_x_plus_mlp,  // (n_rows, n_cols)
    const float *d_ln_2,        // (n_rows, n_cols)
    float *ln_2,                // (n_rows, n_cols)
    float *normalized,          // (n_rows, n_cols)
    float *d_x,                 // (n_rows, n_cols); may be d_x_plus_mlp
    long n_rows,
    long n_cols,
    float eps) {
#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long row = 0; row < n_rows; ++row) {
    const float *x_row = x + row * n_cols;
    const float *d_x_plus_mlp_row = d_x_plus_mlp + row * n_cols;
    const float *d_ln_2_row = d_ln_2 + row * n_cols;
    float *ln_2_row = ln_2 + row * n_cols;
    float *normalized_row = normalized + row * n_cols;
    float *d_x_row = d_x + row * n_cols;

    double row_sum = 0.0;
    double d_normalized_sum = 0.0;
#pragma omp simd reduction(+ : row_sum, d_normalized_sum)
    for (long col = 0; col < n_cols; ++col) {
      const float d_normalized = d_ln_2_row[col] * weight[col];
      ln_2_row[col] = d_normalized;
      row_sum += x_row[col];
      d_normalized_sum += d_normalized;
    }
    const float mean = row_sum / n_cols;
    const float through_mean = d_normalized_sum / n_cols;

    double sum_of_squares = 0.0;
#pragma omp simd reduction(+ : sum_of_squares)
    for (long col = 0; col < n_cols; ++col) {
      const float centered = x_row[col] - mean;
      sum_of_squares += centered * centered;
    }
    const float variance = sum_of_squares / n_cols;
    const float rstd = 1.0f / std::sqrt(variance + eps);

    double sum_of_products = 0.0;
#pragma omp simd reduction(+ : sum_of_products)
    for (long col = 0; col < n_cols; ++col) {
      const float centered = x_row[col] - mean;
      const float normalized_value = centered * rstd;
      sum_of_products += ln_2_row[col] * normalized_value;
      ln_2_row[col] = normalized_value * weight[col] + bias[col];
      normalized_row[col] = normalized_value;
    }
    const float through_rstd = sum_of_products / n_cols;

#pragma omp simd
    for (long col = 0; col < n_cols; ++col) {
      const float centered = x_row[col] - mean;
      const float normalized_value = centered * rstd;
      const float d_normalized = d_ln_2_row[col] * weight[col];
      const float d_x_from_ln_2 = (d_normalized - normalized_value * through_rstd - through_mean) * rstd;

      d_x_row[col] = d_x_plus_mlp_row[col] + d_x_from_ln_2;
    }
  }
}
