// d_relu_d_batch_norm: d_out = d_relu(d_activated, activated); d_weight = sum(d_out * normalize(shortcut));
// d_shortcut = d_batch_norm(d_out, shortcut); d_bias = sum(d_out), row by row.
//
//     ResNetBlock.forward    return F.relu(out)
//     ResNetBlock.forward    out = out + self.shortcut(x)
//
// Reads activated, d_activated, shortcut_mean, shortcut_rstd and weight once and shortcut once from memory
// and again from the cache, writes d_weight, d_shortcut and d_bias once.

constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of rows; a row stays in cache between the loops (d_out in d_shortcut). Sums in double.
extern "C" void d_relu_d_batch_norm(
    const float *activated,      // (n_lanes, n_rows, n_cols)
    const float *d_activated,    // (n_lanes, n_rows, n_cols)
    const float *shortcut,       // (n_lanes, n_rows, n_cols)
    const float *shortcut_mean,  // (n_rows,)
    const float *shortcut_rstd,  // (n_rows,)
    const float *weight,         // (n_rows,)
    float *d_weight,             // (n_rows,)
    float *d_shortcut,           // (n_lanes, n_rows, n_cols)
    float *d_bias,               // (n_rows,)
    long n_rows,
    long n_lanes,
    long n_cols) {
#pragma omp parallel for if (n_rows * n_lanes * n_cols >= GRAIN)
  for (long row = 0; row < n_rows; ++row) {
    const float *activated_row = activated + row * n_cols;
    const float *d_activated_row = d_activated + row * n_cols;
    const float *shortcut_row = shortcut + row * n_cols;
    float *d_shortcut_row = d_shortcut + row * n_cols;

    const float shortcut_mean_value = shortcut_mean[row];
    const float shortcut_rstd_value = shortcut_rstd[row];
    const float scale = shortcut_rstd_value * weight[row];

    double d_weight_sum = 0.0;
    double d_bias_sum = 0.0;
    for (long lane_index = 0; lane_index < n_lanes; ++lane_index) {
#pragma omp simd reduction(+ : d_weight_sum, d_bias_sum)
      for (long col = 0; col < n_cols; ++col) {
        const long at = lane_index * n_rows * n_cols + col;
        const float d_out = activated_row[at] <= 0.0f ? 0.0f : d_activated_row[at];
        const float normalized = (shortcut_row[at] - shortcut_mean_value) * shortcut_rstd_value;
        d_shortcut_row[at] = d_out;
        d_weight_sum += d_out * normalized;
        d_bias_sum += d_out;
      }
    }
    const float through_mean = d_bias_sum / (n_lanes * n_cols);
    const float through_rstd = d_weight_sum / (n_lanes * n_cols);
    d_weight[row] = d_weight_sum;
    d_bias[row] = d_bias_sum;

    for (long lane_index = 0; lane_index < n_lanes; ++lane_index) {
#pragma omp simd
      for (long col = 0; col < n_cols; ++col) {
        const long at = lane_index * n_rows * n_cols + col;
        const float normalized = (shortcut_row[at] - shortcut_mean_value) * shortcut_rstd_value;
        const float less_mean = d_shortcut_row[at] - through_mean;
        d_shortcut_row[at] = (less_mean - normalized * through_rstd) * scale;
      }
    }
  }
}
