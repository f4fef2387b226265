// mul_add: mul and add in one pass, from gpt_x and token_embedding to d_weight and d_weight_contiguous.
//
//     GPT.forward    return self.head(self.ln_f(x))
//     GPT.forward    x = self.token_embedding(tokens) + self.position_embedding(positions)
//
// Reads gpt_x, d_cross_entropy_loss and token_embedding once, writes d_weight and d_weight_contiguous once.

constexpr long GRAIN = 32768;  // elements below which one thread does it all

// Threads divide the elements; each works through SIMD lanes.
extern "C" void mul_add(
    const float *gpt_x,                 // (n_elements,)
    const float *d_cross_entropy_loss,  // one element
    const float *token_embedding,       // (n_elements,)
    float *d_weight,                    // (n_elements,)
    float *d_weight_contiguous,         // (n_elements,)
    long n_elements) {
  const float d_cross_entropy_loss_value = d_cross_entropy_loss[0];
#pragma omp parallel for simd if (parallel : n_elements >= GRAIN)
  for (long i = 0; i < n_elements; ++i) {
    const float d_gpt_token_embedding_weight = gpt_x[i] * d_cross_entropy_loss_value + token_embedding[i];
    d_weight[i] = d_gpt_token_embedding_weight;
    d_weight_contiguous[i] = d_gpt_token_embedding_weight;
  }
}
