// rotary: rotary_q = q * cos + rotate_half(q) * sin.
//
//     Rotary.forward    rotated = torch.cat([-second, first], dim=-1)
//     Rotary.forward    return x * self.cos[:seq] + rotated * self.sin[:seq]
//
// Reads q once, writes rotary_q once; cos and sin stay in cache.

constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of rows.
extern "C" void rotary(
    const float *q,    // (n_batches, n_positions, n_heads, n_cols)
    const float *cos,  // the first (n_positions, n_cols)
    const float *sin,  // the first (n_positions, n_cols)
    float *rotary_q,   // (n_batches, n_positions, n_heads, n_cols) in memory
    long n_batches,
    long n_positions,
    long n_heads,
    long n_cols,
    long half) {
#pragma omp parallel for collapse(3) if (n_batches * n_positions * n_heads * half >= GRAIN)
  for (long batch = 0; batch < n_batches; ++batch) {
    for (long position = 0; position < n_positions; ++position) {
      for (long head = 0; head < n_heads; ++head) {
        const float *q_row = q + ((batch * n_positions + position) * n_heads + head) * n_cols;
        const float *cos_row = cos + position * n_cols;
        const float *sin_row = sin + position * n_cols;
        float *rotary_q_row = rotary_q + ((batch * n_positions + position) * n_heads + head) * n_cols;

#pragma omp simd
        for (long col = 0; col < half; ++col) {
          const float first_q = q_row[col];
          const float second_q = q_row[col + half];
          rotary_q_row[col] = first_q * cos_row[col] - second_q * sin_row[col];
          rotary_q_row[col + half] = second_q * cos_row[col + half] + first_q * sin_row[col + half];
        }
      }
    }
  }
}
