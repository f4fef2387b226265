// layer_norm_d_layer_norm_add: layer norm, mul, mean, sub and add in one pass, from x, d_x and d_ln_2 to
// ln_2, product and d_out, row by row.
//
//     Block.forward    return x + self.mlp(self.ln_2(x))
//
// Reads d_x once and x and d_ln_2 once from memory and again from the cache, writes ln_2, product and d_out
// once; weight and bias stay in cache.

#include <cmath>

constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of rows; a row stays in cache between the loops.
extern "C" void layer_norm_d_layer_norm_add(
    const float *x,       // (n_rows, n_cols)
    const float *weight,  // (n_cols,)
    const float *bias,    // (n_cols,)
    const float *d_x,     // (n_rows, n_cols)
    const float *d_ln_2,  // (n_rows, n_cols)
    float *ln_2,          // (n_rows, n_cols)
    float *product,       // (n_rows, n_cols)
    float *d_out,         // (n_rows, n_cols); may be d_x
    long n_rows,
    long n_cols,
    float eps) {
#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long row = 0; row < n_rows; ++row) {
    const float *x_row = x + row * n_cols;
    const float *d_x_row = d_x + row * n_cols;
    const float *d_ln_2_row = d_ln_2 + row * n_cols;
    float *ln_2_row = ln_2 + row * n_cols;
    float *product_row = product + row * n_cols;
    float *d_out_row = d_out + row * n_cols;

    double row_sum = 0.0;
    double d_ln_2_product_sum = 0.0;
#pragma omp simd reduction(+ : row_sum, d_ln_2_product_sum)
    for (long col = 0; col < n_cols; ++col) {
      const float d_ln_2_product = d_ln_2_row[col] * weight[col];
      ln_2_row[col] = d_ln_2_product;
      row_sum += x_row[col];
      d_ln_2_product_sum += d_ln_2_product;
    }
    const float mean = row_sum / n_cols;
    const float row_ratio_value = d_ln_2_product_sum / n_cols;

    double sum_of_squares = 0.0;
#pragma omp simd reduction(+ : sum_of_squares)
    for (long col = 0; col < n_cols; ++col) {
      const float centered = x_row[col] - mean;
      sum_of_squares += centered * centered;
    }
    const float variance = sum_of_squares / n_cols;
    const float rstd = 1.0f / std::sqrt(variance + eps);

    double ln_2_sum = 0.0;
#pragma omp simd reduction(+ : ln_2_sum)
    for (long col = 0; col < n_cols; ++col) {
      const float centered = x_row[col] - mean;
      const float normalized = centered * rstd;
      ln_2_sum += ln_2_row[col] * normalized;
      ln_2_row[col] = normalized * weight[col] + bias[col];
      product_row[col] = normalized;
    }
    const float row_ratio = ln_2_sum / n_cols;

#pragma omp simd
    for (long col = 0; col < n_cols; ++col) {
      const float centered = x_row[col] - mean;
      const float normalized = centered * rstd;
      const float d_ln_2_product = d_ln_2_row[col] * weight[col];
      const float difference = d_ln_2_product - normalized * row_ratio;

      d_out_row[col] = d_x_row[col] + (difference - row_ratio_value) * rstd;
    }
  }
}
