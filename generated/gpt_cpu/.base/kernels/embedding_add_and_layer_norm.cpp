// embedding_add_and_layer_norm: x = token_embedding[tokens] + position_embedding; normed = layer_norm(x).
//
//     GPT.forward    x = self.token_embedding(tokens) + self.position_embedding(positions)
//     Block.forward    x = x + self.attn(self.ln_1(x))
//
// Reads tokens once, position_embedding once for each batch and token_embedding where tokens says, writes x
// and normed once; weight and bias stay in cache.

#include <cmath>
#include <cstdint>

constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of rows; a row stays in cache between the loops. Sums in double.
extern "C" void embedding_add_and_layer_norm(
    const int64_t *tokens,            // (n_batches, n_positions)
    const float *token_embedding,     // (table_size, dim)
    const float *position_embedding,  // the first (n_positions, dim)
    const float *weight,              // (dim,)
    const float *bias,                // (dim,)
    float *x,                         // (n_batches, n_positions, dim)
    float *normed,                    // (n_batches, n_positions, dim)
    long n_batches,
    long n_positions,
    long dim,
    long table_size,
    float eps) {
#pragma omp parallel for collapse(2) if (n_batches * n_positions * dim >= GRAIN)
  for (long batch = 0; batch < n_batches; ++batch) {
    for (long position = 0; position < n_positions; ++position) {
      const float *position_embedding_row = position_embedding + position * dim;
      float *x_row = x + (batch * n_positions + position) * dim;
      float *normed_row = normed + (batch * n_positions + position) * dim;

      const int64_t token = tokens[batch * n_positions + position];
      const bool in_table = token >= 0 && token < table_size;
      const float *token_embedding_row = token_embedding + token * dim;

      double row_sum = 0.0;
#pragma omp simd reduction(+ : row_sum)
      for (long col = 0; col < dim; ++col) {
        const float token_embedding_i = in_table ? token_embedding_row[col] : NAN;
        const float embedded = token_embedding_i + position_embedding_row[col];
        x_row[col] = embedded;
        row_sum += embedded;
      }
      const float mean = row_sum / dim;

      double sum_of_squares = 0.0;
#pragma omp simd reduction(+ : sum_of_squares)
      for (long col = 0; col < dim; ++col) {
        const float centered = x_row[col] - mean;
        sum_of_squares += centered * centered;
      }
      const float variance = sum_of_squares / dim;
      const float rstd = 1.0f / std::sqrt(variance + eps);

#pragma omp simd
      for (long col = 0; col < dim; ++col) {
        const float centered = x_row[col] - mean;
        const float normalized = centered * rstd;
        normed_row[col] = normalized * weight[col] + bias[col];
      }
    }
  }
}
