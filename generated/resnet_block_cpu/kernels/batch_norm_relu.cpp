// batch_norm_relu: out = relu(batch_norm(conv1)).
//
//     ResNetBlock.forward    out = F.relu(self.bn1(self.conv1(x)))
//
// Reads conv1 once, writes out once; running_mean, running_var, weight and bias stay in cache.

#include "torch_math.h"

#include <cmath>

constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of rows.
extern "C" void batch_norm_relu(
    const float *conv1,         // (n_groups, n_rows, n_cols)
    const float *running_mean,  // (n_rows,)
    const float *running_var,   // (n_rows,)
    const float *weight,        // (n_rows,)
    const float *bias,          // (n_rows,)
    float *out,                 // (n_groups, n_rows, n_cols); may be conv1
    long n_groups,
    long n_rows,
    long n_cols,
    float eps) {
#pragma omp parallel for collapse(2) if (n_groups * n_rows * n_cols >= GRAIN)
  for (long group = 0; group < n_groups; ++group) {
    for (long row = 0; row < n_rows; ++row) {
      const float *conv1_row = conv1 + (group * n_rows + row) * n_cols;
      float *out_row = out + (group * n_rows + row) * n_cols;

      const float running_mean_value = running_mean[row];
      const float rstd = 1.0f / std::sqrt(running_var[row] + eps);
      const float weight_value = weight[row];
      const float bias_value = bias[row];

#pragma omp simd
      for (long col = 0; col < n_cols; ++col) {
        const float normalized = (conv1_row[col] - running_mean_value) * rstd;
        out_row[col] = maximum(normalized * weight_value + bias_value, 0.0f);
      }
    }
  }
}
