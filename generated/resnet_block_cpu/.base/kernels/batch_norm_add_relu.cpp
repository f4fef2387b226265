// batch_norm_add_relu: activated = relu(batch_norm(conv2) + batch_norm(shortcut)).
//
//     ResNetBlock.forward    out = self.bn2(self.conv2(out))
//     ResNetBlock.forward    out = out + self.shortcut(x)
//     ResNetBlock.forward    return F.relu(out)
//
// Reads conv2 and shortcut once, writes activated once; the 8 vectors stay in cache.

#include "torch_math.h"

#include <cmath>

constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of rows.
extern "C" void batch_norm_add_relu(
    const float *conv2,                  // (n_groups, n_rows, n_cols)
    const float *bn2_running_mean,       // (n_rows,)
    const float *bn2_running_var,        // (n_rows,)
    const float *bn2_weight,             // (n_rows,)
    const float *bn2_bias,               // (n_rows,)
    const float *shortcut,               // (n_groups, n_rows, n_cols)
    const float *shortcut_running_mean,  // (n_rows,)
    const float *shortcut_running_var,   // (n_rows,)
    const float *shortcut_weight,        // (n_rows,)
    const float *shortcut_bias,          // (n_rows,)
    float *activated,                    // (n_groups, n_rows, n_cols); may be shortcut
    long n_groups,
    long n_rows,
    long n_cols,
    float eps) {
#pragma omp parallel for collapse(2) if (n_groups * n_rows * n_cols >= GRAIN)
  for (long group = 0; group < n_groups; ++group) {
    for (long row = 0; row < n_rows; ++row) {
      const float *conv2_row = conv2 + (group * n_rows + row) * n_cols;
      const float *shortcut_row = shortcut + (group * n_rows + row) * n_cols;
      float *activated_row = activated + (group * n_rows + row) * n_cols;

      const float bn2_running_mean_value = bn2_running_mean[row];
      const float rstd = 1.0f / std::sqrt(bn2_running_var[row] + eps);
      const float bn2_weight_value = bn2_weight[row];
      const float bn2_bias_value = bn2_bias[row];
      const float shortcut_running_mean_value = shortcut_running_mean[row];
      const float shortcut_rstd = 1.0f / std::sqrt(shortcut_running_var[row] + eps);
      const float shortcut_weight_value = shortcut_weight[row];
      const float shortcut_bias_value = shortcut_bias[row];

#pragma omp simd
      for (long col = 0; col < n_cols; ++col) {
        const float normalized = (conv2_row[col] - bn2_running_mean_value) * rstd;
        const float out = normalized * bn2_weight_value + bn2_bias_value;
        const float difference = shortcut_row[col] - shortcut_running_mean_value;
        const float product = difference * shortcut_rstd * shortcut_weight_value;

        activated_row[col] = maximum(out + (product + shortcut_bias_value), 0.0f);
      }
    }
  }
}
