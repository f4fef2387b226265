// d_layer_norm: d_ln_f = unscaled_d_ln_f * d_loss; normalized = normalize(x); d_x = d_layer_norm(d_ln_f, x),
// row by row.
//
//     GPT.forward    return self.head(self.ln_f(x))
//
// Reads unscaled_d_ln_f and x once from memory and again from the cache, writes d_ln_f, normalized and d_x
// once; d_loss and weight stay in cache.

#include <cmath>

constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of rows; a row stays in cache between the loops (d_normalized in normalized). Sums in
// double.
extern "C" void d_layer_norm(
    const float *unscaled_d_ln_f,  // (n_rows, n_cols)
    const float *d_loss,           // one element
    const float *x,                // (n_rows, n_cols)
    const float *weight,           // (n_cols,)
    float *d_ln_f,                 // (n_rows, n_cols)
    float *normalized,             // (n_rows, n_cols)
    float *d_x,                    // (n_rows, n_cols)
    long n_rows,
    long n_cols,
    float eps) {
#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long row = 0; row < n_rows; ++row) {
    const float *unscaled_d_ln_f_row = unscaled_d_ln_f + row * n_cols;
    const float *x_row = x + row * n_cols;
    float *d_ln_f_row = d_ln_f + row * n_cols;
    float *normalized_row = normalized + row * n_cols;
    float *d_x_row = d_x + row * n_cols;

    const float d_loss_value = d_loss[0];

    double row_sum = 0.0;
    double d_normalized_sum = 0.0;
#pragma omp simd reduction(+ : row_sum, d_normalized_sum)
    for (long col = 0; col < n_cols; ++col) {
      const float d_ln_f_value = unscaled_d_ln_f_row[col] * d_loss_value;
      const float d_normalized = d_ln_f_value * weight[col];
      normalized_row[col] = d_normalized;
      row_sum += x_row[col];
      d_normalized_sum += d_normalized;
      d_ln_f_row[col] = d_ln_f_value;
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
      sum_of_products += normalized_row[col] * normalized_value;
      normalized_row[col] = normalized_value;
    }
    const float through_rstd = sum_of_products / n_cols;

#pragma omp simd
    for (long col = 0; col < n_cols; ++col) {
      const float d_ln_f_value = unscaled_d_ln_f_row[col] * d_loss_value;
      const float centered = x_row[col] - mean;
      const float normalized_value = centered * rstd;
      const float d_normalized = d_ln_f_value * weight[col];

      d_x_row[col] = (d_normalized - normalized_value * through_rstd - through_mean) * rstd;
    }
  }
}
