// batch_norm_relu: out = relu(batch_norm(conv1_out)).
//
//     ResNetBlock.forward    out = F.relu(self.bn1(self.conv1(x)))
//
// Reads conv1_out once, writes out once; running_mean, running_var, weight and bias stay in cache.

#include "torch_math.h"

#include <cmath>

constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of rows.
extern "C" void batch_norm_relu(
    const float *conv1_out,     // (n_batches, n_channels, n_pixels)
    const float *running_mean,  // (n_channels,)
    const float *running_var,   // (n_channels,)
    const float *weight,        // (n_channels,)
    const float *bias,          // (n_channels,)
    float *out,                 // (n_batches, n_channels, n_pixels); may be conv1_out
    long n_batches,
    long n_channels,
    long n_pixels,
    float eps) {
#pragma omp parallel for collapse(2) if (n_batches * n_channels * n_pixels >= GRAIN)
  for (long batch = 0; batch < n_batches; ++batch) {
    for (long channel = 0; channel < n_channels; ++channel) {
      const float *conv1_out_row = conv1_out + (batch * n_channels + channel) * n_pixels;
      float *out_row = out + (batch * n_channels + channel) * n_pixels;

      const float running_mean_i = running_mean[channel];
      const float rstd = 1.0f / std::sqrt(running_var[channel] + eps);
      const float weight_i = weight[channel];
      const float bias_i = bias[channel];

#pragma omp simd
      for (long pixel = 0; pixel < n_pixels; ++pixel) {
        const float normalized = (conv1_out_row[pixel] - running_mean_i) * rstd;
        out_row[pixel] = maximum(normalized * weight_i + bias_i, 0.0f);
      }
    }
  }
}
