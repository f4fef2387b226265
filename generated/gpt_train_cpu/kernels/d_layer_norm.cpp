// d_layer_norm: d_x by mul, mean and sub in one pass, row by row.
//
//     GPT.forward    return self.head(self.ln_f(x))
//
// Reads d_ln_f and ln_f once and gpt once from memory and again from the cache, writes d_x once; weight stays
// in cache.

constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of rows; a row stays in cache between the loops.
extern "C" void d_layer_norm(
    const float *d_ln_f,  // (n_rows, n_cols)
    const float *weight,  // (n_cols,)
    const float *gpt,     // (n_rows, n_cols)
    const float *ln_f,    // (n_rows,)
    float *d_x,           // (n_rows, n_cols); may be d_ln_f
    long n_rows,
    long n_cols) {
#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long row = 0; row < n_rows; ++row) {
    const float *d_ln_f_row = d_ln_f + row * n_cols;
    const float *gpt_row = gpt + row * n_cols;
    float *d_x_row = d_x + row * n_cols;

    const float ln_f_value = ln_f[row];

    float row_sum = 0.0f;
    float product_sum = 0.0f;
#pragma omp simd reduction(+ : row_sum, product_sum)
    for (long col = 0; col < n_cols; ++col) {
      const float product = d_ln_f_row[col] * weight[col];
      d_x_row[col] = product;
      row_sum += product * gpt_row[col];
      product_sum += product;
    }
    const float row_ratio = row_sum / n_cols;
    const float row_ratio_value = product_sum / n_cols;

#pragma omp simd
    for (long col = 0; col < n_cols; ++col) {
      const float difference = d_x_row[col] - gpt_row[col] * row_ratio - row_ratio_value;
      d_x_row[col] = difference * ln_f_value;
    }
  }
}
