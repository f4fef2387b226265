// pad: d_position_embedding = d_position_embedding_out, with zeros after its n_filled rows.
//
//     GPT.forward    x = self.token_embedding(tokens) + self.position_embedding(positions)
//
// Reads d_position_embedding_out once, writes d_position_embedding once.

constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of rows.
extern "C" void pad(
    const float *d_position_embedding_out,  // (n_filled, n_cols)
    float *d_position_embedding,            // (n_rows, n_cols)
    long n_rows,
    long n_cols,
    long n_filled) {
#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long row = 0; row < n_rows; ++row) {
    const float *d_position_embedding_out_row = d_position_embedding_out + row * n_cols;
    float *d_position_embedding_row = d_position_embedding + row * n_cols;

    const bool is_filled = row < n_filled;

#pragma omp simd
    for (long col = 0; col < n_cols; ++col) {
      const float d_position_embedding_out_i = is_filled ? d_position_embedding_out_row[col] : 0.0f;
      d_position_embedding_row[col] = d_position_embedding_out_i;
    }
  }
}
