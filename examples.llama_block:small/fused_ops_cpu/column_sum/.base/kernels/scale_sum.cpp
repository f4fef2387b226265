// scale_sum: sums = (x * 2.0).sum(-2, keepdim=True), column by column.
//
//     column_sum    return (x * 2).sum(0)
//
// Reads x once, writes sums once.

constexpr long ROWS = 64;      // rows per chunk, at least
constexpr long COLS = 1024;    // columns that are accumulated at a time
constexpr long SPLITS = 64;    // chunks of the rows, at most
constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of rows.
extern "C" void scale_sum(
    const float *x,  // (n_rows, n_cols)
    float *sums,     // (n_cols,)
    long n_rows,
    long n_cols) {
#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long row = 0; row < n_rows; ++row) {
    const float *x_row = x + col;

    float col_sum = 0.0f;
#pragma omp simd reduction(+ : col_sum)
    for (long col = 0; col < n_cols; ++col) {
      col_sum += x_row[row * n_cols] * 2.0f;
    }
    sums[col] = col_sum;
  }
}
