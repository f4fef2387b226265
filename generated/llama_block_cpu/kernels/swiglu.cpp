// swiglu: gated = silu(gate_proj_out) * up_proj_out.
//
//     SwiGLU.forward    gated = F.silu(self.gate_proj(x)) * self.up_proj(x)
//
// Reads gate_proj_out and up_proj_out once, writes gated once.

#include "vector_math.h"

constexpr long GRAIN = 4096;  // elements below which one thread does it all

// Threads divide the elements; each works through SIMD lanes.
extern "C" void swiglu(
    const float *gate_proj_out,  // (n_elements,)
    const float *up_proj_out,    // (n_elements,)
    float *gated,                // (n_elements,); may be up_proj_out
    long n_elements) {
#pragma omp parallel for simd if (parallel : n_elements >= GRAIN)
  for (long i = 0; i < n_elements; ++i) {
    const float gate_proj_out_i = gate_proj_out[i];
    const float activated = gate_proj_out_i * (1.0f / (1.0f + vector_exp(-gate_proj_out_i)));
    gated[i] = activated * up_proj_out[i];
  }
}
