// softmax_over_channels: a test.

#include "torch_math.h"
#include "vector_math.h"

#include <algorithm>
#include <cmath>

constexpr long COLS = 256;    // columns that are accumulated at a time
constexpr long GRAIN = 4096;  // elements below which one thread does it all

// One thread per n and block of columns; it walks down the channels.
extern "C" void softmax_over_channels(
    const float *x,  // (n_n, n_channel, n_pixel)
    float *out,      // (n_n, n_channel, n_pixel)
    long n_channel,
    long n_n,
    long n_pixel) {
#pragma omp parallel for collapse(2) if (n_channel * n_n * n_pixel >= GRAIN)
  for (long n = 0; n < n_n; ++n) {
    for (long begin = 0; begin < n_pixel; begin += COLS) {
      const long end = std::min(begin + COLS, n_pixel);
      float max_value[COLS];
      float sum_value[COLS];
      std::fill_n(max_value, COLS, -INFINITY);
      std::fill_n(sum_value, COLS, 0.0f);

      for (long channel = 0; channel < n_channel; ++channel) {
        const float *x_row = x + (n * n_channel + channel) * n_pixel;
#pragma omp simd
        for (long pixel = begin; pixel < end; ++pixel) {
          max_value[pixel - begin] = maximum(max_value[pixel - begin], x_row[pixel]);
        }
      }

      for (long channel = 0; channel < n_channel; ++channel) {
        const float *x_row = x + (n * n_channel + channel) * n_pixel;
#pragma omp simd
        for (long pixel = begin; pixel < end; ++pixel) {
          const float exp_value = vector_exp(x_row[pixel] - max_value[pixel - begin]);
          sum_value[pixel - begin] += exp_value;
        }
      }

      for (long channel = 0; channel < n_channel; ++channel) {
        const float *x_row = x + (n * n_channel + channel) * n_pixel;
        float *out_row = out + (n * n_channel + channel) * n_pixel;
#pragma omp simd
        for (long pixel = begin; pixel < end; ++pixel) {
          const float exp_value = vector_exp(x_row[pixel] - max_value[pixel - begin]);
          out_row[pixel] = exp_value / sum_value[pixel - begin];
        }
      }
    }
  }
}
