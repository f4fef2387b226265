// gelu: hidden = gelu(widen_out).
//
//     Mlp.forward    hidden = F.gelu(self.widen(x), approximate="tanh")
//
// Reads widen_out once, writes hidden once.

#include "vector_math.h"

constexpr float TWO_SQRT_2_OVER_PI = 1.5957692f;
constexpr long GRAIN = 4096;  // elements below which one thread does it all

// Threads divide the elements; each works through SIMD lanes.
extern "C" void gelu(
    const float *widen_out,  // (n_elements,)
    float *hidden,           // (n_elements,)
    long n_elements) {
#pragma omp parallel for simd if (parallel : n_elements >= GRAIN)
  for (long i = 0; i < n_elements; ++i) {
    const float widen_out_i = widen_out[i];
    const float cubic = widen_out_i + widen_out_i * widen_out_i * widen_out_i * 0.044715f;
    hidden[i] = widen_out_i * (1.0f / (1.0f + vector_exp(-(cubic * TWO_SQRT_2_OVER_PI))));
  }
}
