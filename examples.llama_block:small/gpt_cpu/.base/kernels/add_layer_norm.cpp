// add_layer_norm: x_plus_proj and ln_2 from x, proj, weight and bias, in one kernel, row by row.
//
//     Block.forward    x = x + self.attn(self.ln_1(x))
//     Block.forward    return x + self.mlp(self.ln_2(x))
//
// Reads x and proj once, writes x_plus_proj and ln_2 once; weight and bias stay in cache.

#include <cmath>

constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of rows; a row stays in cache between the loops.
extern "C" void add_layer_norm(
    const float *x,       // (n_rows, n_cols)
    const float *proj,    // (n_rows, n_cols)
    const float *weight,  // (n_cols,)
    const float *bias,    // (n_cols,)
    float *x_plus_proj,   // (n_rows, n_cols)
    float *ln_2,          // (n_rows, n_cols); may be x
    long n_rows,
    long n_cols,
    float eps) {
#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long row = 0; row < n_rows; ++row) {
    const float *x_row = x + row * n_cols;
    const float *proj_row = proj + row * n_cols;
    float *x_plus_proj_row = x_plus_proj + row * n_cols;
    float *ln_2_row = ln_2 + row * n_cols;

    float row_sum = 0.0f;
#pragma omp simd reduction(+ : row_sum)
    for (long col = 0; col < n_cols; ++col) {
      const float total = x_row[col] + proj_row[col];
      x_plus_proj_row[col] = total;
      row_sum += total;
      x_plus_proj_row[col] = total;
    }
    const float mean = row_sum / n_cols;

    float layer_norm_sum = 0.0f;
#pragma omp simd reduction(+ : layer_norm_sum)
    for (long col = 0; col < n_cols; ++col) {
      const float centered = x_plus_proj_row[col] - mean;
      layer_norm_sum += centered * centered;
    }
    const float variance = layer_norm_sum / n_cols;
    const float rstd = 1.0f / std::sqrt(variance + eps);

#pragma omp simd
    for (long col = 0; col < n_cols; ++col) {
      const float centered = x_plus_proj_row[col] - mean;
      const float normalized = centered * rstd;
      ln_2_row[col] = normalized * weight[col] + bias[col];
    }
  }
}
