// batch_norms_add_relu: activated = relu(batch_norm(conv2_out) + batch_norm(shortcut_out)).
//
//     ResNetBlock.forward    out = self.bn2(self.conv2(out))
//     ResNetBlock.forward    out = out + self.shortcut(x)
//     ResNetBlock.forward    return F.relu(out)
//
// Reads conv2_out and shortcut_out once, writes activated once; the 8 vectors stay in cache.

#include "torch_math.h"

#include <cmath>

constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of rows.
extern "C" void batch_norms_add_relu(
    const float *conv2_out,              // (n_batches, n_channels, n_pixels)
    const float *bn2_running_mean,       // (n_channels,)
    const float *bn2_running_var,        // (n_channels,)
    const float *bn2_weight,             // (n_channels,)
    const float *bn2_bias,               // (n_channels,)
    const float *shortcut_out,           // (n_batches, n_channels, n_pixels)
    const float *shortcut_running_mean,  // (n_channels,)
    const float *shortcut_running_var,   // (n_channels,)
    const float *shortcut_weight,        // (n_channels,)
    const float *shortcut_bias,          // (n_channels,)
    float *activated,                    // (n_batches, n_channels, n_pixels); may be shortcut_out
    long n_batches,
    long n_channels,
    long n_pixels,
    float eps) {
#pragma omp parallel for collapse(2) if (n_batches * n_channels * n_pixels >= GRAIN)
  for (long batch = 0; batch < n_batches; ++batch) {
    for (long channel = 0; channel < n_channels; ++channel) {
      const float *conv2_out_row = conv2_out + (batch * n_channels + channel) * n_pixels;
      const float *shortcut_out_row = shortcut_out + (batch * n_channels + channel) * n_pixels;
      float *activated_row = activated + (batch * n_channels + channel) * n_pixels;

      const float bn2_running_mean_i = bn2_running_mean[channel];
      const float rstd = 1.0f / std::sqrt(bn2_running_var[channel] + eps);
      const float bn2_weight_i = bn2_weight[channel];
      const float bn2_bias_i = bn2_bias[channel];
      const float shortcut_running_mean_i = shortcut_running_mean[channel];
      const float shortcut_rstd = 1.0f / std::sqrt(shortcut_running_var[channel] + eps);
      const float shortcut_weight_i = shortcut_weight[channel];
      const float shortcut_bias_i = shortcut_bias[channel];

#pragma omp simd
      for (long pixel = 0; pixel < n_pixels; ++pixel) {
        const float normalized = (conv2_out_row[pixel] - bn2_running_mean_i) * rstd;
        const float out = normalized * bn2_weight_i + bn2_bias_i;
        const float centered = shortcut_out_row[pixel] - shortcut_running_mean_i;
        const float weighted = centered * shortcut_rstd * shortcut_weight_i;

        activated_row[pixel] = maximum(out + (weighted + shortcut_bias_i), 0.0f);
      }
    }
  }
}
