// swiglu: gated = silu(a) * b.
//
//     swiglu    return F.silu(a) * b
//
// Reads a and b once, writes gated once.

#include "vector_math.h"

constexpr long GRAIN = 4096;  // elements below which one thread does it all

// Threads divide the elements; each works through SIMD lanes.
extern "C" void swiglu(
    const float *a,  // (n_elements,)
    const float *b,  // (n_elements,)
    float *gated,    // (n_elements,)
    long n_elements) {
#pragma omp parallel for simd if (parallel : n_elements >= GRAIN)
  for (long i = 0; i < n_elements; ++i) {
    const float a_i = a[i];
    gated[i] = a_i * (1.0f / (1.0f + vector_exp(-a_i))) * b[i];
  }
}
