// add_relu: activated = relu(normed + shortcut_1).
//
//     ResNetBlock.forward    out = out + self.shortcut(x)
//     ResNetBlock.forward    return F.relu(out)
//
// Reads normed and shortcut_1 once, writes activated once.

#include "torch_math.h"

constexpr long GRAIN = 32768;  // elements below which one thread does it all

// Threads divide the elements; each works through SIMD lanes.
extern "C" void add_relu(
    const float *normed,      // (n_elements,)
    const float *shortcut_1,  // (n_elements,)
    float *activated,         // (n_elements,)
    long n_elements) {
#pragma omp parallel for simd if (parallel : n_elements >= GRAIN)
  for (long i = 0; i < n_elements; ++i) {
    const float out = normed[i] + shortcut_1[i];
    activated[i] = maximum(out, 0.0f);
  }
}
