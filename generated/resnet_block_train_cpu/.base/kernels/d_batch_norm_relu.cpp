// d_batch_norm_relu: d_weight, d_x and d_bias, channel by channel:
//     normalized = (x - mean) * rstd
//     masked_d_out = where(out <= 0.0, 0.0, d_out)
//     d_weight = sum(masked_d_out * normalized)
//     d_x = (masked_d_out - mean(masked_d_out) - normalized * mean(masked_d_out * normalized)) * (rstd *
//         weight)
//     d_bias = sum(masked_d_out)
//
//     ResNetBlock.forward    return F.relu(out)
//     ResNetBlock.forward    shortcut[1]: BatchNorm2d
//
// Reads out, d_out and the 3 vectors once and x once from memory and again from the cache, writes d_weight,
// d_x and d_bias once.

constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of channels; a row stays in cache between the loops (masked_d_out in d_x). Sums in
// double.
extern "C" void d_batch_norm_relu(
    const float *out,     // (n_batches, n_channels, n_pixels)
    const float *d_out,   // (n_batches, n_channels, n_pixels)
    const float *x,       // (n_batches, n_channels, n_pixels)
    const float *mean,    // (n_channels,)
    const float *rstd,    // (n_channels,)
    const float *weight,  // (n_channels,)
    float *d_weight,      // (n_channels,)
    float *d_x,           // (n_batches, n_channels, n_pixels); may be d_out
    float *d_bias,        // (n_channels,)
    long n_channels,
    long n_batches,
    long n_pixels) {
#pragma omp parallel for if (n_channels * n_batches * n_pixels >= GRAIN)
  for (long channel = 0; channel < n_channels; ++channel) {
    const float *out_row = out + channel * n_pixels;
    const float *d_out_row = d_out + channel * n_pixels;
    const float *x_row = x + channel * n_pixels;
    float *d_x_row = d_x + channel * n_pixels;

    const float mean_i = mean[channel];
    const float rstd_i = rstd[channel];
    const float scale = rstd_i * weight[channel];

    double d_weight_sum = 0.0;
    double d_bias_sum = 0.0;
    for (long batch = 0; batch < n_batches; ++batch) {
#pragma omp simd reduction(+ : d_weight_sum, d_bias_sum)
      for (long pixel = 0; pixel < n_pixels; ++pixel) {
        const long at = batch * n_channels * n_pixels + pixel;
        const float masked_d_out = out_row[at] <= 0.0f ? 0.0f : d_out_row[at];
        const float normalized = (x_row[at] - mean_i) * rstd_i;
        d_x_row[at] = masked_d_out;
        d_weight_sum += masked_d_out * normalized;
        d_bias_sum += masked_d_out;
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
        const float normalized = (x_row[at] - mean_i) * rstd_i;
        const float less_mean = d_x_row[at] - through_mean;
        d_x_row[at] = (less_mean - normalized * through_rstd) * scale;
      }
    }
  }
}
