// d_relu_d_batch_norm: d_weight, d_shortcut and d_bias, channel by channel:
//     d_out = d_relu(d_activated, activated)
//     d_weight = sum(d_out * normalize(shortcut))
//     d_shortcut = d_batch_norm(d_out, shortcut)
//     d_bias = sum(d_out)
//
//     ResNetBlock.forward    return F.relu(out)
//     ResNetBlock.forward    out = out + self.shortcut(x)
//
// Reads activated, d_activated, shortcut_mean, shortcut_rstd and weight once and shortcut once from memory
// and again from the cache, writes d_weight, d_shortcut and d_bias once.

constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of rows; a row stays in cache between the loops (d_out in d_shortcut). Sums in double.
extern "C" void d_relu_d_batch_norm(
    const float *activated,      // (n_batches, n_channels, n_pixels)
    const float *d_activated,    // (n_batches, n_channels, n_pixels)
    const float *shortcut,       // (n_batches, n_channels, n_pixels)
    const float *shortcut_mean,  // (n_channels,)
    const float *shortcut_rstd,  // (n_channels,)
    const float *weight,         // (n_channels,)
    float *d_weight,             // (n_channels,)
    float *d_shortcut,           // (n_batches, n_channels, n_pixels)
    float *d_bias,               // (n_channels,)
    long n_channels,
    long n_batches,
    long n_pixels) {
#pragma omp parallel for if (n_channels * n_batches * n_pixels >= GRAIN)
  for (long channel = 0; channel < n_channels; ++channel) {
    const float *activated_row = activated + channel * n_pixels;
    const float *d_activated_row = d_activated + channel * n_pixels;
    const float *shortcut_row = shortcut + channel * n_pixels;
    float *d_shortcut_row = d_shortcut + channel * n_pixels;

    const float shortcut_mean_i = shortcut_mean[channel];
    const float shortcut_rstd_i = shortcut_rstd[channel];
    const float scale = shortcut_rstd_i * weight[channel];

    double d_weight_sum = 0.0;
    double d_bias_sum = 0.0;
    for (long batch = 0; batch < n_batches; ++batch) {
#pragma omp simd reduction(+ : d_weight_sum, d_bias_sum)
      for (long pixel = 0; pixel < n_pixels; ++pixel) {
        const long at = batch * n_channels * n_pixels + pixel;
        const float d_out = activated_row[at] <= 0.0f ? 0.0f : d_activated_row[at];
        const float normalized = (shortcut_row[at] - shortcut_mean_i) * shortcut_rstd_i;
        d_shortcut_row[at] = d_out;
        d_weight_sum += d_out * normalized;
        d_bias_sum += d_out;
      }
    }
    const float through_mean = d_bias_sum / (n_batches * n_pixels);
    const float through_rstd = d_weight_sum / (n_batches * n_pixels);
    d_weight[channel] = d_weight_sum;
    d_bias[channel] = d_bias_sum;

    for (long batch = 0; batch < n_batches; ++batch) {
#pragma omp simd
      for (long pixel = 0; pixel < n_pixels; ++pixel) {
        const long at = batch * n_channels * n_pixels + pixel;
        const float normalized = (shortcut_row[at] - shortcut_mean_i) * shortcut_rstd_i;
        const float less_mean = d_shortcut_row[at] - through_mean;
        d_shortcut_row[at] = (less_mean - normalized * through_rstd) * scale;
      }
    }
  }
}
