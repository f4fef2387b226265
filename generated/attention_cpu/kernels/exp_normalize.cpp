// exp_normalize: normalized = exp(out) / sum(exp(out)), row by row.
//
//     Attention.forward    out = torch.exp(out) / torch.sum(torch.exp(out), dim=-1, keepdim=True)
//
// Reads out once, writes normalized once.

#include "vector_math.h"

constexpr long GRAIN = 4096;  // elements below which one thread does it all

// One thread per block of rows; a row stays in cache between the loops (exp_out in normalized). Sums in
// double.
extern "C" void exp_normalize(
    const float *out,   // (n_rows, n_cols)
    float *normalized,  // (n_rows, n_cols); may be out
    long n_rows,
    long n_cols) {
#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long row = 0; row < n_rows; ++row) {
    const float *out_row = out + row * n_cols;
    float *normalized_row = normalized + row * n_cols;

    double wide_row_sum = 0.0;
#pragma omp simd reduction(+ : wide_row_sum)
    for (long col = 0; col < n_cols; ++col) {
      const float exp_out = vector_exp(out_row[col]);
      normalized_row[col] = exp_out;
      wide_row_sum += exp_out;
    }
    const float row_sum = wide_row_sum;

#pragma omp simd
    for (long col = 0; col < n_cols; ++col) {
      normalized_row[col] = normalized_row[col] / row_sum;
    }
  }
}
