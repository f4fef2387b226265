// rotary: rotary_q = q * rotary_cos + rotate_half(q) * rotary_sin.
//
//     Rotary.forward    rotated = torch.cat([-second, first], dim=-1)
//     Rotary.forward    return x * self.cos[:seq] + rotated * self.sin[:seq]
//
// Reads q once from memory and again from the cache, writes rotary_q once; rotary_cos and rotary_sin stay in
// cache.

constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of rows.
extern "C" void rotary(
    const float *q,           // (n_batches, n_positions, n_heads, n_cols)
    const float *rotary_cos,  // the first (n_positions, n_cols)
    const float *rotary_sin,  // the first (n_positions, n_cols)
    float *rotary_q,          // (n_batches, n_positions, n_heads, n_cols) in memory
    long n_batches,
    long n_positions,
    long n_heads,
    long n_cols,
    long half) {
#pragma omp parallel for collapse(3) if (n_batches * n_positions * n_heads * n_cols >= GRAIN)
  for (long batch = 0; batch < n_batches; ++batch) {
    for (long position = 0; position < n_positions; ++position) {
      for (long head = 0; head < n_heads; ++head) {
        const float *q_row = q + ((batch * n_positions + position) * n_heads + head) * n_cols;
        const float *rotary_cos_row = rotary_cos + position * n_cols;
        const float *rotary_sin_row = rotary_sin + position * n_cols;
        float *rotary_q_row = rotary_q + ((batch * n_positions + position) * n_heads + head) * n_cols;

#pragma omp simd
        for (long col = 0; col < n_cols; ++col) {
          const bool in_first_half = col < half;
          const float second_half = in_first_half ? q_row[col + half] : 0.0f;
          const float first_half = !in_first_half ? q_row[col - half] : 0.0f;
          const float rotated = in_first_half ? -second_half : first_half;

          rotary_q_row[col] = q_row[col] * rotary_cos_row[col] + rotated * rotary_sin_row[col];
        }
      }
    }
  }
}
