// swiglu: gated = silu(gate_proj) * up_proj.
//
//     SwiGLU.forward    gated = F.silu(self.gate_proj(x)) * self.up_proj(x)
//
// Reads gate_proj and up_proj once, writes gated once.

#include "vector_math.h"

constexpr long GRAIN = 4096;  // elements below which one thread does it all

// Threads divide the elements; each works through SIMD lanes.
extern "C" void swiglu(
    const float *gate_proj,  // (n_elements,)
    const float *up_proj,    // (n_elements,)
    float *gated,            // (n_elements,); may be up_proj
    long n_elements) {
#pragma omp parallel for simd if (parallel : n_elements >= GRAIN)
  for (long i = 0; i < n_elements; ++i) {
    const float gate_proj_i = gate_proj[i];
    gated[i] = gate_proj_i * (1.0f / (1.0f + vector_exp(-gate_proj_i))) * up_proj[i];
  }
}
