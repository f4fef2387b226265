// add_layer_norm: normed = layer_norm(x + r), row by row.
//
//     layer_norm    h = x + r
//     layer_norm    return F.layer_norm(h, (h.shape[-1],), weight, bias)
//
// Reads x and r once, writes normed once; weight and bias stay in cache.

#include <cmath>

constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of rows; a row stays in cache between the loops (h in normed). Sums in double.
extern "C" void add_layer_norm(
    const float *x,       // (n_rows, n_cols)
    const float *r,       // (n_rows, n_cols)
    const float *weight,  // (n_cols,)
    const float *bias,    // (n_cols,)
    float *normed,        // (n_rows, n_cols)
    long n_rows,
    long n_cols,
    float eps) {
#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long row = 0; row < n_rows; ++row) {
    const float *x_row = x + row * n_cols;
    const float *r_row = r + row * n_cols;
    float *normed_row = normed + row * n_cols;

    double row_sum = 0.0;
#pragma omp simd reduction(+ : row_sum)
    for (long col = 0; col < n_cols; ++col) {
      const float h = x_row[col] + r_row[col];
      normed_row[col] = h;
      row_sum += h;
    }
    const float mean = row_sum / n_cols;

    double sum_of_squares = 0.0;
#pragma omp simd reduction(+ : sum_of_squares)
    for (long col = 0; col < n_cols; ++col) {
      const float centered = normed_row[col] - mean;
      sum_of_squares += centered * centered;
    }
    const float variance = sum_of_squares / n_cols;
    const float rstd = 1.0f / std::sqrt(variance + eps);

#pragma omp simd
    for (long col = 0; col < n_cols; ++col) {
      const float centered = normed_row[col] - mean;
      const float normalized = centered * rstd;
      normed_row[col] = normalized * weight[col] + bias[col];
    }
  }
}
