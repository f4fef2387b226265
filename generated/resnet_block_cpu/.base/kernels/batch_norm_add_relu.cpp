// batch_norm_add_relu: activated by batch norm, add and relu in one pass.
//
//     ResNetBlock.forward    out = self.bn2(self.conv2(out))
//     ResNetBlock.forward    out = out + self.shortcut(x)
//     ResNetBlock.forward    return F.relu(out)
//
// Reads conv2, running_mean, running_var and 7 more once, writes activated once.

#include "torch_math.h"

#include <cmath>

constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of rows.
extern "C" void batch_norm_add_relu(
    const float *conv2,                  // (n_groups, n_rows, n_cols)
    const float *running_mean,           // (n_rows,)
    const float *running_var,            // (n_rows,)
    const float *weight,                 // (n_rows,)
    const float *bias,                   // (n_rows,)
    const float *features,               // (n_groups, n_rows, n_cols)
    const float *shortcut_running_mean,  // (n_rows,)
    const float *shortcut_running_var,   // (n_rows,)
    const float *shortcut_weight,        // (n_rows,)
    const float *shortcut_bias,          // (n_rows,)
    float *activated,                    // (n_groups, n_rows, n_cols); may be conv2
    long n_groups,
    long n_rows,
    long n_cols,
    float eps) {
#pragma omp parallel for collapse(2) if (n_groups * n_rows * n_cols >= GRAIN)
  for (long group = 0; group < n_groups; ++group) {
    for (long row = 0; row < n_rows; ++row) {
      const float *conv2_row = conv2 + (group * n_rows + row) * n_cols;
      const float *features_row = features + (group * n_rows + row) * n_cols;
      float *activated_row = activated + (group * n_rows + row) * n_cols;

      const float running_mean_value = running_mean[row];
      const float rstd = 1.0f / std::sqrt(running_var[row] + eps);
      const float weight_value = weight[row];
      const float bias_value = bias[row];
      const float shortcut_running_mean_value = shortcut_running_mean[row];
      const float shortcut_rstd = 1.0f / std::sqrt(shortcut_running_var[row] + eps);
      const float shortcut_weight_value = shortcut_weight[row];
      const float shortcut_bias_value = shortcut_bias[row];

#pragma omp simd
      for (long col = 0; col < n_cols; ++col) {
        const float out = (conv2_row[col] - running_mean_value) * rstd * weight_value + bias_value;
        const float difference = features_row[col] - shortcut_running_mean_value;
        const float product = difference * shortcut_rstd * shortcut_weight_value;

        activated_row[col] = maximum(out + (product + shortcut_bias_value), 0.0f);
      }
    }
  }
}
