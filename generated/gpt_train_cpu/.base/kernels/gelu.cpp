// gelu: hidden = gelu(widen).
//
//     Mlp.forward    hidden = F.gelu(self.widen(x), approximate="tanh")
//
// Reads widen once, writes hidden once.

#include "vector_math.h"

constexpr float TWO_SQRT_2_OVER_PI = 1.5957692f;
constexpr long GRAIN = 4096;  // elements below which one thread does it all

// Threads divide the elements; each works through SIMD lanes.
extern "C" void gelu(
    const float *widen,  // (n_elements,)
    float *hidden,       // (n_elements,)
    long n_elements) {
#pragma omp parallel for simd if (parallel : n_elements >= GRAIN)
  for (long i = 0; i < n_elements; ++i) {
    const float widen_i = widen[i];
    const float cubic = widen_i + widen_i * widen_i * widen_i * 0.044715f;
    hidden[i] = widen_i * (1.0f / (1.0f + vector_exp(-(cubic * TWO_SQRT_2_OVER_PI))));
  }
}
