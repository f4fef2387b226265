// add: total = x + y, in square tiles.
//
//     transpose_add    return x.t().contiguous() + y
//
// Reads x and y once, writes total once.

constexpr long TILE = 32;      // rows and columns of a tile
constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of rows.
extern "C" void add(
    const float *x,  // (n_cols, n_rows)
    const float *y,  // (n_rows, n_cols)
    float *total,    // (n_rows, n_cols)
    long n_rows,
    long n_cols) {
#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long row = 0; row < n_rows; ++row) {
    const float *x_row = x + row;
    const float *y_row = y + row * n_cols;
    float *total_row = total + row * n_cols;

#pragma omp simd
    for (long col = 0; col < n_cols; ++col) {
      total_row[col] = x_row[col * n_rows] + y_row[col];
    }
  }
}
