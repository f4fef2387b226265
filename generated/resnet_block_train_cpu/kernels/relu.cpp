// relu: out = relu(bn1).
//
//     ResNetBlock.forward    out = F.relu(self.bn1(self.conv1(x)))
//
// Reads bn1 once, writes out once.

#include "torch_math.h"

constexpr long GRAIN = 32768;  // elements below which one thread does it all

// Threads divide the elements; each works through SIMD lanes.
extern "C" void relu(
    const float *bn1,  // (n_elements,)
    float *out,        // (n_elements,)
    long n_elements) {
#pragma omp parallel for simd if (parallel : n_elements >= GRAIN)
  for (long i = 0; i < n_elements; ++i) {
    out[i] = maximum(bn1[i], 0.0f);
  }
}
