// d_layer_norm: d_x, d_weight and d_bias, in one pass over the rows:
//     d_x = d_layer_norm(unscaled_d_ln_f * d_loss, x)
//     d_weight = sum(unscaled_d_ln_f * d_loss * normalize(x))
//     d_bias = sum(unscaled_d_ln_f * d_loss)
//
//     GPT.forward    return self.head(self.ln_f(x))
//
// Reads unscaled_d_ln_f and x once from memory and again from the cache, writes d_x, d_weight and d_bias
// once; d_loss and weight stay in cache.

#include <algorithm>
#include <cmath>
#include <vector>

constexpr long ROWS = 32;      // rows per chunk, at least
constexpr long SPLITS = 256;   // chunks of the rows, at most
constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per chunk of rows; a row stays in cache between the loops (ln_f_d_normalized in d_x). Sums of
// rows in double. The chunks' sums are added up in double.
extern "C" void d_layer_norm(
    const float *unscaled_d_ln_f,  // (n_rows, n_cols)
    const float *d_loss,           // one element
    const float *weight,           // (n_cols,)
    const float *x,                // (n_rows, n_cols)
    float *d_x,                    // (n_rows, n_cols)
    float *d_weight,               // (n_cols,)
    float *d_bias,                 // (n_cols,)
    long n_rows,
    long n_cols,
    float eps) {
  const long n_splits = std::max(1L, std::min(SPLITS, n_rows / ROWS));
  const long chunk = (n_rows + n_splits - 1) / n_splits;
  std::vector<float> d_weight_partial(n_splits * n_cols);
  std::vector<float> d_bias_partial(n_splits * n_cols);

#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long split = 0; split < n_splits; ++split) {
    const long row_end = std::min((split + 1) * chunk, n_rows);
    float *d_weight_sum = d_weight_partial.data() + split * n_cols;
    float *d_bias_sum = d_bias_partial.data() + split * n_cols;

    for (long row = split * chunk; row < row_end; ++row) {
      const float *unscaled_d_ln_f_row = unscaled_d_ln_f + row * n_cols;
      const float *x_row = x + row * n_cols;
      float *d_x_row = d_x + row * n_cols;

      const float d_loss_0 = d_loss[0];

      double row_sum = 0.0;
      double x_i_sum = 0.0;
#pragma omp simd reduction(+ : row_sum, x_i_sum)
      for (long col = 0; col < n_cols; ++col) {
        const float unscaled_d_ln_f_i = unscaled_d_ln_f_row[col];
        const float d_ln_f = unscaled_d_ln_f_i * d_loss_0;
        const float ln_f_d_normalized = unscaled_d_ln_f_i * weight[col];

        d_x_row[col] = ln_f_d_normalized;
        row_sum += ln_f_d_normalized;
        x_i_sum += x_row[col];
        d_bias_sum[col] += d_ln_f;
      }
      const float through_mean = row_sum / n_cols;
      const float mean = x_i_sum / n_cols;

      double sum_of_squares = 0.0;
      double sum_of_products = 0.0;
#pragma omp simd reduction(+ : sum_of_squares, sum_of_products)
      for (long col = 0; col < n_cols; ++col) {
        const float centered = x_row[col] - mean;
        sum_of_squares += centered * centered;
        sum_of_products += d_x_row[col] * centered;
      }
      const float variance = sum_of_squares / n_cols;
      const float rstd = 1.0f / std::sqrt(variance + eps);
      const float through_rstd = sum_of_products / n_cols * rstd;

#pragma omp simd
      for (long col = 0; col < n_cols; ++col) {
        const float d_ln_f = unscaled_d_ln_f_row[col] * d_loss_0;
        const float d_normalized = d_ln_f * weight[col];
        const float less_means = d_normalized - d_loss_0 * through_mean;
        const float centered = x_row[col] - mean;
        const float normalized = centered * rstd;
        const float product = d_loss_0 * normalized * through_rstd;

        d_weight_sum[col] += d_ln_f * normalized;
        d_x_row[col] = (less_means - product) * rstd;
      }
    }
  }

#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long col = 0; col < n_cols; ++col) {
    double d_weight_sum = d_weight_partial[col];
    double d_bias_sum = d_bias_partial[col];
    // In order, so that the result does not depend on the number of threads.
    for (long split = 1; split < n_splits; ++split) {
      d_weight_sum += d_weight_partial[split * n_cols + col];
      d_bias_sum += d_bias_partial[split * n_cols + col];
    }
    d_weight[col] = d_weight_sum;
    d_bias[col] = d_bias_sum;
  }
}
