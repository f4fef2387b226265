// bias_gelu: gelu(x + bias).

#include "bfloat16.h"
#include "vector_math.h"

constexpr float SCALE = 0.70710677f;  // 2**-0.5
constexpr long GRAIN = 32768;         // elements: with fewer, starting the threads costs more than it saves

// Threads divide the elements; each works through SIMD lanes.
extern "C" void bias_gelu(
    const bfloat16 *x,  // (n,)
    const float *bias,  // (n,)
    bfloat16 *out,      // (n,); may be x
    long n) {
#pragma omp parallel for simd if (parallel : n >= GRAIN)
  for (long i = 0; i < n; ++i) {
    const float y = x[i] + bias[i];
    out[i] = y * (vector_erf(y * SCALE) + 1.0f) * 0.5f;
  }
}
