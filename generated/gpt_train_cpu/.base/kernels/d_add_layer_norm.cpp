// d_add_layer_norm: normed, d_x, d_bias and d_weight, in one pass over the rows:
//     rstd = rsqrt(var(x) + eps)
//     normalized = (x - mean(x)) * rstd
//     normed = normalized * weight + bias
//     d_normalized = d_normed * weight
//     d_x = d_out + (d_normalized - mean(d_normalized) - normalized * mean(d_normalized * normalized)) * rstd
//     d_bias = sum(d_normed)
//     d_weight = sum(d_normed * normalized)
//
//     Block.forward    return x + self.mlp(self.ln_2(x))
//
// Reads d_out once and x and d_normed once from memory and again from the cache, writes normed, d_x, d_bias
// and d_weight once; weight and bias stay in cache.

#include <algorithm>
#include <cmath>
#include <vector>

constexpr long ROWS = 32;      // rows per chunk, at least
constexpr long SPLITS = 256;   // chunks of the rows, at most
constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per chunk of rows; a row stays in cache between the loops (d_normalized in normed). Sums of rows
// in double. The chunks' sums are added up in double.
extern "C" void d_add_layer_norm(
    const float *x,         // (n_rows, n_cols)
    const float *weight,    // (n_cols,)
    const float *bias,      // (n_cols,)
    const float *d_out,     // (n_rows, n_cols)
    const float *d_normed,  // (n_rows, n_cols)
    float *normed,          // (n_rows, n_cols)
    float *d_x,             // (n_rows, n_cols); may be d_normed
    float *d_bias,          // (n_cols,)
    float *d_weight,        // (n_cols,)
    long n_rows,
    long n_cols,
    float eps) {
  const long n_splits = std::max(1L, std::min(SPLITS, n_rows / ROWS));
  const long chunk = (n_rows + n_splits - 1) / n_splits;
  std::vector<float> d_bias_partial(n_splits * n_cols);
  std::vector<float> d_weight_partial(n_splits * n_cols);

#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long split = 0; split < n_splits; ++split) {
    const long row_end = std::min((split + 1) * chunk, n_rows);
    float *d_bias_sum = d_bias_partial.data() + split * n_cols;
    float *d_weight_sum = d_weight_partial.data() + split * n_cols;

    for (long row = split * chunk; row < row_end; ++row) {
      const float *x_row = x + row * n_cols;
      const float *d_out_row = d_out + row * n_cols;
      const float *d_normed_row = d_normed + row * n_cols;
      float *normed_row = normed + row * n_cols;
      float *d_x_row = d_x + row * n_cols;

      double row_sum = 0.0;
      double d_normalized_sum = 0.0;
#pragma omp simd reduction(+ : row_sum, d_normalized_sum)
      for (long col = 0; col < n_cols; ++col) {
        const float d_normed_i = d_normed_row[col];
        const float d_normalized = d_normed_i * weight[col];
        normed_row[col] = d_normalized;
        row_sum += x_row[col];
        d_normalized_sum += d_normalized;
        d_bias_sum[col] += d_normed_i;
      }
      const float mean = row_sum / n_cols;
      const float through_mean = d_normalized_sum / n_cols;

      double sum_of_squares = 0.0;
      double sum_of_products = 0.0;
#pragma omp simd reduction(+ : sum_of_squares, sum_of_products)
      for (long col = 0; col < n_cols; ++col) {
        const float centered = x_row[col] - mean;
        sum_of_squares += centered * centered;
        sum_of_products += normed_row[col] * centered;
      }
      const float variance = sum_of_squares / n_cols;
      const float rstd = 1.0f / std::sqrt(variance + eps);
      const float through_rstd = sum_of_products / n_cols * rstd;

#pragma omp simd
      for (long col = 0; col < n_cols; ++col) {
        const float centered = x_row[col] - mean;
        const float normalized = centered * rstd;
        const float through_norm = (normed_row[col] - through_mean - normalized * through_rstd) * rstd;

        d_weight_sum[col] += d_normed_row[col] * normalized;
        normed_row[col] = normalized * weight[col] + bias[col];
        d_x_row[col] = d_out_row[col] + through_norm;
      }
    }
  }

#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long col = 0; col < n_cols; ++col) {
    double d_bias_sum = d_bias_partial[col];
    double d_weight_sum = d_weight_partial[col];
    // In order, so that the result does not depend on the number of threads.
    for (long split = 1; split < n_splits; ++split) {
      d_bias_sum += d_bias_partial[split * n_cols + col];
      d_weight_sum += d_weight_partial[split * n_cols + col];
    }
    d_bias[col] = d_bias_sum;
    d_weight[col] = d_weight_sum;
  }
}
