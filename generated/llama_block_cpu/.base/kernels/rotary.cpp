// rotary: out = x * cos + rotate_half(x) * sin.
//
//     Rotary.forward    rotated = torch.cat([-second, first], dim=-1)
//     Rotary.forward    return x * self.cos[:seq] + rotated * self.sin[:seq]
//
// Reads x once and cos and sin once for each batch and head, writes out once.

constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of rows.
extern "C" void rotary(
    const float *x,    // (n_batches, n_positions, n_heads, head_dim)
    const float *cos,  // the first (n_positions, head_dim)
    const float *sin,  // the first (n_positions, head_dim)
    float *out,        // (n_batches, n_positions, n_heads, head_dim) in memory
    long n_batches,
    long n_positions,
    long n_heads,
    long head_dim,
    long half) {
#pragma omp parallel for collapse(3) if (n_batches * n_positions * n_heads * half >= GRAIN)
  for (long batch = 0; batch < n_batches; ++batch) {
    for (long position = 0; position < n_positions; ++position) {
      for (long head = 0; head < n_heads; ++head) {
        const float *x_row = x + ((batch * n_positions + position) * n_heads + head) * head_dim;
        const float *cos_row = cos + position * head_dim;
        const float *sin_row = sin + position * head_dim;
        float *out_row = out + ((batch * n_positions + position) * n_heads + head) * head_dim;

#pragma omp simd
        for (long col = 0; col < half; ++col) {
          const float first_x = x_row[col];
          const float second_x = x_row[col + half];
          out_row[col] = first_x * cos_row[col] - second_x * sin_row[col];
          out_row[col + half] = second_x * cos_row[col + half] + first_x * sin_row[col + half];
        }
      }
    }
  }
}
