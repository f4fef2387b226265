// add_layer_norm: the residual sum, normalized.
//
//     Block.forward    h = self.ln_2(x + attn)

#include <cmath>

constexpr long GRAIN = 32768;  // elements: with fewer, starting the threads costs more than it saves

// One thread per block of rows; a row stays in cache between the loops (residual in h). Sums in double.
extern "C" void add_layer_norm(
    const float *x,       // (n_rows, n_cols)
    const float *attn,    // (n_rows, n_cols)
    const float *weight,  // (n_cols,)
    const float *bias,    // (n_cols,)
    float *h,             // (n_rows, n_cols)
    long n_rows,
    long n_cols,
    float eps) {
#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long row = 0; row < n_rows; ++row) {
    const float *x_row = x + row * n_cols;
    const float *attn_row = attn + row * n_cols;
    float *h_row = h + row * n_cols;

    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (long col = 0; col < n_cols; ++col) {
      const float residual = x_row[col] + attn_row[col];
      h_row[col] = residual;
      sum += residual;
    }
    const float mean = sum / n_cols;

    double sum_of_squares = 0.0;
#pragma omp simd reduction(+ : sum_of_squares)
    for (long col = 0; col < n_cols; ++col) {
      const float centered = h_row[col] - mean;
      sum_of_squares += centered * centered;
    }
    const float rstd = 1.0f / std::sqrt(sum_of_squares / n_cols + eps);

#pragma omp simd
    for (long col = 0; col < n_cols; ++col) {
      const float centered = h_row[col] - mean;
      h_row[col] = centered * rstd * weight[col] + bias[col];
    }
  }
}
