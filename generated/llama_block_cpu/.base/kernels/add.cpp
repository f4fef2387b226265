// add: out = h + mlp_out.
//
//     LlamaBlock.forward    return h + self.mlp(self.mlp_norm(h))
//
// Reads h and mlp_out once, writes out once.

constexpr long GRAIN = 32768;  // elements below which one thread does it all

// Threads divide the elements; each works through SIMD lanes.
extern "C" void add(
    const float *h,        // (n_elements,)
    const float *mlp_out,  // (n_elements,)
    float *out,            // (n_elements,); may be mlp_out
    long n_elements) {
#pragma omp parallel for simd if (parallel : n_elements >= GRAIN)
  for (long i = 0; i < n_elements; ++i) {
    out[i] = h[i] + mlp_out[i];
  }
}
