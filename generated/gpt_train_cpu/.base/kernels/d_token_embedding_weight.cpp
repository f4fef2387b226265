// d_token_embedding_weight: d_token_embedding = unscaled_d_token_embedding * d_loss +
// d_token_embedding_from_lookup.
//
//     GPT.forward    return self.head(self.ln_f(x))
//
// Reads unscaled_d_token_embedding and d_token_embedding_from_lookup once, writes d_token_embedding once;
// d_loss stays in cache.

constexpr long GRAIN = 32768;  // elements below which one thread does it all

// Threads divide the elements; each works through SIMD lanes.
extern "C" void d_token_embedding_weight(
    const float *unscaled_d_token_embedding,     // (n_elements,)
    const float *d_loss,                         // one element
    const float *d_token_embedding_from_lookup,  // (n_elements,)
    float *d_token_embedding,                    // (n_elements,); may be d_token_embedding_from_lookup
    long n_elements) {
  const float d_loss_0 = d_loss[0];
#pragma omp parallel for simd if (parallel : n_elements >= GRAIN)
  for (long i = 0; i < n_elements; ++i) {
    const float d_token_embedding_from_head = unscaled_d_token_embedding[i] * d_loss_0;
    d_token_embedding[i] = d_token_embedding_from_head + d_token_embedding_from_lookup[i];
  }
}
