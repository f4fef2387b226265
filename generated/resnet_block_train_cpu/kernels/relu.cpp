// relu: out = relu(normed).
//
//     ResNetBlock.forward    out = F.relu(self.bn1(self.conv1(x)))
//
// Reads normed once, writes out once.

#include "torch_math.h"

constexpr long GRAIN = 32768;  // elements below which one thread does it all

// Threads divide the elements; each works through SIMD lanes.
extern "C" void relu(
    const float *normed,  // (n_elements,)
    float *out,           // (n_elements,)
    long n_elements) {
#pragma omp parallel for simd if (parallel : n_elements >= GRAIN)
  for (long i = 0; i < n_elements; ++i) {
    out[i] = maximum(normed[i], 0.0f);
  }
}
